package train

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"psim/costmodel/network"
	"psim/exec/backend"
	"psim/exec/kernels"
)

// A Record holds the numbers of a run that are compared with those of another run of the same
// network, seed and batches.
type Record struct {
	Losses []float64 // of every step, before its update
	// Validation has the losses on samples that are held out: after every epoch, or after the
	// last measured step.
	Validation []float64
	// Parameters[d] are the parameters of replica d after the last step, by name.
	Parameters []map[string][]float32
	// Gradients[d] are the gradients of the first step on replica d, of the mean over the whole
	// batch, by name.
	Gradients []map[string][]float32
	// Outputs are the logarithms of the probabilities that the network gave for the batch of the second
	// step, or of the only one, sample by sample.
	Outputs []float32
}

// Differences are the largest absolute differences between a run and the unsplit run, over all
// replicas.
type Differences struct {
	Weights, Outputs, Gradients, Loss float64
	// LeftOut are weights that Weights does not see.
	LeftOut Unjudged
	// GradientShare is the difference of gradients as a share of the largest gradient of their
	// tensor or, if that is small, of a thousandth of the largest of all.
	GradientShare float64
	// ReplicasEqual says that gradients are the same on every replica, to the bit.
	ReplicasEqual bool
}

// Unjudged are weights whose gradient in the first step is at most a thousandth of the largest of their tensor.
// Adam divides each gradient by its own size: of what is rounding it makes steps as long as of any other.
type Unjudged struct {
	Count   int
	Largest float64  // absolute difference
	Tensors []string // that have such weights, sorted by name
}

// smallGradient is the share of a tensor's largest gradient that a weight needs for Adam to be compared.
const smallGradient = 1e-3

// leaveOut takes the weights with small gradients out of a tensor's differences.
func (l *Unjudged) leaveOut(name string, got, want, gradients []float32) (compared, expected []float32) {
	if len(got) != len(want) || len(gradients) != len(want) {
		return got, want
	}
	limit, before := smallGradient*largestOf(gradients), l.Count
	for i, g := range gradients {
		if math.Abs(float64(g)) > limit {
			compared, expected = append(compared, got[i]), append(expected, want[i])
			continue
		}
		l.Count++
		l.Largest = larger(l.Largest, math.Abs(float64(got[i])-float64(want[i])))
	}
	if l.Count > before && !slices.Contains(l.Tensors, name) {
		l.Tensors = append(l.Tensors, name)
	}
	return compared, expected
}

func largestOf(list []float32) (size float64) {
	for _, v := range list {
		size = larger(size, math.Abs(float64(v)))
	}
	return size
}

// Difference compares a record with that of the unsplit run. An optimizer that divides by gradients, as Adam
// does, leaves weights out.
func (r *Record) Difference(unsplit *Record, o kernels.Optimizer) (Differences, error) {
	d := Differences{ReplicasEqual: true}
	var err error
	worst := func(into *float64, got, want []float32, what string) {
		if len(got) != len(want) && err == nil {
			err = fmt.Errorf("%s: %d numbers, and %d in the unsplit run", what, len(got), len(want))
			return
		}
		for i := range want {
			*into = larger(*into, math.Abs(float64(got[i])-float64(want[i])))
		}
	}
	for _, replica := range r.Parameters {
		for name, want := range unsplit.Parameters[0] {
			got := replica[name]
			if o.Adaptive() && len(unsplit.Gradients) > 0 {
				got, want = d.LeftOut.leaveOut(name, got, want, unsplit.Gradients[0][name])
			}
			worst(&d.Weights, got, want, name)
		}
	}
	slices.Sort(d.LeftOut.Tensors)
	for k, replica := range r.Gradients {
		for name, want := range unsplit.Gradients[0] {
			worst(&d.Gradients, replica[name], want, "gradient of "+name)
			d.ReplicasEqual = d.ReplicasEqual && (k == 0 || slices.Equal(replica[name], r.Gradients[0][name]))
		}
	}
	d.GradientShare = r.gradientShare(unsplit)
	worst(&d.Outputs, r.Outputs, unsplit.Outputs, "outputs")
	for i := range min(len(r.Losses), len(unsplit.Losses)) {
		d.Loss = larger(d.Loss, math.Abs(r.Losses[i]-unsplit.Losses[i]))
	}
	for i := range min(len(r.Validation), len(unsplit.Validation)) {
		d.Loss = larger(d.Loss, math.Abs(r.Validation[i]-unsplit.Validation[i]))
	}
	return d, err
}

