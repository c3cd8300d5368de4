// Package published replays tables that others have published: every row is predicted and
// compared with what the paper says.
//
// A table is data: tables/NAME.toml says where it is from, what configuration a row stands
// for and which quantity of its prediction is compared; the rows are in testdata, a CSV file
// with the source at its head. A new table needs no Go unless it compares a quantity that no
// other table has (quantity.go). Where constants are fitted, rows that the fit has used say
// so and are left out of the errors.
package published

// A Row is one number of a table.
type Row struct {
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
func (r Row) Error() float64 { return r.Predicted/r.Published - 1 }
