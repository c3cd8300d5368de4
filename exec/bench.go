package exec

import (
	"math/rand/v2"
	"time"

	"psim/costmodel/arch"
	"psim/exec/programs"
)

// A bench is one layer under measurement.
type bench struct {
	layer      arch.Layer
	stages     []*programs.Stage // by size of microbatch
	parameters programs.List
	gradients  programs.List
	updates    *programs.Updates // nil without parameters
	state      programs.State

	tokens  [][]int32     // inputs by size, of an embedding
	numbers [][]float32   // and of other layers
	targets [][]int32     // by size, of the last layer
	given   programs.List // the gradient of the output, by size

	saved *programs.Saved
	work  *programs.Work

	times   []passTimes // by size
	updated []time.Duration
	scaled  []time.Duration
}

// passTimes holds the measurements of one size.
type passTimes struct{ forward, backward, input, weight []time.Duration }

// benchSeed makes the numbers that layers are measured with.
const benchSeed = 1

// prepare compiles the layer for every size and makes its data. What it has made
// is freed by close, also after an error.
func (b *bench) prepare(d *programs.Device, o LayerOptions) error {
	b.times = make([]passTimes, len(o.Samples))
	b.given = make(programs.List, len(o.Samples))
	for _, n := range o.Samples {
		s, err := programs.Compile(d.Backend, []arch.Layer{b.layer}, programs.Options{Samples: n})
		if err != nil {
			return err
		}
		b.stages = append(b.stages, s)
		b.invent(s)
	}
	tensors := b.stages[0].Parameters()
	var err error
	if b.parameters, err = programs.InitializeTensors(d, tensors, benchSeed); err != nil {
		return err
	}
	if b.gradients, err = programs.Zeros(d, tensors); err != nil || len(tensors) == 0 {
		return err
	}
	b.updates, err = programs.NewUpdates(d.Backend, tensors, o.Optimizer, false)
	return err
}

// invent makes a stage's input and targets.
func (b *bench) invent(s *programs.Stage) {
	r := rand.New(rand.NewPCG(benchSeed, uint64(len(b.stages))))
	size := 1
	for _, d := range s.InputDimensions() {
		size *= d
	}
	var tokens, targets []int32
	var numbers []float32
	if b.layer.Kind == arch.KindEmbedding {
		tokens = below(r, size, b.layer.Params[0].Shape[0])
	} else {
		numbers = normal(r, size, 1)
	}
	if s.Last() {
		targets = below(r, s.Targets(), b.layer.Output[len(b.layer.Output)-1])
	}
	b.tokens, b.numbers, b.targets = append(b.tokens, tokens), append(b.numbers, numbers), append(b.targets, targets)
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
func (b *bench) forward(d *programs.Device, size int, keep bool) (err error) {
	s := b.stages[size]
	var input, targets *programs.Tensor
	if b.tokens[size] != nil {
		input, err = programs.Upload(d, b.tokens[size], s.InputDimensions()...)
	} else {
		input, err = programs.Upload(d, b.numbers[size], s.InputDimensions()...)
	}
	if err != nil {
		return err
	}
	defer func() { input.Release() }()
	if s.Last() {
		if targets, err = programs.Upload(d, b.targets[size], len(b.targets[size])); err != nil {
			return err
		}
		defer targets.Release()
	}
	start := time.Now()
	output, saved, err := s.Forward(b.parameters, input, targets, programs.Draw{Seed: benchSeed})
	record(&b.times[size].forward, start, keep)
	if err != nil {
		return err
	}
	b.saved = saved
	defer output.Release()
	return b.giveGradient(d, size, output)
}

// giveGradient makes a gradient of the output, once for each size.
func (b *bench) giveGradient(d *programs.Device, size int, output *programs.Tensor) (err error) {
	if b.given[size] != nil {
		return nil
	}
	elements, deviation := int(output.Bytes()/4), 1e-3
	r := rand.New(rand.NewPCG(benchSeed, uint64(size)))
	b.given[size], err = programs.Upload(d, normal(r, elements, deviation), output.Dimensions()...)
	return err
}

// backward measures B.
func (b *bench) backward(size int, keep bool) error {
	saved := b.saved
	b.saved = nil
	start := time.Now()
	gradient, err := b.stages[size].Backward(b.parameters, saved, b.given[size], b.gradients)
	record(&b.times[size].backward, start, keep)
	gradient.Release()
	return err
}

// inputGradient measures I.
func (b *bench) inputGradient(size int, keep bool) error {
	saved := b.saved
	b.saved = nil
	start := time.Now()
	gradient, work, err := b.stages[size].InputGradient(b.parameters, saved, b.given[size])
	record(&b.times[size].input, start, keep)
	gradient.Release()
	b.work = work
	return err
}

// weightGradient measures W.
func (b *bench) weightGradient(size int, keep bool) error {
	work := b.work
	b.work = nil
	start := time.Now()
	err := b.stages[size].WeightGradient(work, b.gradients)
	record(&b.times[size].weight, start, keep)
	return err
}

// scale measures the multiplication of all gradients by a number.
func (b *bench) scale(a *programs.Arithmetic, keep bool) (err error) {
	start := time.Now()
	for i, t := range b.gradients {
		b.gradients[i] = nil
		if b.gradients[i], err = a.Scale(t, 1); err != nil {
			return err
		}
	}
	record(&b.scaled, start, keep)
	return nil
}

// update measures the optimizer's step.
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
	if b.saved != nil {
		b.saved.Release()
	}
	if b.work != nil {
		b.work.Release()
	}
	b.given.Release()
	b.parameters.Release()
	b.gradients.Release()
	b.state.Release()
	for _, s := range b.stages {
		s.Close()
	}
	if b.updates != nil {
		b.updates.Close()
	}
}
