package measure

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"psim/costmodel/network"
	"psim/exec/backend"
	"psim/exec/kernels"
	"psim/internal/ram"
	"psim/internal/units"
)

// LayerOptions say what Layers measures.
type LayerOptions struct {
	Samples   []int // the sizes of microbatches, each 1 or more
	Repeats   int   // that are measured, after one that warms up; 1 or more
	Optimizer kernels.Optimizer
	// Progress, if set, is called with the number of rounds that are done.
	Progress func(done, of int)
}

// LayerPasses are the times of the passes of a layer over a microbatch: medians.
type LayerPasses struct {
	Layer                                            network.Layer // the first with its signature
	Samples                                          int
	Forward, Backward, InputGradient, WeightGradient time.Duration
}

// A TensorTime is the median time of doing something to a number of tensors with a number of
// bytes in total.
type TensorTime struct {
	Tensors int
	Bytes   int64
	Time    time.Duration
}

// A LayerProfile has the times of a network's parts on a device.
type LayerProfile struct {
	Layers  []LayerPasses // by layer, and for each by samples
	Updates []TensorTime  // an optimizer's step of the parameters of a layer
	Scales  []TensorTime  // the gradients of a layer times a number, which makes averages
	Copies  []TensorTime  // copies of one tensor to another device
	Sums    []TensorTime  // all-reduces over the two devices, with the bytes on each
	Call    time.Duration // of a program that does nothing
}

// Layers measures every distinct layer of a network by itself on the first of two devices: its
// passes, for each size of microbatch, and its optimizer's step. It also measures copies
// between the two devices, sums over them, and the call of a program that does nothing.
//
// A round runs all layers forward and then backward, as a step does. So no pass finds in a
// cache what a step would have evicted, and a disturbance of the machine affects all layers
// equally.
func Layers(
	ctx context.Context, n network.Network, devices []*backend.LocalDevice, o LayerOptions,
) (*LayerProfile, error) {
	switch {
	case len(devices) != 2:
		return nil, fmt.Errorf("%d devices: profiling takes two, the second for copies to it", len(devices))
	case len(o.Samples) == 0 || slices.Min(o.Samples) < 1:
		return nil, fmt.Errorf("samples = %v: there must be at least one size, each 1 or more", o.Samples)
	case o.Repeats < 1:
		return nil, fmt.Errorf("repeats = %d: must be at least 1", o.Repeats)
	case len(n.Layers) == 0:
		return nil, errors.New("a network without layers")
	}
	o.Samples = slices.Compact(slices.Sorted(slices.Values(o.Samples)))
	p, err := newProfiler(n, devices, o)
	if err != nil {
		return nil, err
	}
	defer p.close()
	defer ram.HoldGarbage()()
	result, err := p.profile(ctx)
	if err != nil {
		return nil, err
	}
	result.Sums, err = profileSums(ctx, devices, o.Repeats)
	return result, err
}

// A profiler holds the layers to measure, and the times.
type profiler struct {
	options    LayerOptions
	device     *backend.LocalDevice
	second     *backend.LocalDevice // copies go there
	benches    []*layerBench        // by layer
	arithmetic *kernels.Arithmetic

	copies [][]time.Duration // by size in copied
	copied []*backend.DeviceTensor
	calls  []time.Duration
}

// newProfiler prepares all layers and the tensors to copy.
func newProfiler(n network.Network, devices []*backend.LocalDevice, o LayerOptions) (p *profiler, err error) {
	p = &profiler{
		options: o, device: devices[0], second: devices[1],
		arithmetic: kernels.NewArithmetic(devices[0].Backend),
	}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	for _, l := range n.Distinct() {
		b := &layerBench{layer: l}
		p.benches = append(p.benches, b)
		if err := b.prepare(p.device, o); err != nil {
			return p, err
		}
	}
	for _, bytes := range copySizes(n, o.Samples) {
		t, err := backend.Upload(p.device, make([]float32, bytes/4), int(bytes/4))
		if err != nil {
			return p, err
		}
		p.copied, p.copies = append(p.copied, t), append(p.copies, nil)
	}
	return p, nil
}

