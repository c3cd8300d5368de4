// Package published replays tables that others have published: it predicts every row and compares the
// prediction with the number of the paper.
//
// A table is data. Its numbers are a CSV file in testdata, with the source at its head.
// tables/NAME.toml describes them, and tables/order.txt lists the names in the order of reports. A new
// table needs these two files, its name in the list, and its ceilings in testdata/ceilings.csv:
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
//	[config.schedule]                # the configuration of a row: psim help config
//	name = "1f1b"
//	stages = "{pp}"
//	[config.model]
//	...
//
// A column whose name has a dot is a setting by itself. Published, predicted and used are expressions
// (package formula), and other texts may have expressions in braces. Expressions may use the columns of
// the data, the columns that the table or a series adds, cells of other lists (lookups), settings, the
// quantities of quantity.go and the functions of quantity.go and rules.go. [Study] has all keys, and
// row.Value all names. Go is needed only for a quantity that no table has compared so far.
//
// If constants were fitted to some rows, these rows are marked as used and left out of the errors. make
// fit computes the constants again, and make fit-check compares the data with them.
package published

import "psim/intervals"

// A DataPoint is one number of a table, published and predicted.
type DataPoint struct {
	Label     string  `json:"label"`
	Unit      string  `json:"unit"` // of both numbers; "" for fractions
	Published float64 `json:"published"`
	Predicted float64 `json:"predicted"`
	// Used: constants were fitted to the row, so it does not count in the table's errors.
	Used bool `json:"used"`
	// Source published a training run, which ran on the cluster Site. Guessed lists the inputs that the
	// source does not print.
	Source  string `json:"source,omitempty"`
	Site    string `json:"site,omitempty"`
	Guessed string `json:"guessed,omitempty"`
	// Stack and Device are the software and the device of a training run.
	Stack  string `json:"stack,omitempty"`
	Device string `json:"device,omitempty"`
	// Precision and Mixture are the precision of a training run, and whether its network is a mixture
	// of experts.
	Precision string `json:"precision,omitempty"`
	Mixture   bool   `json:"mixture,omitempty"`
	// Training names the network and the number of devices of a training run, without its plan.
	// Rows with the same Training are plans of one training.
	Training string `json:"training,omitempty"`
	// Facets classify a training run.
	Facets []Facet `json:"facets,omitempty"`
	// Verdict is the prediction whether a training run fits in memory. All did fit but those of StudyResult.Failed.
	Verdict string `json:"memory_verdict,omitempty"`
	// Parts divide the error, if the source allows it: each is the predicted minus the published
	// amount of a part, as a fraction of Published.
	Parts []Part `json:"parts,omitempty"`
	// Alternatives are the predictions of other explanations of the row, if it is open which of
	// them is right.
	Alternatives []Alternative `json:"alternatives,omitempty"`

	under intervals.Conditions // of a training run
}

// An Alternative is another prediction of a row.
type Alternative struct {
	Name      string  `json:"name"`
	Predicted float64 `json:"predicted"`
}

// A Part is the share of one part in the error of a row.
type Part struct {
	Name  string  `json:"name"`
	Error float64 `json:"error"`
}

// Error returns by how much the prediction is too high, as a fraction of the published number.
func (r DataPoint) Error() float64 { return r.Predicted/r.Published - 1 }
