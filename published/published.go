// Package published replays tables that others have published: every row is predicted and
// compared with what the paper says.
//
// A table is data. Its numbers are a CSV file in testdata, with the source at its head. What
// they are is said by tables/NAME.toml, and tables/order.txt lists the names as they are
// reported. A new table is these two files, its name in the list and its ceilings in
// testdata/ceilings.csv:
//
//	title = "iteration times of GPTs on up to 8 A100"
//	figure = "gpts"                  # the scatter plot that it is drawn in
//	paper = "Doe et al. 2026, arXiv 2601.00001"
//	place = "table 3"
//	data = "doe.csv"
//	unit = "ms"
//	label = "{layers} layers over {tp} devices"
//	published = "iteration_ms"       # a column
//	predicted = "step * 1e3"         # a quantity of the prediction, in seconds
//	used = "line % 2 == 1"           # rows that constants were fitted to
//	fitted = """
//	the rate of the device, from every second row"""
//
//	[config.schedule]                # what a row stands for: psim help config
//	name = "1f1b"
//	stages = "{pp}"
//	[config.model]
//	...
//
// A column whose name has a dot is a setting by itself. Published, predicted and used are
// expressions (package formula), and other texts may have expressions in braces. These see the
// columns of the data, those that the table or a series of it adds under columns, cells of
// other lists (lookups), settings, the quantities of quantity.go and the functions of
// quantity.go and rules.go; [Study] has all keys, and row.Value all names. Go is needed only
// for a quantity that no table has compared so far.
//
// Where constants are fitted, rows that the fit has used say so and are left out of the errors.
// make fit computes the constants again, and make fit-check holds the data to them.
package published

// A DataPoint is one number of a table, published and predicted.
type DataPoint struct {
	Label     string  `json:"label"`
	Unit      string  `json:"unit"` // of both numbers; "" for fractions
	Published float64 `json:"published"`
	Predicted float64 `json:"predicted"`
	// Used rows were fitted to, and do not count in the table's errors.
	Used bool `json:"used"`
	// Stack and Device are what trained, of training runs.
	Stack  string `json:"stack,omitempty"`
	Device string `json:"device,omitempty"`
	// Training is what is trained on how many devices, whatever the plan; rows that share
	// it are plans of one training.
	Training string `json:"training,omitempty"`
	// Facets classify a training run.
	Facets []Facet `json:"facets,omitempty"`
	// Verdict is that on the memory of a training run, which has run.
	Verdict string `json:"memory_verdict,omitempty"`
	// Parts split the error where the source allows: each is a part's
	// predicted minus published amount, as a fraction of Published.
	Parts []Part `json:"parts,omitempty"`
	// Alternatives are what other explanations of the row predict, where it is
	// not settled which is right.
	Alternatives []Alternative `json:"alternatives,omitempty"`
}

// An Alternative is another prediction of a row.
type Alternative struct {
	Name      string  `json:"name"`
	Predicted float64 `json:"predicted"`
}

// A Part is what one part adds to the error of a row.
type Part struct {
	Name  string  `json:"name"`
	Error float64 `json:"error"`
}

// Error returns by how much the prediction is too high, as a fraction of what was
// published.
func (r DataPoint) Error() float64 { return r.Predicted/r.Published - 1 }
