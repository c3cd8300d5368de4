package published

import (
	"cmp"
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"psim/configs/catalog"
	"psim/internal/nearest"
)

//go:embed tables testdata
var data embed.FS

// A Study is a published table that psim can predict. The file tables/NAME.toml describes it. It has one
// row for each record of Data, or several with Series. Texts that are called expressions are evaluated
// by package formula, over the names that [row.Value] lists; all other texts may have expressions in
// braces.
type Study struct {
	Name  string `toml:"-"` // such as "korthikanti-2022-table-5"
	Title string `toml:"title"`
	// Figure names the scatter plot; tables with the same name share one, and must have one
	// unit.
	Figure string       `toml:"figure"`
	Paper  catalog.Text `toml:"paper"`
	Place  catalog.Text `toml:"place"` // table and page, or where the data were read
	// Fitted says which constants come from which rows; empty if nothing was fitted.
	Fitted catalog.Text `toml:"fitted"`
	// Device says where the constants of the device are from, if they were fitted to other data.
	Device catalog.Text `toml:"device"`
	// Claim is the best claim of any other tool for the same or a similar table, with its source;
	// empty if none is known.
	Claim catalog.Text `toml:"claim"`
	// Source names the document, program or release that published a row, if the row is a training,
	// and Site the cluster that it ran on: texts. Rows without a source are left out of means over sources.
	// Apart says why all rows of the table are left out. Guessed lists the inputs that the source of
	// a row does not print.
	Source  string       `toml:"source"`
	Site    string       `toml:"site"`
	Apart   catalog.Text `toml:"apart"`
	Guessed string       `toml:"guessed"`
	// Note has further information for readers, such as the cause of the remaining error.
	Note catalog.Text `toml:"note"`

	Data  string   `toml:"data"`  // a file of testdata, CSV with a line of column names
	Group []string `toml:"group"` // columns; nth counts the rows with the same values there
	Unit  string   `toml:"unit"`  // of all rows; "" for fractions
	// TrainingRuns: rows are training runs, with reports of their stack and device, the order of
	// plans for one training and the verdict on memory. Splits: errors are also reported by the
	// classes of rows.
	TrainingRuns bool `toml:"training_runs"`
	// Failed is an expression: which records are training runs that ran out of memory. They have no published
	// number, and only their verdict is compared. The verdict of all other rows is then, too.
	Failed string `toml:"failed"`
	Splits bool   `toml:"splits"`
	form
	Series []form `toml:"series"`

	Lookups []lookup `toml:"lookups"`
	Base    string   `toml:"base"`   // the example that configurations are based on
	Config  settings `toml:"config"` // sections of the configuration
	// Machine is a file of testdata with a [machine] section. Fit says how make fit writes it.
	Machine string      `toml:"machine"`
	Fit     *machineFit `toml:"fit"`
	Solve   []solve     `toml:"solve"`
	Link    *linkOfRows `toml:"link"`
	// Predictions are further predictions of a row, by name, for use in expressions.
	Predictions  map[string]change `toml:"predictions"`
	Alternatives []alternative     `toml:"alternatives"`
	Parts        []part            `toml:"parts"`
	Facets       []facet           `toml:"facets"`

	rows []record // replace the records of Data
}

// A form says how a record becomes a row. Fields that a series leaves empty are those of its table.
type form struct {
	Where     string            `toml:"where"`   // expression: which records have such a row; "" means all
	Columns   map[string]string `toml:"columns"` // texts by name, over the record's cells
	Label     string            `toml:"label"`
	Published string            `toml:"published"` // expression
	Predicted string            `toml:"predicted"` // expression
	Used      string            `toml:"used"`      // expression: whether constants were fitted to the row
	Set       settings          `toml:"set"`       // replace settings of the configuration, by key
}

// A change makes another configuration for a row.
type change struct {
	Config settings `toml:"config"` // sections that replace all sections of the table
	Set    settings `toml:"set"`    // replace single settings, by key
}

// settings hold values of TOML by key. Their texts may have expressions in braces; a key whose text
// evaluates to "" is left out.
type settings map[string]any

// UnmarshalTOML stores the table unchanged.
func (s *settings) UnmarshalTOML(table any) error {
	*s, _ = table.(map[string]any)
	return nil
}

// An alternative is another explanation of rows.
type alternative struct {
	Name      string   `toml:"name"`
	When      string   `toml:"when"` // expression: for which rows; "" means all
	Predicted string   `toml:"predicted"`
	Set       settings `toml:"set"`
}

// A part of the error of rows.
type part struct {
	Name  string `toml:"name"`
	When  string `toml:"when"`  // expression: for which rows; "" means all
	Error string `toml:"error"` // expression
}

// A facet classifies rows in a respect that only some tables have.
type facet struct {
	By    string `toml:"by"`
	Class string `toml:"class"`
	Few   bool   `toml:"few"` // classes of few rows are shown as well
}

// tables reads the descriptions of all tables, in the order of tables/order.txt. They are part of the
// program, so a mistake in one of them panics.
var tables = sync.OnceValue(func() (list []Study) {
	for _, name := range strings.Fields(read("tables/order.txt")) {
		t := Study{Name: name}
		if err := catalog.Decode(read("tables/"+name+".toml"), &t); err != nil {
			panic(fmt.Sprintf("tables/%s.toml: %v", name, err))
		}
		list = append(list, t)
	}
	return list
})

// read returns the text of a file of this package.
func read(name string) string {
	text, err := data.ReadFile(path.Clean(name))
	if err != nil {
		panic(err)
	}
	return string(text)
}

// table returns the table with a name.
func table(name string) *Study {
	i := slices.IndexFunc(tables(), func(t Study) bool { return t.Name == name })
	if i < 0 {
		panic("no table " + name)
	}
	return &tables()[i]
}

// Select returns the tables with the given names, or all tables without names. A prefix selects all
// tables whose names start with it and a dash: zero-bubble for zero-bubble-2023-table-5.
func Select(names []string) ([]Study, error) {
	all := slices.Clone(tables())
	if len(names) == 0 {
		return all, nil
	}
	wanted := map[string]bool{}
	for _, name := range names {
		exact := slices.ContainsFunc(all, func(t Study) bool { return t.Name == name })
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
			hint := cmp.Or(nearest.Suggest(name, known), "; use one of "+strings.Join(known, ", "))
			return nil, fmt.Errorf("unknown published table %q%s", name, hint)
		}
	}
	return slices.DeleteFunc(all, func(t Study) bool { return !wanted[t.Name] }), nil
}
