// Package setting describes the keys of a configuration beside the structs that
// hold them. From one description follow the check of a value, the default, the
// words of an error, and the text of psim help config.
//
// A struct says its keys by toml tags and describes them in a method Settings.
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
	// a number or a bool. Where that is no one value, Unset says it in words.
	Default any
	Unset   string
	Example string   // a value as TOML, to be shown where the default teaches little
	Range   Range    // of numbers and quantities
	OneOf   []string // what a string may be; "" is as if it were not given
	// With lists the alternatives beside which the key has a meaning, such as a
	// section or a family of models; nil is all of them.
	With     []string
	Required bool
	Shown    bool // in the reference without a comment sign, as Required ones are
}

// Described is a struct that describes its keys.
type Described interface{ Settings() []Setting }

// Find returns the description of a key of a struct.
func Find(options reflect.Value, key string) (Setting, bool) {
	for _, s := range of(options) {
		if s.Key == key {
			return s, true
		}
	}
	return Setting{}, false
}

func of(options reflect.Value) []Setting {
	if d, ok := options.Interface().(Described); ok {
		return d.Settings()
	}
	return nil
}

// Fields yields the fields of a struct that have a key.
func Fields(options reflect.Value) iter.Seq2[string, reflect.Value] {
	return func(yield func(string, reflect.Value) bool) {
		for i := range options.NumField() {
			key, _, _ := strings.Cut(options.Type().Field(i).Tag.Get("toml"), ",")
			if key != "" && key != "-" && !yield(key, options.Field(i)) {
				return
			}
		}
	}
}

// Field returns the field of a key.
func Field(options reflect.Value, key string) (reflect.Value, bool) {
	for k, field := range Fields(options) {
		if k == key {
			return field, true
		}
	}
	return reflect.Value{}, false
}

// Given yields the settings of a struct that are not zero, and their values.
func Given(options any) iter.Seq2[Setting, any] {
	return func(yield func(Setting, any) bool) {
		v := reflect.ValueOf(options)
		for _, s := range of(v) {
			if field, ok := Field(v, s.Key); ok && !field.IsZero() && !yield(s, reflect.Indirect(field).Interface()) {
				return
			}
		}
	}
}

// Overlay returns a struct with what another of its type gives.
func Overlay[T any](base, over T) T {
	to := reflect.ValueOf(&base).Elem()
	for key, field := range Fields(reflect.ValueOf(over)) {
		if !field.IsZero() {
			into, _ := Field(to, key)
			into.Set(field)
		}
	}
	return base
}

// Validate reports the first key of a struct, and of the structs and lists in it,
// that is missing or has a value out of range. A zero is not given.
func Validate(options any) error { return validate(reflect.ValueOf(options), "") }

// ValidateWith is Validate of the keys that have a meaning only with an alternative
// and some others. Here a number whose range is without 0 must be given.
func ValidateWith(options any, alternative string) error {
	return validate(reflect.ValueOf(options), alternative)
}

func validate(options reflect.Value, with string) error {
	for _, s := range of(options) {
		field, ok := Field(options, s.Key)
		if !ok || with != "" && !slices.Contains(s.With, with) {
			continue
		}
		var err error
		switch {
		case IsTable(field):
			if err = validate(field, ""); err != nil {
				err = fmt.Errorf("%s.%w", s.Key, err)
			}
		case IsList(field):
			for i := range field.Len() {
				if err = validate(field.Index(i), ""); err != nil {
					return fmt.Errorf("%s[%d].%w", s.Key, i, err)
				}
			}
		case !field.IsZero():
			err = s.Check(s.Key, field)
		case s.Required, with != "" && s.Range.Min > 0:
			err = s.missing()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s Setting) missing() error {
	if s.Example == "" {
		return fmt.Errorf("%s is missing", s.Key)
	}
	return fmt.Errorf("%s is missing; write for example %s = %s", s.Key, s.Key, s.Example)
}

// Check reports a value that is out of range; name is what the error calls the key.
func (s Setting) Check(name string, value reflect.Value) error {
	value = reflect.Indirect(value)
	problem := ""
	switch {
	case !value.IsValid():
	case s.OneOf != nil && value.Kind() == reflect.String:
		if v := value.String(); v != "" && !slices.Contains(s.OneOf, v) {
			problem = either(s.OneOf) + nearest.Suggest(v, s.OneOf)
		}
	case s.Range != Range{}:
		problem = s.Range.problem(value)
	}
	if problem == "" {
		return nil
	}
	return fmt.Errorf("%s = %s: must be %s", name, Quote(value.Interface()), problem)
}

// Quote prints a value as TOML has it.
func Quote(value any) string {
	switch value.(type) {
	case string, fmt.Stringer:
		return fmt.Sprintf("%q", value)
	}
	return fmt.Sprint(value)
}

// either lists alternatives.
func either(names []string) string {
	if len(names) < 3 {
		return strings.Join(names, " or ")
	}
	return "one of " + strings.Join(names, ", ")
}

// Meaningless reports a setting that has no meaning beside an alternative.
func (s Setting) Meaningless(beside string) bool {
	return s.With != nil && !slices.Contains(s.With, beside)
}
