// Package schema describes the fields of results: as a JSON Schema, and as the text of
// psim help result. The descriptions are the comments on the fields of the Go structs that
// results are written from.
package schema

import (
	"embed"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"

	"psim/results"
	"psim/results/rankings"
)

// A field is a field of a JSON object that a struct is written as.
type field struct {
	name, unit, text string
	of               reflect.Type // without its pointer
	optional         bool
	nullable         bool     // a number that is null where it is NaN or infinite
	choices          []string // allowed strings; nil allows any
}

// descriptions holds the comments on fields by the names of struct and field, as in
// "Result.StepTime".
type descriptions map[string]string

// readDescriptions reads the comments on the fields of all structs of results.
func readDescriptions() (descriptions, error) {
	texts := descriptions{}
	for _, sources := range []embed.FS{results.Sources(), rankings.Sources()} {
		if err := texts.read(sources); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

// read adds the comments of the Go files of one package.
func (d descriptions) read(sources embed.FS) error {
	files, err := sources.ReadDir(".")
	if err != nil {
		return err
	}
	for _, file := range files {
		data, err := sources.ReadFile(file.Name())
		if err != nil {
			return err
		}
		mode := parser.ParseComments | parser.SkipObjectResolution
		parsed, err := parser.ParseFile(token.NewFileSet(), file.Name(), data, mode)
		if err != nil {
			return err
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if ok {
				d.add(spec)
			}
			return !ok
		})
	}
	return nil
}

// add adds the comments of a struct.
func (d descriptions) add(spec *ast.TypeSpec) {
	s, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, f := range s.Fields.List {
		for _, name := range f.Names {
			d[spec.Name.Name+"."+name.Name] = plainText(name.Name, f.Doc.Text()+f.Comment.Text())
		}
	}
}

// plainText turns a comment into a description: it removes the name of the Go field from
// the beginning and the full stop from the end.
func plainText(name, comment string) string {
	text := strings.Join(strings.Fields(comment), " ")
	if rest, ok := strings.CutPrefix(text, name+" "); ok {
		for _, verb := range []string{"is ", "are "} {
			rest = strings.TrimPrefix(rest, verb)
		}
		text = rest
	}
	first, size := utf8.DecodeRuneInString(text)
	if second, _ := utf8.DecodeRuneInString(text[size:]); unicode.IsLower(second) { // not an abbreviation
		text = string(unicode.ToLower(first)) + text[size:]
	}
	return strings.TrimSuffix(text, ".")
}

// fields lists the fields of a struct, including those of embedded structs.
func (d descriptions) fields(t reflect.Type) []field {
	var list []field
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		of := f.Type
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if f.Anonymous && tag == "" {
			for _, inner := range d.fields(of) {
				inner.optional = inner.optional || f.Type.Kind() == reflect.Pointer
				list = append(list, inner)
			}
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if name == "" || name == "-" {
			continue
		}
		one := field{name: name, of: of, optional: options != "", text: d[t.Name()+"."+f.Name], unit: f.Tag.Get("unit")}
		if one.unit == "" {
			one.unit = unitOf(name)
		}
		if choices := f.Tag.Get("oneof"); choices != "" {
			one.choices = strings.Split(choices, ",")
		}
		check := t == reflect.TypeFor[results.Checks]() && of.Kind() == reflect.Float64
		one.nullable = check || of == reflect.TypeFor[results.Losses]()
		list = append(list, one)
	}
	return list
}

// unitOf derives the unit from the end of a field's name; "" where the name has no unit.
func unitOf(name string) string {
	for _, u := range [][2]string{{"_per_s", "per second"}, {"_s", "s"}, {"bytes", "bytes"}} {
		if strings.HasSuffix(name, u[0]) {
			return u[1]
		}
	}
	return ""
}

// kindOf names the JSON type that a Go type is written as.
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
