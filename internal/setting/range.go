package setting

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
)

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
	x := number(value)
	switch {
	case !(x >= r.Min) || r.AboveMin && x == r.Min:
	case x > r.Max || r.BelowMax && x == r.Max:
		if r.unlimited() {
			return r.upper(value.Type())
		}
	default:
		return ""
	}
	return r.words(value.Type())
}

// number is a value of any numeric kind.
func number(value reflect.Value) float64 {
	if value.CanInt() {
		return float64(value.Int())
	}
	return value.Float()
}

// unlimited reports whether the upper end is only there to be counted.
func (r Range) unlimited() bool { return r.Max >= 1<<30 }

// whole reports whether all that is not negative is in the range.
func (r Range) whole() bool { return r.Min == 0 && !r.AboveMin && r.unlimited() }

// words says what a number in the range is.
func (r Range) words(t reflect.Type) string {
	low := r.bound(r.Min, t)
	lower := "at least " + low
	if r.AboveMin {
		lower = "more than " + low
	}
	switch {
	case r.unlimited():
		return lower
	case !r.AboveMin && !r.BelowMax:
		return low + " to " + r.bound(r.Max, t)
	}
	return lower + " and " + r.upper(t)
}

// upper says what the upper end is.
func (r Range) upper(t reflect.Type) string {
	if r.BelowMax {
		return "less than " + r.bound(r.Max, t)
	}
	return "at most " + r.bound(r.Max, t)
}

// bound prints an end of the range as a value of a type: a quantity has a unit.
func (r Range) bound(x float64, t reflect.Type) string {
	if s, ok := reflect.ValueOf(x).Convert(t).Interface().(fmt.Stringer); ok && x != 0 {
		return s.String()
	}
	return strconv.FormatFloat(x, 'f', -1, 64)
}
