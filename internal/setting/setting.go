// Package setting describes the keys of a configuration, next to the structs that hold
// them. One description gives the check of a value, the default, the words of an error and
// the text of psim help config; it also says what the key needs to have an effect, what it
// prices and which values a what-if tries.
//
// A struct names its keys by toml tags and describes them in a method Settings.
package setting

import (
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync"

	"psim/internal/nearest"
)

// A Setting describes one key.
type Setting struct {
	Key  string
	Text string // what it means; without a full stop
	// Default applies where the key is not given: a string (also for a quantity), a number
	// or a bool. If no single value does, Unset describes what applies.
	Default any
	Unset   string
	Example string   // a value as TOML, shown where the default teaches little
	Range   Range    // of numbers and quantities
	OneOf   []string // the legal values of a string; "" counts as not given
	// Parts lists the elements of a list that the key may have instead of a value of OneOf. The
	// list is kept as one string, in this order, separated by commas.
	Parts []string
	// Aliases are what other programs call values of OneOf and Parts; one may stand for several parts.
	Aliases map[string]string
	// With lists the alternatives in which the key has a meaning, such as a section or a
	// family of models; nil stands for all of them.
	With     []string
	Required bool
	Shown    bool // in the reference without a comment sign, as Required ones are

	// What the key changes, and on which other keys that depends: see also Need. Warnings,
	// notes, explanations, what-ifs and stacks read it from here.

	// Needs lists the conditions on other keys that must all hold for the key to have an effect.
	Needs []Need
	// Neutral is a value that changes nothing, in addition to the default; nil: there is none.
	Neutral any
	// Idle lists the alternatives, as in With, in which the key is allowed but has no effect.
	Idle []string
	// Prices lists the classes of work whose price depends on the key.
	Prices []string
	// Offered names the entry of a stack that limits the key to what the stack supports.
	Offered string
	// Try lists the values that a what-if tries.
	Try []string
	// Factor is what a what-if multiplies a number or a quantity by; 0: it tries no multiple.
	Factor float64
	// Executed lists the values that an execution supports; nil: all of them.
	Executed []string
	// Assumed: the notes of a run name the default where the key is not given.
	Assumed bool
}

// Meaningless reports whether the key has no meaning with an alternative.
func (s Setting) Meaningless(alternative string) bool {
	return s.With != nil && !slices.Contains(s.With, alternative)
}

// Described is implemented by structs that describe their keys, each value of a type in the same way.
type Described interface{ Settings() []Setting }

// Each yields the settings of a described struct and their values. It yields nothing for
// any other struct.
func Each(options any) iter.Seq2[Setting, any] {
	return func(yield func(Setting, any) bool) {
		for s, field := range each(reflect.ValueOf(options)) {
			if !yield(s, field.Interface()) {
				return
			}
		}
	}
}

// Given yields what Each does, except for zero values; it follows pointers.
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
		for _, f := range describe(options).fields {
			if !yield(f.Setting, options.FieldByIndex(f.index)) {
				return
			}
		}
	}
}

// A description holds what is the same for all values of a type.
type description struct {
	settings []Setting // nil unless the type describes its keys
	fields   []fieldSetting
}

// A fieldSetting is a setting and the index of its field.
type fieldSetting struct {
	Setting
	index []int
}

var descriptions sync.Map // of types

// describe describes the type of options, once.
func describe(options reflect.Value) *description {
	if known, ok := descriptions.Load(options.Type()); ok {
		return known.(*description)
	}
	var d description
	if described, ok := options.Interface().(Described); ok {
		d.settings = described.Settings()
	}
	if options.Kind() == reflect.Struct {
		indexes := map[string][]int{}
		addFields(indexes, options.Type(), nil)
		for _, s := range d.settings {
			if index, ok := indexes[s.Key]; ok {
				d.fields = append(d.fields, fieldSetting{s, index})
			}
		}
	}
	known, _ := descriptions.LoadOrStore(options.Type(), &d)
	return known.(*description)
}

// addFields adds the indexes of the fields of a struct by key, and of those of the structs that it embeds.
func addFields(indexes map[string][]int, options reflect.Type, embedded []int) {
	for i := range options.NumField() {
		field, index := options.Field(i), append(slices.Clip(embedded), i)
		if field.Anonymous {
			addFields(indexes, field.Type, index)
			continue
		}
		key, _, _ := strings.Cut(field.Tag.Get("toml"), ",")
		indexes[key] = index
	}
}

func settings(options reflect.Value) []Setting { return describe(options).settings }

// IsKey reports whether a described struct, or one in it, has a dotted key.
func IsKey(options any, dotted string) bool {
	_, _, found := find(reflect.ValueOf(options), dotted)
	return found
}

// IsTable reports whether a dotted key is a table of keys.
func IsTable(options any, dotted string) bool {
	_, field, _ := find(reflect.ValueOf(options), dotted)
	return field.IsValid() && isTable(field)
}

// Find returns the setting of a dotted key and its value, and reports whether the options have
// the key. The value is nil for a key of a table that reads itself and describes its keys
// without fields for them.
func Find(options any, dotted string) (s Setting, value any, found bool) {
	s, field, found := find(reflect.ValueOf(options), dotted)
	if field.IsValid() {
		if v := reflect.Indirect(field); v.IsValid() {
			value = v.Interface()
		}
	}
	return s, value, found
}

// find does what Find does; the field is invalid where Find returns no value.
func find(options reflect.Value, dotted string) (s Setting, value reflect.Value, found bool) {
	key, rest, nested := strings.Cut(dotted, ".")
	for s, field := range each(options) {
		switch {
		case s.Key != key:
		case !nested:
			return s, field, true
		case isTable(field):
			return find(field, rest)
		default:
			for _, inner := range settings(field) {
				if inner.Key == rest {
					return inner, reflect.Value{}, true
				}
			}
			return Setting{}, reflect.Value{}, false
		}
	}
	return Setting{}, reflect.Value{}, false
}

// Tables lists the tables in a described struct, at any depth, that have a key of this name.
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

// Overlay returns base with the fields of over that are not zero.
func Overlay[T any](base, over T) T {
	to, from := reflect.ValueOf(&base).Elem(), reflect.ValueOf(over)
	for i := range from.NumField() {
		if field := from.Field(i); !field.IsZero() {
			to.Field(i).Set(field)
		}
	}
	return base
}

// Quote prints a value as TOML.
func Quote(value any) string {
	switch value.(type) {
	case string, fmt.Stringer:
		return fmt.Sprintf("%q", value)
	}
	return fmt.Sprint(value)
}

// Meant returns the end of an error about an unknown word: the known word that it resembles, or
// else all known words.
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
