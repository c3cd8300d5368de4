package setting

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"

	"psim/internal/wrap"
)

// Widths of a line of the reference, and of what stands before its comment.
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
	seen map[reflect.Type]string // the table that a type was printed as
}

// tables prints the fields of a struct that are tables, or may be.
func (p *printer) tables(options reflect.Value, prefix string) {
	for _, s := range of(options) {
		field, ok := Field(options, s.Key)
		if !ok || s.Example != "" && IsList(field) {
			continue
		}
		if IsList(field) {
			field = reflect.New(field.Type().Elem()).Elem()
			p.table(s, field, "[["+prefix+s.Key+"]]", prefix+s.Key)
		} else if _, ok := field.Interface().(Described); ok {
			p.table(s, field, "["+prefix+s.Key+"]", prefix+s.Key)
		}
	}
}

// table prints one, with the tables in it. Below the first level all is commented
// out.
func (p *printer) table(s Setting, options reflect.Value, header, path string) {
	nested := strings.Contains(path, ".")
	comment := ""
	if nested {
		comment = "# "
	}
	text := strings.ToUpper(s.Text[:1]) + s.Text[1:] + s.with()
	if as, ok := p.seen[options.Type()]; ok {
		fmt.Fprintf(&p.text, "\n# %s\n%s%s\n", wrap.Text(text+"; its keys are those of ["+as+"]", lineWidth-2, "# "), comment, header)
		return
	}
	p.seen[options.Type()] = path
	fmt.Fprintf(&p.text, "\n# %s\n%s%s\n", wrap.Text(text, lineWidth-2, "# "), comment, header)
	for _, key := range of(options) {
		if field, ok := Field(options, key.Key); !ok || !IsTable(field) && !IsList(field) || key.Example != "" {
			p.key(key, options, nested)
		}
	}
	p.tables(options, path+".")
}

// key prints one key, with its meaning in a column beside it.
func (p *printer) key(s Setting, options reflect.Value, nested bool) {
	value := s.Example
	if value == "" {
		value = Quote(s.Default)
	}
	line := s.Key + " = " + value
	if nested || !s.Required && !s.Shown {
		line = "# " + line
	}
	t := reflect.TypeFor[float64]()
	if field, ok := Field(options, s.Key); ok {
		t = field.Type()
	}
	indent := max(keyWidth, utf8.RuneCountInString(line)+2)
	column := strings.Repeat(" ", keyWidth)
	if indent > lineWidth/2 { // the comment begins below it
		line, indent = line+"\n"+column, keyWidth
	} else {
		line += strings.Repeat(" ", indent-utf8.RuneCountInString(line))
	}
	lines := wrap.Lines(s.words(t), lineWidth-indent-2)
	fmt.Fprintf(&p.text, "%s# %s\n", line, strings.Join(lines, "\n"+column+"# "))
}

// with says beside what a setting has a meaning.
func (s Setting) with() string {
	if s.With == nil {
		return ""
	}
	return "; only with " + strings.Join(s.With, " or ")
}

// words is the meaning of a setting of a type, what it may be, and its default.
func (s Setting) words(t reflect.Type) string {
	text := s.Text
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	for _, choice := range s.OneOf {
		if !strings.Contains(text, choice) {
			text += "; " + either(s.OneOf)
			break
		}
	}
	if quantity := t.Implements(reflect.TypeFor[fmt.Stringer]()); s.Range != (Range{}) && !(quantity && s.Range.whole()) {
		text += "; " + s.Range.words(t)
	}
	text += s.with()
	switch {
	case s.Unset != "":
		text += "; default: " + s.Unset
	case s.Default != nil && s.Example != "" && Quote(s.Default) != s.Example:
		text += "; default: " + Quote(s.Default)
	}
	return text
}
