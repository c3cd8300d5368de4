package setting

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"

	"psim/internal/wrap"
)

// Widths of a line of the reference, and of the part before its comment.
const (
	lineWidth = 80
	keyWidth  = 26
)

// WriteReference writes every setting of a described struct as commented TOML: the
// tables in it, and their keys with meaning, range and default.
func WriteReference(w io.Writer, options any) error {
	p := printer{seen: map[reflect.Type]string{}}
	p.tables(reflect.ValueOf(options), "")
	_, err := io.WriteString(w, p.text.String())
	return err
}

type printer struct {
	text strings.Builder
	seen map[reflect.Type]string // the path of the table in which a type was printed
}

// tables prints the fields of a struct that are tables, or that may be.
func (p *printer) tables(options reflect.Value, prefix string) {
	for s, field := range each(options) {
		header := "[" + prefix + s.Key + "]"
		if isList(field) {
			header, field = "["+header+"]", reflect.New(field.Type().Elem()).Elem()
		}
		if settings(field) != nil {
			p.table(s, field, header, prefix+s.Key)
		}
	}
}

// table prints one table, with the tables in it. Tables below the first level are commented out.
func (p *printer) table(s Setting, options reflect.Value, header, path string) {
	nested := strings.Contains(path, ".")
	if nested {
		header = "# " + header
	}
	text := strings.ToUpper(s.Text[:1]) + s.Text[1:] + s.with()
	as, seen := p.seen[options.Type()]
	if seen {
		text += "; its keys are those of [" + as + "]"
	}
	fmt.Fprintf(&p.text, "\n# %s\n%s\n", wrap.Text(text, lineWidth-2, "# "), header)
	if seen {
		return
	}
	p.seen[options.Type()] = path
	types := map[string]reflect.Type{}
	for s, field := range each(options) {
		types[s.Key] = field.Type()
	}
	for _, s := range settings(options) {
		if s.Example != "" || s.Default != nil {
			p.key(s, types[s.Key], nested)
		}
	}
	p.tables(options, path+".")
}

// key prints one key, with its meaning in a column on the right.
func (p *printer) key(s Setting, t reflect.Type, nested bool) {
	line := s.Key + " = " + s.Example
	if s.Example == "" {
		line += Quote(s.Default)
	}
	if nested || !s.Required && !s.Shown {
		line = "# " + line
	}
	indent := max(keyWidth, utf8.RuneCountInString(line)+2)
	column := strings.Repeat(" ", keyWidth)
	if indent > lineWidth/2 { // the comment begins below it
		line, indent = line+"\n"+column, keyWidth
	} else {
		line += strings.Repeat(" ", indent-utf8.RuneCountInString(line))
	}
	fmt.Fprintf(&p.text, "%s# %s\n", line, wrap.Text(s.words(t), lineWidth-indent-2, column+"# "))
}

// with names the alternatives in which a setting has a meaning.
func (s Setting) with() string {
	if s.With == nil {
		return ""
	}
	return "; only with " + strings.Join(s.With, " or ")
}

// words describes a setting of a type (nil: unknown): its meaning, its legal values and its
// default.
func (s Setting) words(t reflect.Type) string {
	text := s.Text
	for _, choice := range s.OneOf {
		if !strings.Contains(text, choice) {
			text += "; " + either(s.OneOf)
			break
		}
	}
	if s.Range != (Range{}) {
		if t == nil {
			t = reflect.TypeFor[float64]()
		} else if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		all := s.Range.Min == 0 && !s.Range.AboveMin && s.Range.unlimited()
		if !all || !t.Implements(reflect.TypeFor[fmt.Stringer]()) { // a quantity is never negative
			text += "; " + s.Range.words(t)
		}
	}
	text += s.with()
	if s.Unset != "" {
		text += "; default: " + s.Unset
	} else if s.Default != nil && s.Example != "" {
		text += "; default: " + Quote(s.Default)
	}
	return text
}
