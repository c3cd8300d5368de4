package results

import (
	"fmt"
	"io"
	"reflect"

	"psim/internal/files"
	"psim/internal/wrap"
)

// schemaDialect names the version of JSON Schema.
const schemaDialect = "https://json-schema.org/draft/2020-12/schema"

// WriteSchema writes the JSON Schema of results, and of plans as a definition in it.
func WriteSchema(w io.Writer) error {
	texts, err := comments()
	if err != nil {
		return err
	}
	definitions := map[string]any{}
	define(reflect.TypeFor[Result](), texts, definitions)
	define(reflect.TypeFor[Ranking](), texts, definitions)
	return files.WriteJSON(w, map[string]any{
		"$schema": schemaDialect, "title": "A result of psim: result.json, and what psim run and psim exec print with --json",
		"$ref": "#/$defs/Result", "$defs": definitions,
	})
}

// define adds a struct and those in it.
func define(t reflect.Type, texts map[string]string, definitions map[string]any) {
	if definitions[t.Name()] != nil {
		return
	}
	properties, required := map[string]any{}, []string{}
	definitions[t.Name()] = map[string]any{"type": "object", "properties": properties}
	for _, f := range fieldsOf(t, texts) {
		property := typeOf(f.of, texts, definitions)
		text := f.text
		if f.unit != "" {
			text += " (" + f.unit + ")"
		}
		property["description"] = text
		switch nullable := []string{"number", "null"}; {
		case f.nullable && f.of.Kind() == reflect.Slice:
			property["items"] = map[string]any{"type": nullable}
		case f.nullable:
			property["type"] = nullable
		}
		if f.choices != nil {
			property["enum"] = f.choices
		}
		properties[f.name] = property
		if !f.optional {
			required = append(required, f.name)
		}
	}
	definitions[t.Name()].(map[string]any)["required"] = required
}

// typeOf describes the JSON of a Go type, and defines the structs in it.
func typeOf(t reflect.Type, texts map[string]string, definitions map[string]any) map[string]any {
	switch t.Kind() {
	case reflect.Struct:
		define(t, texts, definitions)
		return map[string]any{"$ref": "#/$defs/" + t.Name()}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": typeOf(t.Elem(), texts, definitions)}
	}
	return map[string]any{"type": kindOf(t)}
}

// kindOf names the JSON that a Go type is written as.
func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int, reflect.Int64:
		return "integer"
	case reflect.Float64:
		return "number"
	case reflect.Bool:
		return "boolean"
	case reflect.String:
		return "string"
	case reflect.Slice:
		return "array"
	}
	return "object"
}

// WriteFields writes every field of a result with its type, unit and meaning.
func WriteFields(w io.Writer) error {
	texts, err := comments()
	if err != nil {
		return err
	}
	fmt.Fprint(w, `The fields of a result: of result.json, and of what psim run and psim exec print
with --json. Fields that have no meaning for a run are absent. psim search prints
plans, which are results with settings. docs/result.schema.json is the JSON Schema.

`)
	writeFields(w, "", reflect.TypeFor[Result](), texts)
	fmt.Fprint(w, "\nWhat psim search prints, and plans.json:\n\n")
	writeFields(w, "", reflect.TypeFor[Ranking](), texts)
	return nil
}

// writeFields writes the fields of a struct, and below each those of what it holds.
func writeFields(w io.Writer, path string, t reflect.Type, texts map[string]string) {
	for _, f := range fieldsOf(t, texts) {
		inner, kind, name := f.of, kindOf(f.of), path+f.name
		if inner.Kind() == reflect.Slice {
			inner, kind, name = inner.Elem(), "array of "+kindOf(inner.Elem()), name+"[]"
		}
		if f.unit != "" {
			kind += ", " + f.unit
		}
		if f.nullable {
			kind += ", or null"
		}
		if f.choices != nil {
			kind = ""
			for i, choice := range f.choices {
				kind += []string{"", ", "}[min(i, 1)] + fmt.Sprintf("%q", choice)
			}
		}
		fmt.Fprintf(w, "%s  (%s)\n    %s\n", name, kind, wrap.Text(f.text, 76, "    "))
		if inner.Kind() == reflect.Struct && inner != reflect.TypeFor[Result]() && inner != reflect.TypeFor[Candidate]() {
			writeFields(w, name+".", inner, texts)
		}
	}
}
