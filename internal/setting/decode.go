package setting

import (
	"encoding"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"psim/internal/nearest"
)

// decodes is a type that reads a TOML value itself.
type decodes interface{ UnmarshalTOML(value any) error }

// isTable reports whether a field is a table of keys, and no value that reads
// itself.
func isTable(field reflect.Value) bool {
	_, itself := reflect.New(field.Type()).Interface().(decodes)
	return field.Kind() == reflect.Struct && !itself
}

// isList reports whether a field is a list of tables, such as
// [[machine.measured]].
func isList(field reflect.Value) bool {
	return field.Kind() == reflect.Slice && field.Type().Elem().Kind() == reflect.Struct
}

// Fill sets the keys of a described struct, and of the structs and lists in it, from
// a TOML table, and checks them. It returns what is wrong with any of them.
func Fill(options any, table map[string]any) []*Error {
	return fill(reflect.ValueOf(options).Elem(), table, "")
}

func fill(options reflect.Value, table map[string]any, prefix string) (errs []*Error) {
	var known []string
	for _, s := range of(options) {
		known = append(known, s.Key)
	}
	for _, key := range slices.Sorted(maps.Keys(table)) {
		s, ok := Find(options, key)
		if !ok {
			errs = append(errs, &Error{Key: prefix + key, Problem: Meant(key, known), Unknown: true})
			continue
		}
		field, _ := Field(options, key)
		errs = append(errs, s.set(field, table[key], prefix+key)...)
	}
	return errs
}

// set gives a field a TOML value, and checks it.
func (s Setting) set(field reflect.Value, value any, at string) []*Error {
	if isTable(field) {
		if table, ok := value.(map[string]any); ok {
			return fill(field, table, at+".")
		}
		return []*Error{{Key: at, Problem: fmt.Sprintf(": must be a table; write [%s] and its keys below it", at)}}
	}
	if isList(field) {
		return s.setList(field, value, at)
	}
	var inside *Error
	switch err := assign(field, value); {
	case errors.As(err, &inside): // of a key of a table that reads itself
		inside.Key = at + "." + inside.Key
		return []*Error{inside}
	case err != nil:
		return []*Error{{Key: at, Problem: ": " + err.Error()}}
	}
	if e := s.check(at, field); e != nil {
		return []*Error{e}
	}
	return nil
}

// setList gives a list of structs its entries.
func (s Setting) setList(field reflect.Value, value any, at string) (errs []*Error) {
	v := reflect.ValueOf(value)
	how := fmt.Sprintf("write [[%s]] above the keys of each", at)
	if s.Example != "" {
		how = fmt.Sprintf("write for example %s = %s", s.Key, s.Example)
	}
	wrong := []*Error{{Key: at, Problem: ": must be a list of tables; " + how}}
	if v.Kind() != reflect.Slice {
		return wrong
	}
	list := reflect.MakeSlice(field.Type(), v.Len(), v.Len())
	for i := range v.Len() {
		table, ok := v.Index(i).Interface().(map[string]any)
		if !ok {
			return wrong
		}
		entry := fmt.Sprintf("%s[%d].", at, i)
		wrong := fill(list.Index(i), table, entry)
		if e := validate(list.Index(i), entry, ""); wrong == nil && e != nil {
			wrong = []*Error{e}
		}
		errs = append(errs, wrong...)
	}
	field.Set(list)
	return errs
}

// Meant ends an error about an unknown word: what it was meant to be, or else what
// it may be.
func Meant(word string, known []string) string {
	if hint := nearest.Suggest(word, known); hint != "" {
		return hint
	}
	return "; use " + either(known)
}

// Defaults sets what the fields of a struct have by default.
func Defaults(options any) { defaults(reflect.ValueOf(options).Elem()) }

func defaults(options reflect.Value) {
	for _, s := range of(options) {
		field, ok := Field(options, s.Key)
		switch {
		case !ok:
		case s.Default != nil:
			if err := assign(field, s.Default); err != nil {
				panic(fmt.Sprintf("the default of %s: %v", s.Key, err)) // it is part of the program
			}
		case isTable(field):
			defaults(field)
		}
	}
}

// assign sets a field of any type to a TOML value.
func assign(field reflect.Value, value any) error {
	switch to := field.Addr().Interface().(type) {
	case decodes:
		return to.UnmarshalTOML(value)
	case encoding.TextUnmarshaler:
		switch value.(type) {
		case string, int64, float64, bool: // of which only a string has a unit
			return to.UnmarshalText(fmt.Append(nil, value))
		}
		return wrongType("a string with a unit", value)
	}
	switch v := reflect.ValueOf(value); {
	case field.Kind() == reflect.Pointer:
		to := reflect.New(field.Type().Elem())
		field.Set(to)
		return assign(to.Elem(), value)
	case field.CanInt():
		if !v.CanInt() {
			return wrongType("an integer", value)
		}
		if field.OverflowInt(v.Int()) {
			return fmt.Errorf("%d is out of range", value)
		}
		field.SetInt(v.Int())
	case field.CanFloat():
		if !v.CanInt() && !v.CanFloat() {
			return wrongType("a number", value)
		}
		field.SetFloat(number(v))
	case field.Kind() == reflect.Slice:
		if v.Kind() != reflect.Slice {
			return wrongType("a list", value)
		}
		list := reflect.MakeSlice(field.Type(), v.Len(), v.Len())
		for i := range v.Len() {
			if err := assign(list.Index(i), v.Index(i).Interface()); err != nil {
				return err
			}
		}
		field.Set(list)
	case field.Kind() != v.Kind():
		return wrongType(typeName(field.Interface()), value)
	default:
		field.Set(v.Convert(field.Type()))
	}
	return nil
}

func wrongType(want string, value any) error {
	return fmt.Errorf("must be %s, not %s", want, typeName(value))
}

// typeName says in words what a TOML value is.
func typeName(value any) string {
	switch v := reflect.ValueOf(value); {
	case v.Kind() == reflect.String:
		return "a string"
	case v.Kind() == reflect.Bool:
		return "true or false"
	case v.CanInt():
		return "an integer"
	case v.CanFloat():
		return "a fraction"
	case v.Kind() == reflect.Slice:
		return "a list"
	case v.Kind() == reflect.Map:
		return "a table"
	}
	return "a date"
}
