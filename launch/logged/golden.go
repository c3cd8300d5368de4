package logged

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	"psim/internal/units"
	"psim/launch/understood"
)

// goldenMark is the quantity of Megatron-LM's golden values that tells how long a step took.
const goldenMark = `"iteration-time"`

// golden is a quantity of Megatron-LM's golden values: a number for each step that was written down, or "nan".
type golden struct {
	Values map[string]json.RawMessage `json:"values"`
}

// numbers returns the numbers in the order of their steps.
func (g golden) numbers() (list []float64) {
	type at struct {
		step  int
		value float64
	}
	var all []at
	for step, text := range g.Values {
		n, err := strconv.Atoi(step)
		if value := number(string(text)); err == nil && value > 0 {
			all = append(all, at{n, value})
		}
	}
	slices.SortFunc(all, func(a, b at) int { return a.step - b.step })
	for _, a := range all {
		list = append(list, a.value)
	}
	return list
}

// readGolden reads the golden values of a functional test of Megatron-LM, which have the seconds of steps, without the
// first one.
func readGolden(data []byte) *Log {
	trimmed := bytes.TrimSpace(data)
	var quantities map[string]golden
	if !bytes.HasPrefix(trimmed, []byte("{")) || !bytes.Contains(trimmed, []byte(goldenMark)) ||
		json.Unmarshal(trimmed, &quantities) != nil {
		return nil
	}
	seconds := quantities["iteration-time"].numbers()
	if len(seconds) < 2 {
		return nil
	}
	s := &understood.LoggedSteps{
		Program: "golden", StepTime: median(seconds[1:]), Lines: len(seconds) - 1, Left: 1,
		How: "iteration-time, the median of " + units.Plural(len(seconds)-1, "step"),
	}
	for _, peak := range quantities["mem-max-allocated-bytes"].numbers() {
		s.Allocated = max(s.Allocated, int64(peak))
	}
	return &Log{Steps: s}
}
