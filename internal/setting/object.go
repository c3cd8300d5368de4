package setting

import (
	"encoding"
	"reflect"
)

// encodes is implemented by types that write a TOML value themselves.
type encodes interface{ TOML() any }

// Object returns a described struct as a table of TOML, in the types of JSON: the keys that are not
// zero or have a default, except those that skip reports.
func Object(options any, skip func(Setting) bool) map[string]any {
	return object(reflect.ValueOf(options), skip)
}

func object(options reflect.Value, skip func(Setting) bool) map[string]any {
	table := map[string]any{}
	for s, field := range each(options) {
		switch {
		case skip != nil && skip(s), field.IsZero() && s.Default == nil:
		default:
			if value := encode(field); value != nil {
				table[s.Key] = value
			}
		}
	}
	return table
}

// encode returns a value as TOML has it, or nil if it cannot be written.
func encode(field reflect.Value) any {
	field = reflect.Indirect(field)
	switch v := field.Interface().(type) {
	case encodes:
		return v.TOML()
	case encoding.TextMarshaler:
		text, err := v.MarshalText()
		if err != nil {
			return nil // a quantity that was never read, such as an infinite one
		}
		return string(text)
	}
	switch {
	case field.CanInt():
		return float64(field.Int())
	case field.CanFloat():
		return field.Float()
	case field.Kind() == reflect.Struct:
		return object(field, nil)
	case field.Kind() == reflect.Slice:
		list := make([]any, field.Len())
		for i := range list {
			list[i] = encode(field.Index(i))
		}
		return list
	}
	return field.Interface()
}
