package results

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
)

// Checks compares a run with the unsplit run. A number is nil if it was not checked.
// Files have null for a number that is NaN or infinite.
type Checks struct {
	Weights *float64 `json:"weights,omitempty"` // largest absolute difference of any weight
	// LeftOut counts weights that the check does not judge: those with a gradient of at most a thousandth of the
	// largest of their tensor. Adam makes as long a step of these as of any other.
	LeftOut        int      `json:"weights_left_out,omitempty"`
	LeftOutLargest *float64 `json:"weights_left_out_largest,omitempty"` // absolute difference
	LeftOutTensors []string `json:"weights_left_out_names,omitempty"`   // tensors that have some
	Outputs        *float64 `json:"outputs,omitempty"`                  // largest absolute difference of any output
	Gradients      *float64 `json:"gradients,omitempty"`                // largest absolute difference of any gradient
	LossFirst      *float64 `json:"loss_first,omitempty"`               // loss of the first step
	LossLast       *float64 `json:"loss_last,omitempty"`                // loss of the last step
	LossDifference *float64 `json:"loss_difference,omitempty"`          // largest difference of the loss of any step
	// Reference is the run that was compared with; absent for the unsplit run.
	Reference string `json:"reference,omitempty"`
	// Starts counts the starts that were compared, if there was more than one; the differences are
	// then the largest of any start.
	Starts *CheckedStarts `json:"starts,omitempty"`
	// Passed is true if all checks passed.
	Passed bool `json:"passed"`
}

// CheckedStarts counts how often a run was started and compared, with the devices in another
// order each time.
type CheckedStarts struct {
	Count  int `json:"count"`  // starts
	Passed int `json:"passed"` // starts in which all checks passed
}

// Verdict says in words whether the checks passed, and in how many starts.
func (c Checks) Verdict() string {
	text := "FAILED"
	if c.Passed {
		text = "passed"
	}
	if s := c.Starts; s != nil && c.Passed {
		text += fmt.Sprintf(" in %d of %d starts", s.Passed, s.Count)
	} else if s != nil {
		text += fmt.Sprintf(", passed in %d of %d starts", s.Passed, s.Count)
	}
	return text
}

// Worst joins the checks of two runs. It takes the larger differences and the more weights that are left out, has
// passed only if both have, and adds their starts. The losses and the reference stay those of the receiver.
func (c Checks) Worst(d Checks) Checks {
	c.Weights, c.Outputs = larger(c.Weights, d.Weights), larger(c.Outputs, d.Outputs)
	c.Gradients, c.LossDifference = larger(c.Gradients, d.Gradients), larger(c.LossDifference, d.LossDifference)
	c.LeftOutLargest = larger(c.LeftOutLargest, d.LeftOutLargest)
	if d.LeftOut > c.LeftOut {
		c.LeftOut, c.LeftOutTensors = d.LeftOut, d.LeftOutTensors
	}
	c.Passed = c.Passed && d.Passed
	if c.Starts != nil && d.Starts != nil {
		c.Starts = &CheckedStarts{c.Starts.Count + d.Starts.Count, c.Starts.Passed + d.Starts.Passed}
	}
	return c
}

// larger returns the larger of two numbers that may be unknown. NaN is larger than all
// others.
func larger(a, b *float64) *float64 {
	switch {
	case a == nil:
		return b
	case b == nil || math.IsNaN(*a):
		return a
	case math.IsNaN(*b) || *b > *a:
		return b
	}
	return a
}

// numbers returns pointers to the numbers of the checks, by their names in JSON.
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

// diverged reports whether a number is NaN or infinite.
func (c *Checks) diverged() bool {
	if c == nil {
		return false
	}
	for _, x := range c.numbers() {
		if *x != nil && !finite(**x) {
			return true
		}
	}
	return false
}

// MarshalJSON writes null for a number that is NaN or infinite.
func (c Checks) MarshalJSON() ([]byte, error) {
	null := map[string]bool{}
	for name, x := range c.numbers() {
		null[name] = *x != nil && !finite(**x)
	}
	var out bytes.Buffer
	fields := reflect.ValueOf(c)
	for i := range fields.NumField() {
		name, options, _ := strings.Cut(fields.Type().Field(i).Tag.Get("json"), ",")
		if options == "omitempty" && fields.Field(i).IsZero() {
			continue
		}
		value := []byte("null")
		if !null[name] {
			var err error
			if value, err = json.Marshal(fields.Field(i).Interface()); err != nil {
				return nil, err
			}
		}
		fmt.Fprintf(&out, ",%q:%s", name, value)
	}
	return append([]byte{'{'}, append(out.Bytes()[1:], '}')...), nil // passed is never left out
}

// UnmarshalJSON reads null as NaN. It also reads the largest number as NaN, which older files
// have instead of null.
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
