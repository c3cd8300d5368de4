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
	Problem    string // the text that follows the key
	Unknown    bool   // the key is unknown, and Problem suggests another
	OutOfRange bool   // the value has the right type
}

// Error prints the key and the problem.
func (e *Error) Error() string {
	if e.Unknown {
		return e.Key + ": unknown key" + e.Problem
	}
	return e.Key + e.Problem
}

// Validate reports the first key of a struct, or of the structs and lists in it, that is missing
// or out of range. A zero value counts as not given.
func Validate(options any) error { return ValidateWith(options, "") }

// ValidateWith validates only the keys that have a meaning with an alternative but not with all.
// Of these, a number whose range does not include 0 must be given.
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

// check returns an error for a value that is out of range.
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
	problem = fmt.Sprintf(" = %s: must be %s", Quote(value.Interface()), problem)
	return &Error{Key: key, Problem: problem, OutOfRange: true}
}

// choice describes the legal values of a text, or returns "" if the text consists of Parts.
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
	if len(parts) > 1 && slices.Contains(s.OneOf, parts[wrong]) {
		return problem + fmt.Sprintf("; %q stands alone: write it without others, or leave it out", parts[wrong])
	}
	if len(parts) > 1 {
		problem += fmt.Sprintf("; %q is not one of these", parts[wrong])
	}
	return problem + nearest.Suggest(parts[wrong], append(slices.Clone(s.OneOf), s.Parts...))
}

// A Range is the numbers from Min to Max. Quantities are in nanoseconds, bytes, bytes per second
// or operations per second. The zero value has no limits.
type Range struct {
	Min, Max           float64
	AboveMin, BelowMax bool // excludes the end itself
}

// Count is the range of a number of things, at least one.
func Count() Range { return Range{Min: 1, Max: math.MaxInt32} }

// Positive is the range of all numbers above zero.
func Positive() Range { return Range{Max: math.Inf(1), AboveMin: true} }

// Between is a range that includes both ends.
func Between(least, most float64) Range { return Range{Min: least, Max: most} }

// problem describes the legal numbers, or returns "" for a number in the range.
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

// unlimited reports whether the upper end only keeps sums within the range of integers.
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

// bound prints an end of a range as a value of a type, a quantity with its unit.
func bound(x float64, t reflect.Type) string {
	if s, ok := reflect.ValueOf(x).Convert(t).Interface().(fmt.Stringer); ok && x != 0 {
		return s.String()
	}
	return strconv.FormatFloat(x, 'f', -1, 64)
}
