package costmodel

import (
	"cmp"
	"fmt"
	"time"

	"psim/costmodel/stages"
	"psim/costmodel/training"
	"psim/internal/setting"
	"psim/internal/units"
	"psim/schedules/graph"
)

// Averaging is the name of a MeasuredUpdate that is not an optimizer's: the division of gradients
// that were summed over the replicas.
const Averaging = "average"

// MeasuredUpdate is the measured time of an optimizer's step on a device, in fp32: an entry of
// [[machine.optimizer]]. n tensors with b bytes of parameters in total take n · PerTensor + b / Rate.
type MeasuredUpdate struct {
	Name      string         `toml:"name"` // as in train.optimizer, or Averaging
	PerTensor units.Duration `toml:"per_tensor"`
	Rate      units.Rate     `toml:"rate"` // bytes of parameters per second
}

// Settings describes [[machine.optimizer]].
func (MeasuredUpdate) Settings() []setting.Setting {
	return []setting.Setting{
		{
			Key: "name", Required: true, Example: `"adamw"`, OneOf: append(training.Optimizers(), Averaging),
			Text: "as in train.optimizer; or average, the division of gradients that were summed over replicas",
		},
		{
			Key: "per_tensor", Default: "0us", Example: `"20us"`,
			Range: setting.Range{Max: float64(units.Longest), BelowMax: true},
			Text:  "for every tensor of parameters",
		},
		{
			Key: "rate", Required: true, Example: `"1GB/s"`, Range: setting.Positive(),
			Text: "bytes of parameters per second, in addition to per_tensor",
		},
	}
}

// checkUpdates refuses entries that are out of range, and two for one optimizer.
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

// Time returns the time of a step.
func (u MeasuredUpdate) Time(tensors int, bytes int64) time.Duration {
	return units.Nanoseconds(float64(tensors)*float64(u.PerTensor) + float64(bytes)/float64(u.Rate)*1e9)
}

// Update returns the time of an optimizer's step, and false if it was not measured.
func (c *Compute) Update(optimizer string, tensors int, bytes int64) (time.Duration, bool) {
	for _, u := range c.updates {
		if u.Name == cmp.Or(optimizer, "adamw") {
			return u.Time(tensors, bytes), true
		}
	}
	return 0, false
}

// updates holds the times of the tasks that end a step, by rank of a replica.
type updates struct {
	compute Compute
	times   []time.Duration // of the optimizer
	tensors []int           // of parameters
}

// newUpdates prices the update of every rank's parameters. An update reads the gradients and reads
// and writes the state of the rank's share. An optimizer that was measured takes the measured time.
func newUpdates(m Machine, c Compute, staged *stages.Staged, g *graph.Graph) updates {
	ranks := g.Ranks() / max(1, staged.Replicas)
	u := updates{c, make([]time.Duration, ranks), make([]int, ranks)}
	moved, parameters, gradients := make([]int64, ranks), make([]int64, ranks), make([]int64, ranks)
	per := staged.PerParameter
	perParameter, gradient := updated(per, staged.Training)
	paged, products := make([]int64, ranks), make([]time.Duration, ranks)
	for _, s := range staged.Stages {
		for _, r := range s.Ranks {
			u.tensors[r] += len(s.Tensors)
			moved[r] += staged.ShareOf(&s, perParameter, 1)
			if !staged.Gathers() {
				moved[r] += staged.Training.CastBytes(s.Narrow)
			}
			moved[r] += 2 * staged.Share(s.States, 1)
			if staged.Training.Paged() {
				paged[r] += staged.Share(s.States, 1)
			}
			products[r] = units.Sum(products[r], c.updateProducts(staged, &s))
			parameters[r] += staged.ShareOf(&s, per.Parameter, 1)
			gradients[r] += staged.ShareOf(&s, gradient, 1)
		}
	}
	var sum time.Duration
	if staged.Training.Clip {
		sum = m.sumOfNorms(staged.Zero > 0 || staged.Network.Group.Dispatches(), g)
	}
	for r := range u.times {
		u.times[r] = units.Sum(c.Move(moved[r]), products[r])
		if bytes := paged[r]; bytes > 0 && m.HostLink.Bandwidth > 0 { // pages come and go at the same time
			u.times[r] = max(u.times[r], m.HostLink.Transfer(bytes))
		}
		if t, ok := c.Update(staged.Training.Optimizer, u.tensors[r], parameters[r]); ok {
			u.times[r] = t
		}
		if staged.Training.Clip {
			u.times[r] = units.Sum(u.times[r], c.Move(gradients[r]), sum)
		}
	}
	return u
}

// updated counts the bytes that an update moves for a parameter, and those of its gradient at that
// time. An optimizer with fp32 weights takes gradients in fp32, too: sums in 16 bits are converted
// first. It reads and writes its state, and reads the fp32 weight once more to convert it back.
// Without an fp32 weight it reads and writes the parameter itself.
func updated(per training.State, t training.Options) (bytes, gradient int64) {
	const wide = 4
	gradient = per.Gradient
	if gradient < wide && t.Masters() {
		bytes, gradient = gradient+wide, wide
	}
	bytes += gradient*(1+t.GradientPasses()+t.UpdateReads()) + 2*per.Optimizer
	if t.Base() != "fp32" && !t.Masters() {
		return bytes + 2*per.Parameter + t.ForeachBytes(per.Parameter, gradient), gradient
	}
	return bytes + wide + per.Parameter + t.ForeachBytes(wide, gradient), gradient
}

// updateProducts returns the time of an optimizer's products for a stage. ZeRO divides them among replicas.
func (c Compute) updateProducts(staged *stages.Staged, s *stages.Stage) time.Duration {
	if s.UpdateProducts == 0 {
		return 0
	}
	took := s.UpdateFLOPs/c.flops + float64(s.UpdateProducts)*c.launch.Seconds()
	return units.Seconds(took / float64(staged.Sharers(1)))
}

// normBytes is the size of the square of a norm, in fp32.
const normBytes = 4

// sumOfNorms returns the time in which clipping sums one number over all devices that hold
// different gradients: those of a replica, or of all replicas if ZeRO shards the gradients. Besides
// this sum and scaling, clipping reads the gradients. Ranks do not wait for each other here, since
// they already did for the sum of gradients.
func (m *Machine) sumOfNorms(sharded bool, g *graph.Graph) time.Duration {
	n := g.Shape.Ranks
	if sharded {
		n = g.Ranks()
	}
	ranks := make([]int32, n)
	for r := range ranks {
		ranks[r] = int32(r)
	}
	l := m.group(ranks, m.context(), nil)
	if n*m.context() == 1 {
		l = m.inner()
	}
	return l.CollectiveTime(graph.AllReduce, n*m.Devices(), normBytes)
}

// step returns the time of an optimizer's task.
func (u updates) step(t *graph.Task) time.Duration { return u.times[int(t.Rank)%len(u.times)] }

// average returns the time of dividing summed gradients.
func (u updates) average(t *graph.Task) time.Duration {
	if took, ok := u.compute.Update(Averaging, u.tensors[int(t.Rank)%len(u.tensors)], t.Bytes); ok {
		return took
	}
	return u.compute.Move(2 * t.Bytes)
}
