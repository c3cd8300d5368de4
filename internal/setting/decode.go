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

// IsTable reports whether a field is a table of keys, and no value that reads
// itself.
func IsTable(field reflect.Value) bool {
	_, itself := reflect.New(field.Type()).Interface().(decodes)
	return field.Kind() == reflect.Struct && !itself
}

// IsList reports whether a field is a list of tables, such as
// [[machine.measured]].
func IsList(field reflect.Value) bool {
	return field.Kind() == reflect.Slice && field.Type().Elem().Kind() == reflect.Struct
}

// Fill sets the keys of a described struct from a TOML table, and checks them. An
// error begins with the key.
func Fill(options any, table map[string]any) error {
	return fill(reflect.ValueOf(options).Elem(), table)
}

func fill(options reflect.Value, table map[string]any) error {
	var known []string
	for _, s := range of(options) {
		known = append(known, s.Key)
	}
	for _, key := range slices.Sorted(maps.Keys(table)) {
		s, ok := Find(options, key)
		if !ok {
			return fmt.Errorf("%s: unknown key%s", key, Meant(key, known))
		}
		field, _ := Field(options, key)
		if err := assign(field, table[key]); err != nil {
			if IsList(field) {
				return fmt.Errorf("%s%w", key, err)
			}
			return fmt.Errorf("%s: %w", key, err)
		}
		if err := s.Check(key, field); err != nil {
			return err
		}
	}
	return nil
}

// Meant ends an error about an unknown word: what it was meant to be, or else what
// it may be.
func Meant(word string, known []string) string {
	if hint := nearest.Suggest(word, known); hint != "" {
		return hint
	}
	return "; use " + either(known)
}

// Assign sets a field to a TOML value.
func Assign(field reflect.Value, value any) error { return assign(field, value) }

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
		case IsTable(field):
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
		return assignList(field, value)
	case field.Kind() != v.Kind():
		return wrongType(typeName(field.Interface()), value)
	default:
		field.Set(v.Convert(field.Type()))
	}
	return nil
}

// assignList sets a slice of numbers or of described structs.
func assignList(field reflect.Value, value any) error {
	v := reflect.ValueOf(value)
	if v.Kind() != reflect.Slice {
		if IsList(field) {
			return errors.New(": must be a list of tables, not " + typeName(value))
		}
		return wrongType("a list", value)
	}
	list := reflect.MakeSlice(field.Type(), v.Len(), v.Len())
	for i := range v.Len() {
		entry := v.Index(i).Interface()
		if !IsList(field) {
			if err := assign(list.Index(i), entry); err != nil {
				return err
			}
			continue
		}
		table, ok := entry.(map[string]any)
		if !ok {
			return errors.New(": must be a list of tables, not of " + typeName(entry))
		}
		err := fill(list.Index(i), table)
		if err == nil {
			err = validate(list.Index(i), "")
		}
		if err != nil {
			return fmt.Errorf("[%d].%w", i, err)
		}
	}
	field.Set(list)
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
