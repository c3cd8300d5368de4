package setting

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// decodes is implemented by types that read a TOML value themselves.
type decodes interface{ UnmarshalTOML(value any) error }

// isTable reports whether a field is a table of keys, and not a value that reads itself.
func isTable(field reflect.Value) bool {
	_, itself := reflect.New(field.Type()).Interface().(decodes)
	return field.Kind() == reflect.Struct && !itself
}

// isList reports whether a field is a list of tables, such as
// [[machine.measured]].
func isList(field reflect.Value) bool {
	return field.Kind() == reflect.Slice && field.Type().Elem().Kind() == reflect.Struct
}

// Defaults sets the fields of a struct to their defaults.
func Defaults(options any) {
	for s, field := range each(reflect.ValueOf(options).Elem()) {
		if s.Default != nil {
			if err := assign(field, s.Default); err != nil {
				panic(fmt.Sprintf("the default of %s: %v", s.Key, err)) // defaults are part of the program
			}
		} else if isTable(field) {
			Defaults(field.Addr().Interface())
		}
	}
}

// Fill sets the keys of a described struct, and of the structs and lists in it, from a TOML table,
// and checks them. It returns one error for each bad key. Values that are out of range are set
// nevertheless.
func Fill(options any, table map[string]any) []*Error {
	return fill(reflect.ValueOf(options).Elem(), table, "")
}

func fill(options reflect.Value, table map[string]any, prefix string) (errs []*Error) {
	var known []string
	for s, field := range each(options) {
		known = append(known, s.Key)
		if value, ok := table[s.Key]; ok {
			errs = append(errs, s.set(field, value, prefix+s.Key)...)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(table)) {
		if !slices.Contains(known, key) {
			errs = append(errs, &Error{Key: prefix + key, Problem: Meant(key, known), Unknown: true})
		}
	}
	return errs
}

// set gives a field a TOML value, and checks it.
func (s Setting) set(field reflect.Value, value any, at string) []*Error {
	wrong := &Error{Key: at}
	switch table, ok := value.(map[string]any); {
	case isTable(field) && ok:
		return fill(field, table, at+".")
	case isTable(field):
		wrong.Problem = fmt.Sprintf(": must be a table; write [%s] and its keys below it", at)
	case isList(field):
		return s.setList(field, reflect.ValueOf(value), at)
	default:
		value = s.joinParts(value)
		if _, list := value.([]any); list && s.Parts != nil {
			wrong.Problem = fmt.Sprintf(": must be one of %s, or a list of one or more of %s",
				strings.Join(s.OneOf, ", "), strings.Join(s.Parts, ", "))
			break
		}
		err := assign(field, value)
		if errors.As(err, &wrong) { // about a key of a table that reads itself
			wrong.Key = at + "." + wrong.Key
		} else if err != nil {
			wrong.Problem = cmp.Or(s.belowAll(field, value), ": "+err.Error())
		} else if wrong = s.check(at, reflect.Indirect(field)); wrong == nil {
			return nil
		}
	}
	return []*Error{wrong}
}

// belowAll describes the legal values of a quantity that must be more than 0, if the value is 0 or less. An
// error about its unit alone would lead to a second one.
func (s Setting) belowAll(field reflect.Value, value any) string {
	_, quantity := field.Addr().Interface().(encoding.TextUnmarshaler)
	number := strings.TrimRight(fmt.Sprint(value), "/ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
	x, err := strconv.ParseFloat(number, 64)
	if !quantity || err != nil || x > 0 || !s.Range.AboveMin || s.Range.Min != 0 || s.Example == "" {
		return ""
	}
	return fmt.Sprintf(" = %s: must be more than 0 and have a unit; write for example %s = %s",
		Quote(value), s.Key, s.Example)
}

// joinParts turns a list of Parts or of their Aliases, or a string with commas between them, into one
// string in the order of Parts. It returns other values unchanged.
func (s Setting) joinParts(value any) any {
	var parts []string
	switch v := value.(type) {
	case string:
		if list, bare := strings.CutPrefix(v, "["); bare { // a shell has removed its quotes
			v = strings.TrimSuffix(list, "]")
		}
		parts = strings.Split(v, ",")
	case []any:
		for _, one := range v {
			text, ok := one.(string)
			if !ok {
				return value
			}
			parts = append(parts, text)
		}
	}
	if s.Parts == nil || len(parts) == 0 {
		return value
	}
	for i := range parts {
		parts[i] = strings.Trim(parts[i], ` "`)
		parts[i] = cmp.Or(s.Aliases[parts[i]], parts[i])
	}
	parts = strings.Split(strings.Join(parts, ","), ",")
	place := func(part string) uint { return uint(slices.Index(s.Parts, part)) } // unknown parts come last
	slices.SortStableFunc(parts, func(a, b string) int { return cmp.Compare(place(a), place(b)) })
	return strings.Join(slices.Compact(parts), ",")
}

// setList gives a list of structs its entries.
func (s Setting) setList(field, value reflect.Value, at string) (errs []*Error) {
	isTables := value.Kind() == reflect.Slice
	for i := 0; isTables && i < value.Len(); i++ {
		_, isTables = value.Index(i).Interface().(map[string]any)
	}
	if !isTables {
		how := fmt.Sprintf("write [[%s]] above the keys of each", at)
		if s.Example != "" {
			how = fmt.Sprintf("write for example %s = %s", s.Key, s.Example)
		}
		return []*Error{{Key: at, Problem: ": must be a list of tables; " + how}}
	}
	field.Set(reflect.MakeSlice(field.Type(), value.Len(), value.Len()))
	for i := range value.Len() {
		entry := fmt.Sprintf("%s[%d].", at, i)
		wrong := fill(field.Index(i), value.Index(i).Interface().(map[string]any), entry)
		if e := validate(field.Index(i), entry, ""); wrong == nil && e != nil {
			wrong = []*Error{e}
		}
		errs = append(errs, wrong...)
	}
	return errs
}

// assign sets a field of any type to a TOML value.
func assign(field reflect.Value, value any) error {
	v := reflect.ValueOf(value)
	switch to := field.Addr().Interface().(type) {
	case decodes:
		return to.UnmarshalTOML(value)
	case encoding.TextUnmarshaler:
		if v.Kind() == reflect.Slice || v.Kind() == reflect.Map {
			return errors.New("must be a string with a unit, not " + typeName(v))
		}
		return to.UnmarshalText(fmt.Append(nil, value)) // refuses numbers, which have no unit
	}
	if field.Kind() == reflect.Pointer {
		field.Set(reflect.New(field.Type().Elem()))
		return assign(field.Elem(), value)
	}
	switch want, has := typeName(field), typeName(v); {
	case want != has && !(field.CanFloat() && v.CanInt()):
		return fmt.Errorf("must be %s, not %s", want, has)
	case field.CanInt() && field.OverflowInt(v.Int()):
		return fmt.Errorf("%d is out of range", value)
	case field.Kind() == reflect.Slice:
		field.Set(reflect.MakeSlice(field.Type(), v.Len(), v.Len()))
		for i := range v.Len() {
			if err := assign(field.Index(i), v.Index(i).Interface()); err != nil {
				return err
			}
		}
		return nil
	}
	field.Set(v.Convert(field.Type()))
	return nil
}

func typeName(v reflect.Value) string {
	switch {
	case v.CanInt():
		return "an integer"
	case v.CanFloat():
		return "a decimal number"
	}
	switch v.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	case reflect.Map:
		return "a table"
	}
	return "a date"
}
