package setting

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"psim/internal/nearest"
)

// An Error is a key that is unknown or missing, or whose value is wrong.
type Error struct {
	Key        string // dotted; [i] is an entry of a list
	Problem    string // what follows the key
	Unknown    bool   // the key itself; Problem then says what it was meant to be
	OutOfRange bool   // a value of the right type
}

// Error prints the key and what is wrong with it.
func (e *Error) Error() string {
	if e.Unknown {
		return e.Key + ": unknown key" + e.Problem
	}
	return e.Key + e.Problem
}

// Validate reports the first key of a struct, and of the structs and lists in it,
// that is missing or has a value out of range. A zero is not given.
func Validate(options any) error { return ValidateWith(options, "") }

// ValidateWith validates only the keys that have a meaning with an alternative, and
// not with all. Here a number whose range is without 0 must be given.
func ValidateWith(options any, alternative string) error {
	if e := validate(reflect.ValueOf(options), "", alternative); e != nil {
		return e
	}
	return nil
}

func validate(options reflect.Value, prefix, with string) (e *Error) {
	for s, field := range each(options) {
		if with != "" && !slices.Contains(s.With, with) {
			continue
		}
		switch at := prefix + s.Key; {
		case isTable(field):
			e = validate(field, at+".", "")
		case isList(field):
			for i := 0; i < field.Len() && e == nil; i++ {
				e = validate(field.Index(i), fmt.Sprintf("%s[%d].", at, i), "")
			}
		case !field.IsZero():
			e = s.check(at, reflect.Indirect(field))
		case s.Required, with != "" && s.Range.Min > 0:
			e = &Error{Key: at, Problem: fmt.Sprintf(" is missing; write for example %s = %s", s.Key, s.Example)}
		}
		if e != nil {
			return e
		}
	}
	return nil
}

// check reports a value that is out of range.
func (s Setting) check(key string, value reflect.Value) *Error {
	problem := ""
	if s.OneOf != nil && value.String() != "" && !slices.Contains(s.OneOf, value.String()) {
		problem = s.choice(value.String())
	} else if s.Range != (Range{}) {
		problem = s.Range.problem(value)
	}
	if problem == "" {
		return nil
	}
	return &Error{Key: key, Problem: fmt.Sprintf(" = %s: must be %s", Quote(value.Interface()), problem), OutOfRange: true}
}

// choice says what a text must be, or nothing where it is made of Parts.
func (s Setting) choice(text string) string {
	if s.Parts == nil {
		return either(s.OneOf) + nearest.Suggest(text, s.OneOf)
	}
	parts := strings.Split(text, ",")
	wrong := slices.IndexFunc(parts, func(part string) bool { return !slices.Contains(s.Parts, part) })
	if wrong < 0 {
		return ""
	}
	problem := strings.Join(s.OneOf, ", ") + ", or a list of " + strings.Join(s.Parts, ", ")
	if len(parts) > 1 {
		problem += fmt.Sprintf("; %q is none of these", parts[wrong])
	}
	return problem + nearest.Suggest(parts[wrong], append(slices.Clone(s.OneOf), s.Parts...))
}

// A Range is the numbers from Min to Max; quantities count in their own unit:
// nanoseconds, bytes, bytes or operations per second. The zero value is no limit.
type Range struct {
	Min, Max           float64
	AboveMin, BelowMax bool // without the end itself
}

// Count is how many there are of something that there must be one of.
func Count() Range { return Range{Min: 1, Max: math.MaxInt32} }

// Positive is everything above zero.
func Positive() Range { return Range{Max: math.Inf(1), AboveMin: true} }

// Between is a range with both ends.
func Between(least, most float64) Range { return Range{Min: least, Max: most} }

// problem says what a number must be, or nothing where it is in the range.
func (r Range) problem(value reflect.Value) string {
	x := value.Convert(reflect.TypeFor[float64]()).Float()
	switch {
	case !(x >= r.Min) || r.AboveMin && x == r.Min:
		return r.words(value.Type())
	case math.IsInf(x, 1) && r.Max == x:
		return "finite"
	case x < r.Max || x == r.Max && !r.BelowMax:
		return ""
	case r.unlimited():
		return r.upper(value.Type())
	}
	return r.words(value.Type())
}

// unlimited reports whether the upper end is only there so that sums can be
// counted.
func (r Range) unlimited() bool { return r.Max >= 1<<30 }

func (r Range) words(t reflect.Type) string {
	low := bound(r.Min, t)
	switch {
	case !r.AboveMin && !r.BelowMax && !r.unlimited():
		return low + " to " + bound(r.Max, t)
	case r.AboveMin:
		low = "more than " + low
	default:
		low = "at least " + low
	}
	if r.unlimited() {
		return low
	}
	return low + " and " + r.upper(t)
}

func (r Range) upper(t reflect.Type) string {
	if r.BelowMax {
		return "less than " + bound(r.Max, t)
	}
	return "at most " + bound(r.Max, t)
}

// bound prints an end of a range as a value of a type: a quantity has a unit.
func bound(x float64, t reflect.Type) string {
	if s, ok := reflect.ValueOf(x).Convert(t).Interface().(fmt.Stringer); ok && x != 0 {
		return s.String()
	}
	return strconv.FormatFloat(x, 'f', -1, 64)
}
