package schema

import (
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"psim/internal/wrap"
	"psim/results"
	"psim/results/rankings"
)

// WriteText writes every field of a result with its type, unit and meaning.
func WriteText(w io.Writer) error {
	texts, err := readDescriptions()
	if err != nil {
		return err
	}
	fmt.Fprint(w, `The fields of a result: of result.json, and of what psim run and psim exec print
with --json. Fields that are meaningless for a run are absent. psim search prints
plans, which are results with settings. docs/result.schema.json is the JSON Schema.

`)
	writeFields(w, texts, "", reflect.TypeFor[results.Result]())
	fmt.Fprint(w, "\nWhat psim search prints, and plans.json:\n\n")
	writeFields(w, texts, "", reflect.TypeFor[rankings.Ranking]())
	return nil
}

// writeFields writes the fields of a struct, and below each the fields of the struct that
// it holds.
func writeFields(w io.Writer, texts descriptions, path string, t reflect.Type) {
	for _, f := range texts.fields(t) {
		inner, name := f.of, path+f.name
		if inner.Kind() == reflect.Slice {
			inner, name = inner.Elem(), name+"[]"
		}
		fmt.Fprintf(w, "%s  (%s)\n    %s\n", name, f.typeText(), wrap.Text(f.text, 76, "    "))
		described := inner == reflect.TypeFor[results.Result]() || inner == reflect.TypeFor[rankings.Candidate]()
		if inner.Kind() == reflect.Struct && !described {
			writeFields(w, texts, name+".", inner)
		}
	}
}

// typeText writes the type of a field with its unit, or the strings that it may be.
func (f field) typeText() string {
	if f.choices != nil {
		var list []string
		for _, choice := range f.choices {
			list = append(list, strconv.Quote(choice))
		}
		return strings.Join(list, ", ")
	}
	kind := kindOf(f.of)
	if f.of.Kind() == reflect.Slice {
		kind = "array of " + kindOf(f.of.Elem())
	}
	if f.unit != "" {
		kind += ", " + f.unit
	}
	if f.nullable {
		kind += ", or null"
	}
	return kind
}
