package measure

import (
	"math/rand/v2"
	"time"

	"psim/costmodel/network"
	"psim/exec/backend"
	"psim/exec/data"
	"psim/exec/kernels"
	"psim/exec/train"
)

// A layerBench measures one layer.
type layerBench struct {
	layer      network.Layer
	sizes      []sizedBench
	parameters backend.Tensors
	gradients  backend.Tensors
	updates    *kernels.Updates // nil without parameters
	state      kernels.OptimizerState

	saved *kernels.Saved
	work  *kernels.Deferred

	updated []time.Duration
	scaled  []time.Duration
}

// A sizedBench is what a bench has for one size of microbatch.
type sizedBench struct {
	*kernels.Programs
	batch data.StepBatch        // inputs, and for the last layer targets
	given *backend.DeviceTensor // the gradient of the output

	forward, backward, input, weight []time.Duration
}

// benchSeed makes the numbers that layers are measured with.
const benchSeed = 1

// prepare compiles the layer for every size and makes its data. Close frees them, also after an
// error.
func (b *layerBench) prepare(d *backend.LocalDevice, o LayerOptions) error {
	for _, n := range o.Samples {
		s, err := kernels.Compile(d.Backend, []network.Layer{b.layer}, kernels.Options{Samples: n})
		if err != nil {
			return err
		}
		b.sizes = append(b.sizes, sizedBench{Programs: s, batch: b.invent(s)})
	}
	tensors := b.sizes[0].Parameters()
	var err error
	if b.parameters, err = kernels.InitializeTensors(d, tensors, benchSeed); err != nil {
		return err
	}
	if b.gradients, err = kernels.Zeros(d, tensors); err != nil || len(tensors) == 0 {
		return err
	}
	b.updates, err = kernels.NewUpdates(d.Backend, tensors, o.Optimizer)
	return err
}

// invent makes inputs and targets.
func (b *layerBench) invent(s *kernels.Programs) (batch data.StepBatch) {
	r := rand.New(rand.NewPCG(benchSeed, uint64(len(b.sizes)+1)))
	size := 1
	for _, d := range s.InputDimensions() {
		size *= d
	}
	if b.layer.Kind == network.KindEmbedding {
		batch.Tokens = randomBelow(r, size, b.layer.Params[0].Shape[0])
	} else {
		batch.Numbers = randomNormal(r, size, 1)
	}
	if s.Last() {
		batch.Targets = randomBelow(r, s.Targets(), b.layer.Output[len(b.layer.Output)-1])
	}
	return batch
}

func randomBelow(r *rand.Rand, n, limit int) []int32 {
	list := make([]int32, n)
	for i := range list {
		list[i] = r.Int32N(int32(limit))
	}
	return list
}

func randomNormal(r *rand.Rand, n int, deviation float64) []float32 {
	list := make([]float32, n)
	for i := range list {
		list[i] = float32(deviation * r.NormFloat64())
	}
	return list
}

// forward measures F on a fresh input. Only the pass holds it, as it holds the output of the
// previous layer in a step.
func (b *layerBench) forward(d *backend.LocalDevice, size int, keep bool) error {
	s := &b.sizes[size]
	input, err := train.UploadInputs(d, s.batch, s.InputDimensions())
	if err != nil {
		return err
	}
	defer input.Release()
	var targets *backend.DeviceTensor
	if s.Last() {
		if targets, err = backend.Upload(d, s.batch.Targets, len(s.batch.Targets)); err != nil {
			return err
		}
		defer targets.Release()
	}
	start := time.Now()
	output, saved, err := s.Forward(b.parameters, input, targets, kernels.MaskSeed{Seed: benchSeed})
	addTime(&s.forward, start, keep)
	if err != nil {
		return err
	}
	b.saved = saved
	defer output.Release()
	if s.given == nil {
		r := rand.New(rand.NewPCG(benchSeed, uint64(size)))
		s.given, err = backend.Upload(d, randomNormal(r, int(output.Bytes()/4), 1e-3), output.Dimensions()...)
	}
	return err
}

// backward measures B.
func (b *layerBench) backward(size int, keep bool) error {
	s, saved := &b.sizes[size], b.saved
	b.saved = nil
	start := time.Now()
	gradient, err := s.Backward(b.parameters, saved, s.given, b.gradients)
	addTime(&s.backward, start, keep)
	gradient.Release()
	return err
}

// inputGradient measures I.
func (b *layerBench) inputGradient(size int, keep bool) error {
	s, saved := &b.sizes[size], b.saved
	b.saved = nil
	start := time.Now()
	gradient, work, err := s.InputGradient(b.parameters, saved, s.given)
	addTime(&s.input, start, keep)
	gradient.Release()
	b.work = work
	return err
}

// weightGradient measures W.
func (b *layerBench) weightGradient(size int, keep bool) error {
	s, work := &b.sizes[size], b.work
	b.work = nil
	start := time.Now()
	err := s.WeightGradient(work, b.gradients)
	addTime(&s.weight, start, keep)
	return err
}

// scale measures the multiplication of all gradients by a number.
func (b *layerBench) scale(a *kernels.Arithmetic, keep bool) error {
	start := time.Now()
	err := a.Scale(b.gradients, 1)
	addTime(&b.scaled, start, keep)
	return err
}

// update measures a step of the optimizer.
func (b *layerBench) update(keep bool) error {
	if b.updates == nil {
		return nil
	}
	start := time.Now()
	err := b.updates.Step(b.parameters, b.gradients, &b.state)
	addTime(&b.updated, start, keep)
	return err
}

// addTime adds the time since start to a list, if it is to be kept.
func addTime(list *[]time.Duration, start time.Time, keep bool) {
	if took := time.Since(start); keep {
		*list = append(*list, took)
	}
}

func (b *layerBench) close() {
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
