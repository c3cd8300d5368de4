package results

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
)

// numbers lists those of the checks, by name in JSON.
func (c *Checks) numbers() map[string]**float64 {
	list := map[string]**float64{}
	fields := reflect.ValueOf(c).Elem()
	for i := range fields.NumField() {
		if number, ok := fields.Field(i).Addr().Interface().(**float64); ok {
			name, _, _ := strings.Cut(fields.Type().Field(i).Tag.Get("json"), ",")
			list[name] = number
		}
	}
	return list
}

// diverged reports whether a number that was checked is none.
func (c *Checks) diverged() bool {
	if c == nil {
		return false
	}
	for _, x := range c.numbers() {
		if *x != nil && isNone(**x) {
			return true
		}
	}
	return false
}

// MarshalJSON writes null for a number that is NaN or infinite.
func (c Checks) MarshalJSON() ([]byte, error) {
	none := map[string]bool{}
	for name, x := range c.numbers() {
		none[name] = *x != nil && isNone(**x)
	}
	var out bytes.Buffer
	fields := reflect.ValueOf(c)
	for i := range fields.NumField() {
		name, options, _ := strings.Cut(fields.Type().Field(i).Tag.Get("json"), ",")
		if options == "omitempty" && fields.Field(i).IsZero() {
			continue
		}
		value := []byte("null")
		if !none[name] {
			var err error
			if value, err = json.Marshal(fields.Field(i).Interface()); err != nil {
				return nil, err
			}
		}
		fmt.Fprintf(&out, ",%q:%s", name, value)
	}
	return append([]byte{'{'}, append(out.Bytes()[1:], '}')...), nil // passed is always there
}

// UnmarshalJSON reads null as NaN, and so the largest number, which stood for it in
// older files.
func (c *Checks) UnmarshalJSON(data []byte) error {
	type plain Checks
	if err := json.Unmarshal(data, (*plain)(c)); err != nil {
		return err
	}
	var given map[string]any
	if err := json.Unmarshal(data, &given); err != nil {
		return err
	}
	for name, x := range c.numbers() {
		value, is := given[name]
		if is && (value == nil || value == math.MaxFloat64) {
			nan := math.NaN()
			*x = &nan
		}
	}
	return nil
}

// Losses are numbers of which some may be NaN or infinite, which are null in files.
type Losses []float64

// isNone reports what JSON has no number for.
func isNone(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }

func (l Losses) diverged() bool { return slices.ContainsFunc(l, isNone) }

// MarshalJSON writes null for a number that is NaN or infinite.
func (l Losses) MarshalJSON() ([]byte, error) {
	list := make([]*float64, len(l))
	for i := range l {
		if !isNone(l[i]) {
			list[i] = &l[i]
		}
	}
	return json.Marshal(list)
}

// UnmarshalJSON reads null as NaN, and so the largest number.
func (l *Losses) UnmarshalJSON(data []byte) error {
	var list []*float64
	err := json.Unmarshal(data, &list)
	*l = nil
	for _, x := range list {
		if x == nil || *x == math.MaxFloat64 {
			*l = append(*l, math.NaN())
		} else {
			*l = append(*l, *x)
		}
	}
	return err
}
