package schema

import (
	"io"
	"reflect"

	"psim/internal/files"
	"psim/results"
	"psim/results/rankings"
)

// dialect is the version of JSON Schema.
const dialect = "https://json-schema.org/draft/2020-12/schema"

// WriteJSON writes the JSON Schema of results. Rankings are one of its definitions.
func WriteJSON(w io.Writer) error {
	texts, err := readDescriptions()
	if err != nil {
		return err
	}
	d := definitions{texts, map[string]any{}}
	d.define(reflect.TypeFor[results.Result]())
	d.define(reflect.TypeFor[rankings.Ranking]())
	return files.WriteJSON(w, map[string]any{
		"$schema": dialect,
		"title":   "A result of psim: result.json, and what psim run and psim exec print with --json",
		"$ref":    "#/$defs/Result", "$defs": d.objects,
	})
}

// definitions collects the objects of a schema.
type definitions struct {
	texts   descriptions
	objects map[string]any // by the name of the Go type
}

// define adds a struct, and the structs of its fields.
func (d definitions) define(t reflect.Type) {
	if d.objects[t.Name()] != nil {
		return
	}
	properties, required := map[string]any{}, []string{}
	object := map[string]any{"type": "object", "properties": properties}
	d.objects[t.Name()] = object
	for _, f := range d.texts.fields(t) {
		properties[f.name] = d.property(f)
		if !f.optional {
			required = append(required, f.name)
		}
	}
	object["required"] = required
}

// property describes a field.
func (d definitions) property(f field) map[string]any {
	property := d.typeOf(f.of)
	property["description"] = f.text
	if f.unit != "" {
		property["description"] = f.text + " (" + f.unit + ")"
	}
	switch nullable := []string{"number", "null"}; {
	case f.nullable && f.of.Kind() == reflect.Slice:
		property["items"] = map[string]any{"type": nullable}
	case f.nullable:
		property["type"] = nullable
	}
	if f.choices != nil {
		property["enum"] = f.choices
	}
	return property
}

// typeOf describes the JSON type of a Go type, and defines the structs in it.
func (d definitions) typeOf(t reflect.Type) map[string]any {
	switch t.Kind() {
	case reflect.Struct:
		d.define(t)
		return map[string]any{"$ref": "#/$defs/" + t.Name()}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": d.typeOf(t.Elem())}
	}
	return map[string]any{"type": kindOf(t)}
}
