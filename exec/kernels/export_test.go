package kernels

import (
	"psim/costmodel/network"
	"psim/exec/backend"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
)

// Keep makes the mask of a microbatch whose samples have this number of elements.
func Keep(d MaskSeed, layer, place string, rate float64, samples, elements int) []bool {
	return mask{dropout{place, rate}, layer, []int{samples, elements}}.keep(d, samples)
}

// Initialize makes a stage's parameters as InitializeTensors does, in the stage's type of
// numbers.
func (s *Programs) Initialize(d *backend.LocalDevice, seed uint64) (backend.Tensors, error) {
	return eachTensor(s.parameters, func(t network.Tensor) (*backend.DeviceTensor, error) {
		if s.dtype == dtypes.Float64 {
			return backend.Upload(d, Initial[float64](seed, t), t.Shape...)
		}
		return backend.Upload(d, Initial[float32](seed, t), t.Shape...)
	})
}

// Double makes a stage compute with float64.
func (o Options) Double() Options {
	o.dtype = dtypes.Float64
	return o
}

// IsDouble reports whether Double was asked for.
func (o Options) IsDouble() bool { return o.dtype == dtypes.Float64 }

// NewDoubleUpdates makes updates of float64 parameters.
func NewDoubleUpdates(backend compute.Backend, parameters []network.Tensor, optimizer Optimizer) (*Updates, error) {
	return newUpdates(backend, parameters, optimizer, dtypes.Float64)
}

// Item describes a held tensor.
type Item struct {
	Name     string // layer/buffer, as network lists it
	Lifetime network.Lifetime
	Bytes    int64
}

// Items lists the tensors in the order in which they were made, each with its first name.
func (h *heldTensors) Items() []Item {
	var items []Item
	for _, s := range h.slots {
		items = append(items, Item{Name: s.name, Lifetime: s.lifetime, Bytes: s.shape.ByteSize()})
	}
	return items
}

// Watch returns a function that returns the most bytes that the device has held since.
func Watch(d *backend.LocalDevice) (peak func() int64) {
	live := d.Bytes()
	most := live
	d.Observe(func(change int64) { // on one goroutine
		live += change
		most = max(most, live)
	})
	return func() int64 { return most }
}

// Bytes returns the size of the optimizer's moments.
func (s *OptimizerState) Bytes() int64 { return s.moments[0].Bytes() + s.moments[1].Bytes() }

// Bytes returns the size of all that Deferred holds.
func (w *Deferred) Bytes() int64 { return w.heldTensors.Bytes() + w.gradients.Bytes() }

// Bytes returns the size of all tensors, including those that are also the stage's input or
// output or the gradient that it was given.
func (h *heldTensors) Bytes() int64 {
	var n int64
	for _, s := range h.slots {
		n += s.shape.ByteSize()
	}
	return n
}
