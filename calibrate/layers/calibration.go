// Package layers measures how long the layers of a network take on this machine, and makes a
// machine of that, which predictions can use.
package layers

import (
	"context"
	"fmt"
	"slices"

	"psim/calibrate"
	"psim/costmodel"
	"psim/costmodel/network"
	"psim/costmodel/training"
	"psim/exec/backend"
	"psim/exec/kernels"
	"psim/exec/measure"
	"psim/exec/run"
	"psim/internal/ram"
	"psim/internal/units"
)

// A Calibration is what was measured, and the machine that follows from it. Times are in
// seconds, rates per second.
type Calibration struct {
	// File and Command are the file that it was written to, and the command line.
	File    string     `json:"file"`
	Command string     `json:"command"`
	Model   string     `json:"model"`
	CPU     string     `json:"cpu"`
	Layers  []LayerRow `json:"layers"`
	// FLOPS, Bandwidth and Launch are the constants for layers that were not measured, and
	// FitError is by how much they are off for those that were, as a fraction.
	FLOPS     float64 `json:"flops_per_s"`
	Bandwidth float64 `json:"memory_bandwidth_bytes_per_s"`
	Launch    float64 `json:"launch_s"`
	FitError  float64 `json:"fit_error"`
	// Call is the cost of calling a program, which the layers' times include.
	Call      float64                 `json:"call_s"`
	Optimizer Update                  `json:"optimizer"`
	Link      calibrate.LinkConstants `json:"link"`
	// Cores is what tasks on all cores take from each other. It is absent on a single core, or
	// with too little memory for a copy of the network on each core.
	Cores *costmodel.MachineCores `json:"cores,omitempty"`

	// Warnings are doubts about the measurement.
	Warnings []string `json:"warnings,omitempty"`

	// Machine is what a machine file says.
	Machine costmodel.Machine `json:"-"`
}

// A LayerRow is one layer for one size of microbatch.
type LayerRow struct {
	Layer          string  `json:"layer"`
	Count          int     `json:"count"` // of such layers in the network
	Signature      string  `json:"signature"`
	Samples        int64   `json:"samples"`
	Forward        float64 `json:"forward_s"`
	Backward       float64 `json:"backward_s"`
	InputGradient  float64 `json:"input_gradient_s"`
	WeightGradient float64 `json:"weight_gradient_s"`
	// ForwardRate and BackwardRate are the operations of the matrix products alone, divided by
	// the time of the pass.
	ForwardRate  float64 `json:"forward_flops_per_s"`
	BackwardRate float64 `json:"backward_flops_per_s"`
}

// An Update is the time of an optimizer's step.
type Update struct {
	Name      string  `json:"name"`
	PerTensor float64 `json:"per_tensor_s"`
	Rate      float64 `json:"bytes_per_s"`
}

// Measure measures the layers of a network by themselves, with its optimizer, on a core of this
// machine, and copies between two cores. O.Samples are usually those of Sizes. A *run.Error is
// not the fault of the network or the options.
func Measure(ctx context.Context, n network.Network, t training.Options, o measure.LayerOptions) (*Calibration, error) {
	if err := check(n, t, slices.Max(o.Samples)); err != nil {
		return nil, err
	}
	o.Optimizer = kernels.DefaultOptimizer(t.Optimizer)
	devices, err := backend.Open(2, backend.Options{Oversubscribe: true}) // they take turns
	if err != nil {
		return nil, &run.Error{Err: err}
	}
	defer backend.Close(devices)
	p, err := measure.Layers(ctx, n, devices, o)
	var c *Calibration
	if err == nil {
		c, err = newCalibration(n, t.Optimizer, p)
	}
	if err == nil {
		err = c.crowd(ctx, n, t, o)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, &run.Error{Err: err}
	}
	return c, nil
}

// crowd measures what the cores of this machine take from each other, with microbatches of the
// middle size.
func (c *Calibration) crowd(ctx context.Context, n network.Network, t training.Options, o measure.LayerOptions) error {
	cores, samples := backend.Options{}.Cores(), slices.Sorted(slices.Values(o.Samples))[len(o.Samples)/2]
	if cores < 2 || float64(cores)*need(n.Layers, t, samples) > float64(ram.Free()) {
		return nil
	}
	devices, err := backend.Open(cores, backend.Options{})
	if err != nil {
		return err
	}
	defer backend.Close(devices)
	o.Samples = []int{samples}
	p, err := measure.Neighbours(ctx, n, devices, o)
	if err == nil {
		c.Machine.Cores = costmodel.MeasuredCores(cores, p.Alone, p.Together)
		c.Cores = &c.Machine.Cores
		for _, slower := range []*float64{&c.Cores.Forward, &c.Cores.Backward, &c.Cores.Update, &c.Cores.Average} {
			*slower = calibrate.Significant(*slower)
		}
		c.doubt(p.Disturbed())
	}
	return err
}

// doubt warns of measurements that cannot be relied on.
func (c *Calibration) doubt(disturbed bool) {
	if disturbed {
		c.Warnings = append(c.Warnings, "the machine was disturbed: "+
			"the same tasks took over 5 % longer in most rounds than in the shortest; something else was running, "+
			"so that neither the layers' times nor the neighbours' can be relied on")
	}
	if n := c.Cores; max(n.Forward, n.Backward, n.Update) >= float64(n.Number) {
		c.Warnings = append(c.Warnings, fmt.Sprintf("%d tasks at once took as long as one after another: "+
			"the other cores were busy, or are not to be had; measure again on a quiet machine", n.Number))
	}
}

// Sizes lists half of a microbatch's size, the size itself and twice the size.
func Sizes(micro int64) []int {
	if micro == 1 {
		return []int{1, 2}
	}
	return []int{int(micro / 2), int(micro), int(2 * micro)}
}

// check refuses layers that cannot be executed, or that would not fit in this machine's memory
// with microbatches of a number of samples.
func check(n network.Network, t training.Options, samples int) error {
	for _, l := range n.Distinct() {
		if l.Kind == network.KindUnknown {
			return fmt.Errorf("%s cannot be executed, so that its layers cannot be measured; "+
				"there are programs for gpt, mlp and vgg16", n.Name)
		}
	}
	need := need(n.Distinct(), t, samples)
	if have := float64(ram.Free()); need > have {
		return fmt.Errorf("measuring microbatches of %d samples would need about %s of memory, "+
			"but only %s are free here; use fewer samples or a smaller model",
			samples, units.FormatBytes(int64(min(need, 1e18))), units.FormatBytes(int64(have)))
	}
	return nil
}

// need estimates the bytes that layers take with microbatches of a number of samples.
func need(layers []network.Layer, t training.Options, samples int) (bytes float64) {
	const element, temporaries = 4, 2 // a pass needs as much again as it keeps
	state := t.State()
	for _, l := range layers {
		parameters := float64(l.Parameters())
		for _, tied := range l.Tied {
			parameters += float64(tied.Shape.Elements())
		}
		bytes += parameters * float64(state.Parameter+2*state.Gradient+state.Optimizer)
		for _, b := range l.Buffers {
			bytes += float64(samples) * float64(b.Bytes(element)) * temporaries
		}
	}
	return bytes
}
