package setting

import (
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
)

// A Need is a condition on other keys: at least one of Keys must satisfy it.
type Need struct {
	Keys   []string // dotted
	Above  float64  // the number must be greater; ignored with OneOf, Set or Unset
	OneOf  []string // the value must be one of these
	Unset  bool     // the key must have no value
	Set    bool     // the key must have a value
	Reason string   // the end of the warning about a value without effect; "": no warning
}

// Met reports whether described options satisfy a need.
func (n Need) Met(options any) bool {
	return slices.ContainsFunc(n.Keys, func(key string) bool {
		_, value, _ := Find(options, key)
		switch v := reflect.ValueOf(value); {
		case n.Unset, n.Set:
			return n.Set == (v.IsValid() && !v.IsZero())
		case n.OneOf != nil:
			return slices.Contains(n.OneOf, fmt.Sprint(value))
		default:
			return v.Convert(reflect.TypeFor[float64]()).Float() > n.Above
		}
	})
}

// Values prints the values of the keys of a need, for messages.
func (n Need) Values(options any) string {
	if n.Unset || n.Set {
		return strings.Join(n.Keys, " and ")
	}
	var parts []string
	for _, key := range n.Keys {
		_, value, _ := Find(options, key)
		parts = append(parts, key+" = "+Quote(value))
	}
	return strings.Join(parts, " and ")
}

// Effective reports whether all that the key needs is met.
func (s Setting) Effective(options any) bool {
	return !slices.ContainsFunc(s.Needs, func(n Need) bool { return !n.Met(options) })
}

// Changes reports whether a value differs from zero, from the default and from the neutral value.
func (s Setting) Changes(value any) bool {
	text := fmt.Sprint(value)
	return !reflect.ValueOf(value).IsZero() && text != fmt.Sprint(s.Default) && text != fmt.Sprint(s.Neutral)
}

// A Nested is a setting at its place in nested options.
type Nested struct {
	Setting
	Path  string // dotted
	Value any    // nil for a key of a table that reads itself
}

// Keys yields every setting of described options and of the tables in them, in order.
func Keys(options any) iter.Seq[Nested] {
	return func(yield func(Nested) bool) { yieldKeys(reflect.ValueOf(options), "", yield) }
}

// yieldKeys yields keys until yield returns false, which it then returns.
func yieldKeys(options reflect.Value, prefix string, yield func(Nested) bool) bool {
	for s, field := range each(options) {
		key := Nested{Setting: s, Path: prefix + s.Key}
		if value := reflect.Indirect(field); value.IsValid() {
			key.Value = value.Interface()
		}
		if !yield(key) {
			return false
		}
		if isTable(field) {
			if !yieldKeys(field, key.Path+".", yield) {
				return false
			}
			continue
		}
		for _, inner := range settings(field) {
			if !yield(Nested{Setting: inner, Path: key.Path + "." + inner.Key}) {
				return false
			}
		}
	}
	return true
}
