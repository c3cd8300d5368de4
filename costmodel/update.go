package costmodel

import (
	"fmt"
	"time"

	"psim/costmodel/arch"
	"psim/internal/setting"
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

// Settings describes [[machine.optimizer]].
func (MeasuredUpdate) Settings() []setting.Setting {
	return []setting.Setting{
		{Key: "name", Required: true, Example: `"adamw"`, OneOf: append(arch.Optimizers(), Averaging), Text: "as train.optimizer has it; or average, the division of gradients that were summed over replicas"},
		{Key: "per_tensor", Default: "0us", Example: `"20us"`, Range: setting.Range{Max: maxTime, BelowMax: true}, Text: "for every tensor of parameters"},
		{Key: "rate", Required: true, Example: `"1GB/s"`, Range: setting.Positive(), Text: "bytes of parameters per second, beside that"},
	}
}

// checkUpdates wants legal entries, one for each optimizer.
func checkUpdates(list []MeasuredUpdate) error {
	seen := map[string]bool{}
	for i, u := range list {
		if err := setting.Validate(u); err != nil {
			return fmt.Errorf("optimizer: entry %d: %w", i+1, err)
		}
		if seen[u.Name] {
			return fmt.Errorf("optimizer: %q appears twice", u.Name)
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