// copySizes returns the sizes, in bytes, of activations between layers, and a smaller and a
// larger one.
func copySizes(n network.Network, samples []int) []int64 {
	const small, element = 4096, 4
	sizes := []int64{small}
	for _, l := range n.Layers[:max(1, len(n.Layers)-1)] {
		for _, s := range samples {
			sizes = append(sizes, int64(s)*l.Output.Elements()*element)
		}
	}
	sizes = append(sizes, 4*slices.Max(sizes))
	return slices.Compact(slices.Sorted(slices.Values(sizes)))
}

// profile runs the rounds. The first one warms up.
func (p *profiler) profile(ctx context.Context) (*LayerProfile, error) {
	sizes := len(p.options.Samples)
	rounds := (p.options.Repeats + 1) * (sizes + 1)
	for r := range rounds {
		if p.options.Progress != nil {
			p.options.Progress(r, rounds)
		}
		runtime.GC()
		keep := r > sizes
		var err error
		if size := r % (sizes + 1); size < sizes {
			err = p.passes(ctx, size, keep)
		} else {
			err = p.betweenPasses(ctx, keep)
		}
		if err != nil {
			return nil, err
		}
	}
	return p.result(), nil
}

// passes runs F of all layers and B of all, then F, I and W.
func (p *profiler) passes(ctx context.Context, size int, keep bool) error {
	forward := func(b *layerBench) error { return b.forward(p.device, size, keep) }
	backward := func(b *layerBench) error { return b.backward(size, keep) }
	input := func(b *layerBench) error { return b.inputGradient(size, keep) }
	weight := func(b *layerBench) error { return b.weightGradient(size, keep) }
	for _, pass := range []struct {
		do      func(*layerBench) error
		reverse bool
	}{{forward, false}, {backward, true}, {forward, false}, {input, true}, {weight, true}} {
		for i := range p.benches {
			b := p.benches[i]
			if pass.reverse {
				b = p.benches[len(p.benches)-1-i]
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := pass.do(b); err != nil {
				return fmt.Errorf("layer %s: %w", b.layer.Name, err)
			}
		}
	}
	return nil
}

// betweenPasses measures the work other than passes of layers: scaling, updates, copies and
// calls.
func (p *profiler) betweenPasses(ctx context.Context, keep bool) error {
	for _, b := range p.benches {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := b.scale(p.arithmetic, keep)
		if err == nil {
			err = b.update(keep)
		}
		if err != nil {
			return fmt.Errorf("layer %s: %w", b.layer.Name, err)
		}
	}
	for i, t := range p.copied {
		start := time.Now()
		copied, err := t.CopyTo(p.second)
		addTime(&p.copies[i], start, keep)
		if err != nil {
			return err
		}
		copied.Release()
	}
	return p.call(keep)
}

// call measures the call of a program that does almost nothing.
func (p *profiler) call(keep bool) error {
	x, err := backend.Upload(p.device, []float32{1}, 1)
	if err != nil {
		return err
	}
	list := backend.Tensors{x}
	defer list.Release()
	const calls = 100
	start := time.Now()
	for range calls {
		if err := p.arithmetic.Scale(list, 1); err != nil {
			return err
		}
	}
	if took := time.Since(start) / calls; keep {
		p.calls = append(p.calls, took)
	}
	return nil
}

// result returns the medians of all times.
func (p *profiler) result() *LayerProfile {
	r := &LayerProfile{Call: units.Median(p.calls)}
	for _, b := range p.benches {
		for size, samples := range p.options.Samples {
			t := &b.sizes[size]
			r.Layers = append(r.Layers, LayerPasses{
				Layer: b.layer, Samples: samples,
				Forward: units.Median(t.forward), Backward: units.Median(t.backward),
				InputGradient: units.Median(t.input), WeightGradient: units.Median(t.weight),
			})
		}
		if b.updates != nil {
			r.Updates = append(r.Updates, TensorTime{len(b.parameters), b.parameters.Bytes(), units.Median(b.updated)})
			r.Scales = append(r.Scales, TensorTime{len(b.gradients), b.gradients.Bytes(), units.Median(b.scaled)})
		}
	}
	for i, t := range p.copied {
		r.Copies = append(r.Copies, TensorTime{1, t.Bytes(), units.Median(p.copies[i])})
	}
	return r
}

func (p *profiler) close() {
	for _, b := range p.benches {
		b.close()
	}
	backend.Tensors(p.copied).Release()
	p.arithmetic.Close()
}
