package results

import (
	"encoding/json"
	"math"
	"slices"
)

// Losses are the losses of steps. Files have null for a loss that is NaN or infinite.
type Losses []float64

// finite reports whether JSON can express a number.
func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// diverged reports whether a loss is NaN or infinite.
func (l Losses) diverged() bool {
	return slices.ContainsFunc(l, func(x float64) bool { return !finite(x) })
}

// MarshalJSON writes null for a loss that is NaN or infinite.
func (l Losses) MarshalJSON() ([]byte, error) {
	list := make([]*float64, len(l))
	for i := range l {
		if finite(l[i]) {
			list[i] = &l[i]
		}
	}
	return json.Marshal(list)
}

// UnmarshalJSON reads null as NaN. It also reads the largest number as NaN, which older files
// have instead of null.
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
