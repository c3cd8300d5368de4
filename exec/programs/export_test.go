package programs

import (
	"psim/costmodel/network"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
)

// Keep makes the mask of a microbatch whose samples have so many elements.
func Keep(d Draw, layer, place string, rate float64, samples, elements int) []bool {
	return mask{dropout{place, rate}, layer, []int{samples, elements}}.keep(d, samples)
}

// Initialize makes a stage's parameters as InitializeTensors does, in its type of
// numbers.
func (s *Stage) Initialize(d *Device, seed uint64) (List, error) {
	return each(s.parameters, func(t network.Tensor) (*Tensor, error) {
		if s.dtype == dtypes.Float64 {
			return Upload(d, Initial[float64](seed, t), t.Shape...)
		}
		return Upload(d, Initial[float32](seed, t), t.Shape...)
	})
}

// Double has a stage compute with float64.
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

// Items lists the tensors in the order in which they were made. A tensor with
// several names has the first one.
func (h *held) Items() []Item {
	var items []Item
	for _, s := range h.slots {
		items = append(items, Item{Name: s.name, Lifetime: s.lifetime, Bytes: s.shape.ByteSize()})
	}
	return items
}

// Watch returns a function that returns the most bytes that the device has held
// since.
func Watch(d *Device) (peak func() int64) {
	live := d.Bytes()
	most := live
	d.Observe(func(change int64) { // of one goroutine
		live += change
		most = max(most, live)
	})
	return func() int64 { return most }
}

// Bytes that the optimizer's moments take.
func (s *State) Bytes() int64 { return s.moments[0].Bytes() + s.moments[1].Bytes() }

// Bytes is the size of all that Work holds.
func (w *Work) Bytes() int64 { return w.held.Bytes() + w.gradients.Bytes() }

// Bytes is the size of all tensors. Those that are also the stage's input or
// output or the gradient it was given are included.
func (h *held) Bytes() int64 {
	var n int64
	for _, s := range h.slots {
		n += s.shape.ByteSize()
	}
	return n
}
