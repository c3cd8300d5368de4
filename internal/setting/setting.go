// Package setting describes the keys of a configuration beside the structs that
// hold them. From one description follow the check of a value, the default, the
// words of an error, and the text of psim help config.
//
// A struct names its keys by toml tags and describes them in a method Settings.
package setting

import (
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"

	"psim/internal/nearest"
)

// A Setting describes one key.
type Setting struct {
	Key  string
	Text string // what it means; without a full stop
	// Default is what holds where the key is not given: a string (of a quantity, too),
	// a number or a bool. Where that is not one value, Unset says it in words.
	Default any
	Unset   string
	Example string   // a value as TOML, to be shown where the default teaches little
	Range   Range    // of numbers and quantities
	OneOf   []string // what a string may be; "" is as if it were not given
	// Parts lists what else it may be made of: a list of TOML, which is kept as one
	// string in this order, with commas between.
	Parts []string
	// With lists the alternatives beside which the key has a meaning, such as a
	// section or a family of models; nil is all of them.
	With     []string
	Required bool
	Shown    bool // in the reference without a comment sign, as Required ones are
}

// Meaningless reports a setting that has no meaning beside an alternative.
func (s Setting) Meaningless(beside string) bool {
	return s.With != nil && !slices.Contains(s.With, beside)
}

// Described is a struct that describes its keys.
type Described interface{ Settings() []Setting }

// Each yields the settings of a described struct and their values, and nothing of
// any other.
func Each(options any) iter.Seq2[Setting, any] {
	return func(yield func(Setting, any) bool) {
		for s, field := range each(reflect.ValueOf(options)) {
			if !yield(s, field.Interface()) {
				return
			}
		}
	}
}

// Given yields what Each does, but no zeros; it follows pointers.
func Given(options any) iter.Seq2[Setting, any] {
	return func(yield func(Setting, any) bool) {
		for s, field := range each(reflect.ValueOf(options)) {
			if !field.IsZero() && !yield(s, reflect.Indirect(field).Interface()) {
				return
			}
		}
	}
}

// each yields the settings of a struct that have a field.
func each(options reflect.Value) iter.Seq2[Setting, reflect.Value] {
	return func(yield func(Setting, reflect.Value) bool) {
		fields := map[string]reflect.Value{}
		addFields(fields, options)
		for _, s := range settings(options) {
			if field, ok := fields[s.Key]; ok && !yield(s, field) {
				return
			}
		}
	}
}

// addFields adds the fields of a struct by key, and those of the structs that it embeds.
func addFields(fields map[string]reflect.Value, options reflect.Value) {
	for i := range options.NumField() {
		field := options.Type().Field(i)
		if field.Anonymous {
			addFields(fields, options.Field(i))
			continue
		}
		key, _, _ := strings.Cut(field.Tag.Get("toml"), ",")
		fields[key] = options.Field(i)
	}
}

func settings(options reflect.Value) []Setting {
	if d, ok := options.Interface().(Described); ok {
		return d.Settings()
	}
	return nil
}

// IsKey reports whether a dotted key is that of a struct, or of one in it.
func IsKey(options any, dotted string) bool {
	known, _ := lookUp(reflect.ValueOf(options), dotted)
	return known
}

// IsTable reports whether a dotted key is that of a table of keys.
func IsTable(options any, dotted string) bool {
	_, table := lookUp(reflect.ValueOf(options), dotted)
	return table
}

// lookUp finds a dotted key. What reads itself describes its keys without fields for them.
func lookUp(options reflect.Value, dotted string) (known, table bool) {
	key, rest, nested := strings.Cut(dotted, ".")
	for s, field := range each(options) {
		switch {
		case s.Key != key:
		case !nested:
			return true, isTable(field)
		case isTable(field):
			return lookUp(field, rest)
		default:
			return slices.ContainsFunc(settings(field), func(s Setting) bool { return s.Key == rest }), false
		}
	}
	return false, false
}

// Tables lists the tables of a described struct, and of those in it, that have a key of
// this name.
func Tables(options any, key string) []string {
	return tables(reflect.ValueOf(options), key, "")
}

func tables(options reflect.Value, key, prefix string) (list []string) {
	if prefix != "" && slices.ContainsFunc(settings(options), func(s Setting) bool { return s.Key == key }) {
		list = append(list, prefix)
	}
	for s, field := range each(options) {
		if settings(field) != nil {
			list = append(list, tables(field, key, strings.TrimPrefix(prefix+"."+s.Key, "."))...)
		}
	}
	return list
}

// Overlay returns a struct with what another of its type gives.
func Overlay[T any](base, over T) T {
	to, from := reflect.ValueOf(&base).Elem(), reflect.ValueOf(over)
	for i := range from.NumField() {
		if field := from.Field(i); !field.IsZero() {
			to.Field(i).Set(field)
		}
	}
	return base
}

// Quote prints a value as TOML has it.
func Quote(value any) string {
	switch value.(type) {
	case string, fmt.Stringer:
		return fmt.Sprintf("%q", value)
	}
	return fmt.Sprint(value)
}

// Meant ends an error about an unknown word: what it was meant to be, or else what
// it may be.
func Meant(word string, known []string) string {
	if hint := nearest.Suggest(word, known); hint != "" {
		return hint
	}
	return "; use " + either(known)
}

func either(names []string) string {
	if len(names) < 3 {
		return strings.Join(names, " or ")
	}
	return "one of " + strings.Join(names, ", ")
}
