// Package published replays tables that others have published: every row is
// predicted and compared with what the paper says.
//
// A table is one file with a function that returns a Table, a row in catalog
// (table.go), and its data in testdata, with the paper, the table and the place
// it was read from at the head of the file. Where constants are fitted, rows that
// the fit has used say so and are left out of the errors.
package published

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"psim/internal/nearest"
)

// A Table is a published table that psim can predict.
type Table struct {
	Name  string // unique, such as "korthikanti-2022-table-5"
	Title string // what is measured, in a few words
	Paper string
	Place string // table and page, or where the data were read
	// Fitted says which constants come from which rows; empty where nothing
	// was fitted.
	Fitted string
	// Device says where a device's constants are from, which others were fitted
	// to; empty where there are none.
	Device string
	// Claim is the best that any other tool says of the same or a like table,
	// with its source; empty where none is known.
	Claim string
	// Note is what a reader must know besides, such as where the rest of the
	// error is; empty lines part its paragraphs.
	Note string
	// Figure names the scatter plot; tables with the same name share one, and
	// must have one unit.
	Figure string
	// Rows predicts all rows.
	Rows func() ([]Row, error)
}

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

// rowsPer predicts rows for each entry of a list.
func rowsPer[T any](list []T, predict func(T) ([]Row, error)) ([]Row, error) {
	var rows []Row
	for _, entry := range list {
		more, err := predict(entry)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

func rowPer[T any](list []T, predict func(T) (Row, error)) ([]Row, error) {
	return rowsPer(list, func(entry T) ([]Row, error) {
		row, err := predict(entry)
		return []Row{row}, err
	})
}

func catalog() []Table {
	return slices.Concat([]Table{
		zeroBubbleTable5(), zeroBubbleTable5Interleaved(), dualPipeBubbles(),
		zeroBubbleTable4(), zeroBubbleTable4Bare(), zeroBubbleTable4Schedules(),
		korthikantiTable5(), korthikantiTable4(),
		korthikantiActivations(), korthikantiShares(),
		narayananTable2(), llama3405B(), vtrainSingleNode(),
		gpt24090D(), coursePipeline(), cs1390Ratios(), cs1390Times(),
		ncclTable("vtrain-2024-nccl-a100", "nccl_a100.csv", "nvlink3-a100"),
		ncclTable("vtrain-2024-nccl-v100", "nccl_v100.csv", "nvlink2-v100"),
		ncclOthers(), rcclMachines(), deepEP(), attentionRates(),
	}, trainingRuns(), []Table{megatronBridge(), deepSeekV3()}, memoryTables())
}

// Select returns the tables of some names, all if there are none. What is no
// table's whole name stands for all that go on after it with "-": zero-bubble for
// zero-bubble-2023-table-5.
func Select(names []string) ([]Table, error) {
	all := catalog()
	if len(names) == 0 {
		return all, nil
	}
	wanted := map[string]bool{}
	for _, name := range names {
		exact := slices.ContainsFunc(all, func(t Table) bool { return t.Name == name })
		found := false
		for _, t := range all {
			if t.Name == name || !exact && strings.HasPrefix(t.Name, name+"-") {
				found, wanted[t.Name] = true, true
			}
		}
		if !found {
			var known []string
			for _, t := range all {
				known = append(known, t.Name)
			}
			return nil, fmt.Errorf("unknown published table %q%s", name, cmp.Or(nearest.Suggest(name, known), "; use one of "+strings.Join(known, ", ")))
		}
	}
	return slices.DeleteFunc(all, func(t Table) bool { return !wanted[t.Name] }), nil
}