// gradientShare returns Differences.GradientShare.
func (r *Record) gradientShare(unsplit *Record) (share float64) {
	size, all := map[string]float64{}, 0.0
	for _, replica := range unsplit.Gradients {
		for name, values := range replica {
			size[name] = larger(size[name], largestOf(values))
			all = max(all, size[name])
		}
	}
	for _, replica := range r.Gradients {
		for name, want := range unsplit.Gradients[0] {
			for i, v := range replica[name][:min(len(replica[name]), len(want))] {
				if by := math.Abs(float64(v) - float64(want[i])); by > 0 || math.IsNaN(by) {
					share = larger(share, by/max(size[name], all/1000))
				}
			}
		}
	}
	return share
}

// larger returns the larger of two numbers; NaN counts as infinite.
func larger(a, b float64) float64 {
	if math.IsNaN(b) {
		return math.Inf(1)
	}
	return max(a, b)
}

// Gradients are the gradients that one rank uses for its update: summed over the microbatches,
// and averaged over the replicas. If parameters are sharded, they are those of its shards.
type Gradients struct {
	Tensors []network.Tensor
	Values  map[string][]float32 // by the names of the tensors
}

// A capture collects what to record of a step in addition to its loss.
type capture struct {
	mu        sync.Mutex
	gradients []Gradients // by rank; nil if they are not wanted
	check     bool        // that the results of tasks are finite
	outputs   [][]float32 // by replica and microbatch; nil if they are not wanted
}

// keepGradients reads the gradients of a rank.
func (c *capture) keepGradients(rank int32, m *rankState) error {
	if c == nil || c.gradients == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	held := Gradients{m.tensors, map[string][]float32{}}
	if err := readInto(held.Values, m.tensors, m.gradients); err != nil {
		return fmt.Errorf("gradients: %w", err)
	}
	c.gradients[rank] = held
	return nil
}

// keepOutputs reads the network's outputs for a microbatch.
func (c *capture) keepOutputs(piece int, saved *kernels.Saved) (err error) {
	if c == nil || c.outputs == nil {
		return nil
	}
	if t := saved.Outputs(); t != nil {
		c.outputs[piece], err = backend.Read[float32](t)
	}
	return err
}

// packedTensors holds a rank's gradients in a stepReport.
type packedTensors struct {
	Tensors []network.Tensor
	Values  map[string]numbers
}

// addTo adds the recorded numbers to a process's report.
func (c *capture) addTo(r *stepReport) {
	if c == nil {
		return
	}
	r.Gradients, r.Outputs = map[int]packedTensors{}, map[int]numbers{}
	for rank, held := range c.gradients {
		if held.Values != nil {
			r.Gradients[rank] = packedTensors{held.Tensors, packed(held.Values)}
		}
	}
	for piece, outputs := range c.outputs {
		if outputs != nil {
			r.Outputs[piece] = outputs
		}
	}
}

// addReport adds the numbers that another process has recorded.
func (c *capture) addReport(r stepReport) {
	for rank, held := range r.Gradients {
		c.gradients[rank] = Gradients{held.Tensors, unpacked(held.Values)}
	}
	for piece, outputs := range r.Outputs {
		c.outputs[piece] = outputs
	}
}

// packed returns values in a form that is encoded compactly.
func packed(values map[string][]float32) map[string]numbers {
	all := map[string]numbers{}
	for name, list := range values {
		all[name] = list
	}
	return all
}

// unpacked undoes packed.
func unpacked(values map[string]numbers) map[string][]float32 {
	all := map[string][]float32{}
	for name, list := range values {
		all[name] = list
	}
	return all
}
