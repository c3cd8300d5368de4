package costmodel

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"psim/costmodel/arch"
	"psim/internal/units"
	"psim/schedules/graph"
)

// Averaging is the name of a MeasuredUpdate that is no optimizer's: the division
// of gradients that were summed over the replicas.
const Averaging = "average"

// MeasuredUpdate is what an optimizer's step took on a device, in fp32: an entry
// of [[machine.optimizer]]. n tensors of b bytes of parameters in all take
// n · PerTensor + b / Rate.
type MeasuredUpdate struct {
	Name      string         `toml:"name"` // as in train.optimizer, or Averaging
	PerTensor units.Duration `toml:"per_tensor"`
	Rate      units.Rate     `toml:"rate"` // bytes of parameters per second
}

// Validate reports the first key that is missing or out of range. Its error
// begins with the key.
func (u MeasuredUpdate) Validate() error {
	switch {
	case u.Name == "":
		return errors.New("name is missing: it is an optimizer's, as in train.optimizer")
	case u.Name != Averaging && !slices.Contains(arch.Optimizers(), u.Name):
		return fmt.Errorf("name = %q: must be one of %s, %s", u.Name, strings.Join(arch.Optimizers(), ", "), Averaging)
	case u.Rate <= 0:
		return errors.New("rate is missing or zero: it is the bytes of parameters per second")
	case time.Duration(u.PerTensor) >= maxTime:
		return fmt.Errorf("per_tensor = %q: is too long to be added up", u.PerTensor)
	}
	return nil
}

// checkUpdates wants legal entries, one for each optimizer.
func checkUpdates(list []MeasuredUpdate) error {
	seen := map[string]bool{}
	for i, u := range list {
		if err := u.Validate(); err != nil {
			return fmt.Errorf("optimizer: entry %d: %w", i+1, err)
		}
		if seen[u.Name] {
			return fmt.Errorf("optimizer: there are two entries for %q", u.Name)
		}
		seen[u.Name] = true
	}
	return nil
}

// Time of a step.
func (u MeasuredUpdate) Time(tensors int, bytes int64) time.Duration {
	return nanoseconds(float64(tensors)*float64(u.PerTensor) + float64(bytes)/float64(u.Rate)*1e9)
}

// Update is the time of an optimizer's step, and false if it was not measured.
func (c Compute) Update(optimizer string, tensors int, bytes int64) (time.Duration, bool) {
	if optimizer == "" {
		optimizer = "adamw"
	}
	for _, u := range c.updates {
		if u.Name == optimizer {
			return u.Time(tensors, bytes), true
		}
	}
	return 0, false
}

// useMeasuredUpdates prices every rank's optimizer by what its kind took, if
// that was measured.
func (p *pricer) useMeasuredUpdates() {
	w := p.workload
	p.tensors = make([]int, len(p.optimizer))
	bytes := make([]int64, len(p.optimizer))
	for s := range w.Placement.First {
		for _, r := range w.Placement.Ranks(s) {
			p.tensors[r] += len(w.split().Completed(s))
			bytes[r] += w.share(w.padded(s)*w.state().Parameter, 1)
		}
	}
	for r := range p.optimizer {
		if t, ok := p.compute.Update(w.Training.Optimizer, p.tensors[r], bytes[r]); ok {
			p.optimizer[r] = t
		}
	}
}

// average is the time of dividing summed gradients.
func (p *pricer) average(t *graph.Task) time.Duration {
	if took, ok := p.compute.Update(Averaging, p.tensors[int(t.Rank)%len(p.tensors)], t.Bytes); ok {
		return took
	}
	return p.compute.Move(2 * t.Bytes)
}
