package results

import (
	"embed"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The comments on the fields of results are what psim help result prints, and the
// descriptions of docs/result.schema.json.
//
//go:embed result.go work.go memoryresult.go groups.go critical.go measurement.go plans.go boundary.go steadiness.go epochs.go shards.go explain.go whatif.go
var sources embed.FS

// A field is one of a JSON object that a struct is written as.
type field struct {
	name, unit, text string
	of               reflect.Type // without its pointer
	optional         bool
	nullable         bool     // a number that may be none, and so null
	choices          []string // of a string; nil is any
}

// comments reads the comments on the fields of all structs, by the names of both.
func comments() (map[string]string, error) {
	texts := map[string]string{}
	files, err := sources.ReadDir(".")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		data, err := sources.ReadFile(file.Name())
		if err != nil {
			return nil, err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file.Name(), data, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				for _, f := range s.Fields.List {
					for _, name := range f.Names {
						texts[spec.Name.Name+"."+name.Name] = plainText(name.Name, f.Doc.Text()+f.Comment.Text())
					}
				}
			}
			return false
		})
	}
	return texts, nil
}

// plainText makes a description of a comment: without the field's name in Go before
// it, or a full stop after it.
func plainText(name, comment string) string {
	text := strings.Join(strings.Fields(comment), " ")
	if rest, ok := strings.CutPrefix(text, name+" "); ok {
		for _, verb := range []string{"is ", "are "} {
			rest = strings.TrimPrefix(rest, verb)
		}
		text = rest
	}
	first, size := utf8.DecodeRuneInString(text)
	if second, _ := utf8.DecodeRuneInString(text[size:]); unicode.IsLower(second) { // no abbreviation
		text = string(unicode.ToLower(first)) + text[size:]
	}
	return strings.TrimSuffix(text, ".")
}

// fieldsOf lists the fields of a struct, with those of embedded ones.
func fieldsOf(t reflect.Type, texts map[string]string) []field {
	var list []field
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		of := f.Type
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if f.Anonymous && tag == "" {
			for _, inner := range fieldsOf(of, texts) {
				inner.optional = inner.optional || f.Type.Kind() == reflect.Pointer
				list = append(list, inner)
			}
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if name == "" || name == "-" {
			continue
		}
		one := field{name: name, of: of, optional: options != "", text: texts[t.Name()+"."+f.Name], unit: f.Tag.Get("unit")}
		if one.unit == "" {
			one.unit = unitOf(name)
		}
		if choices := f.Tag.Get("oneof"); choices != "" {
			one.choices = strings.Split(choices, ",")
		}
		one.nullable = of == reflect.TypeFor[Losses]() || t == reflect.TypeFor[Checks]() && of.Kind() == reflect.Float64
		list = append(list, one)
	}
	return list
}

// unitOf reads the unit off the end of a name; empty for none.
func unitOf(name string) string {
	for _, u := range [][2]string{{"_per_s", "per second"}, {"_s", "s"}, {"bytes", "bytes"}} {
		if strings.HasSuffix(name, u[0]) {
			return u[1]
		}
	}
	return ""
}
