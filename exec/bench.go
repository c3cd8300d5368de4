package exec

import (
	"math/rand/v2"
	"time"

	"psim/costmodel/network"
	"psim/exec/programs"
)

// A bench is one layer under measurement.
type bench struct {
	layer      network.Layer
	sizes      []sized
	parameters programs.List
	gradients  programs.List
	updates    *programs.Updates // nil without parameters
	state      programs.State

	saved *programs.Saved
	work  *programs.Work

	updated []time.Duration
	scaled  []time.Duration
}

// sized holds what a bench has for one size of microbatch.
type sized struct {
	*programs.Stage
	batch Batch            // inputs, and for the last layer targets
	given *programs.Tensor // the gradient of the output

	forward, backward, input, weight []time.Duration
}

// benchSeed makes the numbers that layers are measured with.
const benchSeed = 1

// prepare compiles the layer for every size and makes its data. What it has made
// is freed by close, also after an error.
func (b *bench) prepare(d *programs.Device, o LayerOptions) error {
	for _, n := range o.Samples {
		s, err := programs.Compile(d.Backend, []network.Layer{b.layer}, programs.Options{Samples: n})
		if err != nil {
			return err
		}
		b.sizes = append(b.sizes, sized{Stage: s, batch: b.invent(s)})
	}
	tensors := b.sizes[0].Parameters()
	var err error
	if b.parameters, err = programs.InitializeTensors(d, tensors, benchSeed); err != nil {
		return err
	}
	if b.gradients, err = programs.Zeros(d, tensors); err != nil || len(tensors) == 0 {
		return err
	}
	b.updates, err = programs.NewUpdates(d.Backend, tensors, o.Optimizer)
	return err
}

func (b *bench) invent(s *programs.Stage) (batch Batch) {
	r := rand.New(rand.NewPCG(benchSeed, uint64(len(b.sizes)+1)))
	size := 1
	for _, d := range s.InputDimensions() {
		size *= d
	}
	if b.layer.Kind == network.KindEmbedding {
		batch.Tokens = below(r, size, b.layer.Params[0].Shape[0])
	} else {
		batch.Numbers = normal(r, size, 1)
	}
	if s.Last() {
		batch.Targets = below(r, s.Targets(), b.layer.Output[len(b.layer.Output)-1])
	}
	return batch
}

func below(r *rand.Rand, n, limit int) []int32 {
	list := make([]int32, n)
	for i := range list {
		list[i] = r.Int32N(int32(limit))
	}
	return list
}

func normal(r *rand.Rand, n int, deviation float64) []float32 {
	list := make([]float32, n)
	for i := range list {
		list[i] = float32(deviation * r.NormFloat64())
	}
	return list
}

// forward measures F on a fresh input, which belongs to the pass alone as the
// result of the layer before does in a step.
func (b *bench) forward(d *programs.Device, size int, keep bool) error {
	s := &b.sizes[size]
	input, err := s.batch.upload(d, 0, max(len(s.batch.Tokens), len(s.batch.Numbers)), s.InputDimensions())
	if err != nil {
		return err
	}
	defer input.Release()
	var targets *programs.Tensor
	if s.Last() {
		if targets, err = programs.Upload(d, s.batch.Targets, len(s.batch.Targets)); err != nil {
			return err
		}
		defer targets.Release()
	}
	start := time.Now()
	output, saved, err := s.Forward(b.parameters, input, targets, programs.Draw{Seed: benchSeed})
	record(&s.forward, start, keep)
	if err != nil {
		return err
	}
	b.saved = saved
	defer output.Release()
	if s.given == nil {
		r := rand.New(rand.NewPCG(benchSeed, uint64(size)))
		s.given, err = programs.Upload(d, normal(r, int(output.Bytes()/4), 1e-3), output.Dimensions()...)
	}
	return err
}

func (b *bench) backward(size int, keep bool) error {
	s, saved := &b.sizes[size], b.saved
	b.saved = nil
	start := time.Now()
	gradient, err := s.Backward(b.parameters, saved, s.given, b.gradients)
	record(&s.backward, start, keep)
	gradient.Release()
	return err
}

func (b *bench) inputGradient(size int, keep bool) error {
	s, saved := &b.sizes[size], b.saved
	b.saved = nil
	start := time.Now()
	gradient, work, err := s.InputGradient(b.parameters, saved, s.given)
	record(&s.input, start, keep)
	gradient.Release()
	b.work = work
	return err
}

func (b *bench) weightGradient(size int, keep bool) error {
	s, work := &b.sizes[size], b.work
	b.work = nil
	start := time.Now()
	err := s.WeightGradient(work, b.gradients)
	record(&s.weight, start, keep)
	return err
}

// scale measures the multiplication of all gradients by a number.
func (b *bench) scale(a *programs.Arithmetic, keep bool) error {
	start := time.Now()
	err := a.Scale(b.gradients, 1)
	record(&b.scaled, start, keep)
	return err
}

func (b *bench) update(keep bool) error {
	if b.updates == nil {
		return nil
	}
	start := time.Now()
	err := b.updates.Step(b.parameters, b.gradients, &b.state)
	record(&b.updated, start, keep)
	return err
}

func record(list *[]time.Duration, start time.Time, keep bool) {
	if took := time.Since(start); keep {
		*list = append(*list, took)
	}
}

func (b *bench) close() {
	b.saved.Release()
	b.work.Release()
	b.parameters.Release()
	b.gradients.Release()
	b.state.Release()
	for _, s := range b.sizes {
		s.given.Release()
		s.Close()
	}
	if b.updates != nil {
		b.updates.Close()
	}
}
