package costmodel

import (
	"cmp"
	"time"

	"psim/costmodel/link"
	"psim/costmodel/network"
	"psim/costmodel/training"
	"psim/internal/units"
)

// Compute prices operations on a device, for one precision: by a roofline with achievable rates
// (Williams et al. 2009), a launch cost for every operation, and a rate below the achievable one
// for products with few rows. Layers that were measured on the device take the measured time
// instead.
type Compute struct {
	flops      float64 // achievable FLOP/s of large products
	narrow     float64 // the same for operands in fewer than 16 bits
	bandwidth  float64 // achievable bytes/s
	halfRows   float64
	processors float64 // number of multiprocessors; 0 if tiles of products have no effect
	serial     bool    // multiprocessors write a tile before they compute the next
	unaligned  float64 // share of flops for products with unaligned rows
	ragged     float64 // the same for the products of attention
	attention  float64 // FLOP/s of fused attention with wide heads
	halfHead   float64
	scans      float64 // FLOP/s of the products of scans
	padded     int     // kernels of attention pad heads to a multiple of this; 0 means no padding
	launch     time.Duration
	element    float64 // bytes of an activation
	measured   curves
	updates    []MeasuredUpdate
	link       link.Link // among the devices of a tensor-parallel group
	devices    int       // of a tensor-parallel group
	contexts   contexts  // links among the parts of a rank's sequences
	node       link.Link // among the devices of a node
	perNode    int       // devices of a node; 0 means all
	added      float64   // share of microbatches whose gradients are added to earlier ones
	twoPass    bool      // backwards walk every layer twice
	anomalies  bool      // gradients are searched for NaN
}

// NewCompute prices operations on d for a training precision. It fails if the device has no rate for
// that precision.
func NewCompute(d Device, t training.Options) (Compute, error) {
	precision := t.Base()
	d = d.In(precision)
	flops, err := d.Achievable(precision)
	if err != nil {
		return Compute{}, err
	}
	narrow := flops
	if t.Narrow() {
		if narrow, err = d.Achievable(t.Precision); err != nil {
			return Compute{}, err
		}
	}
	c := Compute{
		flops: flops, narrow: narrow, bandwidth: float64(d.MemoryBandwidth) * d.Efficiency.Memory,
		halfRows: d.HalfRows, launch: time.Duration(d.Launch), element: float64(t.ActivationElement()),
		twoPass: t.TwoPass(), anomalies: t.DetectAnomaly, added: 1,
	}
	if t.Microbatches > 0 {
		c.added = 1 - 1/t.Microbatches
	}
	c.attention, c.halfHead, c.padded = flops*cmp.Or(d.Attention, 1), d.HalfHead, d.HeadMultiple
	c.scans = flops * cmp.Or(d.Scan, 1)
	c.processors, c.serial = float64(d.Multiprocessors), d.SerialTiles
	c.unaligned, c.ragged = cmp.Or(d.Unaligned, 1), cmp.Or(d.UnalignedHeads, d.Unaligned, 1)
	if precision == "fp32" { // the precision of measurements
		c.updates = d.Updates
		c.measured, err = newCurves(d.Measured)
	}
	return c, err
}

// Op returns the time of one pass of an operation over a microbatch: the launch plus the longer of
// computing and moving. A pass that does nothing takes no time.
func (c *Compute) Op(o network.Op, p network.Pass, samples int64) time.Duration {
	switch {
	case o.Class == network.Exchange:
		return c.exchange(o, p, samples)
	case o.Idle(p):
		return 0
	}
	t := c.alone(o, p, samples)
	if o.Passed > 0 {
		t = units.Sum(t, c.ring(o, p, samples, t).Exposed)
	}
	return t
}

// alone returns the time of one pass of an operation, without its communication.
func (c *Compute) alone(o network.Op, p network.Pass, samples int64) time.Duration {
	flops := o.FLOPs(p) * float64(samples)
	moved := float64(o.Bytes(p, samples, int64(c.element)))
	if flops == 0 && moved == 0 {
		return 0
	}
	computing := 0.0
	switch {
	case o.Class == network.Scan:
		return c.scan(o, p, samples, moved)
	case o.Class == network.Attention:
		computing = c.fused(o, p, samples)
	case flops > 0:
		computing = c.product(o, p, flops, samples)
	}
	launches := time.Duration(max(1, o.Blocks)) * c.launch
	t := units.Sum(launches, units.Seconds(max(computing, c.moving(moved))), c.detection(o, p, samples))
	if p == network.WeightGradient && o.GradientMoved > 0 {
		t = units.Sum(t, c.gather(o))
	}
	if unpacked, kernels := o.Unpacked(p); kernels > 0 {
		t = units.Sum(t, time.Duration(kernels)*c.launch, units.Seconds(c.moving(float64(unpacked))))
	}
	return t
}

// gather returns the time of the kernel that adds a weight's gradient to earlier ones or copies it,
// as an average over microbatches.
func (c *Compute) gather(o network.Op) time.Duration {
	took := units.Sum(c.launch, units.Seconds(c.moving(float64(o.GradientMoved*o.Weights())*c.element)))
	if o.AddsGradient {
		return units.Nanoseconds(float64(took) * c.added)
	}
	return took
}

// fused returns the time in seconds to compute attention in one kernel, over the tiles that it
// covers of the square. Work on a pair of tokens other than products, such as an exponential, takes as long for
// narrow heads as for wide ones.
func (c *Compute) fused(o network.Op, p network.Pass, samples int64) float64 {
	o = o.PaddedHeads(c.padded)
	return o.FLOPs(p) * float64(samples) * o.Covered() / c.attention * (1 + c.halfHead/o.HeadFeatures())
}

// scan returns the time of one pass of a scan: the starts of its kernels, what they move, and what they compute. Their
// tiles are those of a chunk, too small for one of the latter to hide the other: rows of table scans are met so, on two
// generations of devices and with two kinds of scans.
func (c *Compute) scan(o network.Op, p network.Pass, samples int64, moved float64) time.Duration {
	computing := o.FLOPs(p) * float64(samples) / c.scans
	launches := time.Duration(o.Kernels(p, samples)) * c.launch
	return units.Sum(launches, units.Seconds(computing), units.Seconds(c.moving(moved)), c.detection(o, p, samples))
}

// detectionKernels is the number of kernels that search a gradient for NaN: one compares it with
// itself and writes a byte for every element, and one reads these bytes.
const detectionKernels = 2

// detection returns the time to search the gradients of a pass for NaN.
func (c *Compute) detection(o network.Op, p network.Pass, samples int64) time.Duration {
	if !c.anomalies {
		return 0
	}
	tensors, elements := o.Gradients(p, samples)
	kernels := time.Duration(detectionKernels * tensors)
	return units.Sum(kernels*c.launch, units.Seconds(c.moving(float64(elements)*(c.element+2))))
}

// kernels counts the kernels that a pass of an operation launches, including those of detection.
func (c *Compute) kernels(o network.Op, p network.Pass, samples int64) int {
	n := o.Kernels(p, samples)
	if c.anomalies {
		tensors, _ := o.Gradients(p, samples)
		n += detectionKernels * tensors
	}
	return n
}

// moving returns the time in seconds to move bytes to or from memory.
func (c *Compute) moving(bytes float64) float64 {
	if c.bandwidth <= 0 {
		return 0
	}
	return bytes / c.bandwidth
}

// Move returns the time of one operation that is bound by memory, such as an optimizer's step.
func (c *Compute) Move(bytes int64) time.Duration {
	if bytes == 0 {
		return 0
	}
	return units.Sum(c.launch, units.Seconds(c.moving(float64(bytes))))
}

// Layer returns the time of one pass of a layer over a microbatch.
func (c *Compute) Layer(l network.Layer, p network.Pass, samples int64) time.Duration {
	if t, ok := c.measured.at(l, timeOf(p), samples); ok {
		return t
	}
	return c.roofline(l.Ops, p, samples)
}

// Backward returns the time of the whole backward of a layer over a microbatch, without
// recomputation.
func (c *Compute) Backward(l network.Layer, samples int64) time.Duration {
	input, weight := c.Layer(l, network.InputGradient, samples), c.Layer(l, network.WeightGradient, samples)
	return c.backward(l, samples, input, weight)
}

// backward returns the time of the whole backward, given those of I and of W.
func (c *Compute) backward(l network.Layer, samples int64, input, weight time.Duration) time.Duration {
	both := units.Sum(input, weight)
	if c.twoPass {
		return units.Sum(both, c.rewalk(l, samples))
	}
	if t, ok := c.measured.at(l, backwardTime, samples); ok {
		return t
	}
	return both - c.hidden(l.Ops, samples)
}

// rewalk returns the time of the operations that a backward in two passes runs twice. For a
// measured layer that is the share of its I that these operations have in the roofline.
func (c *Compute) rewalk(l network.Layer, samples int64) time.Duration {
	again := c.roofline(l.Rewalked(), network.InputGradient, samples)
	if input, ok := c.measured.at(l, inputTime, samples); ok {
		return part(input, again, c.roofline(l.Ops, network.InputGradient, samples))
	}
	return again
}

// part returns the share of a measured time that some operations have in the roofline's time.
func part(measured, some, whole time.Duration) time.Duration {
	if whole == 0 {
		return some
	}
	return units.Nanoseconds(float64(measured) * float64(some) / float64(whole))
}

// roofline returns the time of one pass of operations, one after another.
func (c *Compute) roofline(ops []network.Op, p network.Pass, samples int64) time.Duration {
	var sum time.Duration
	for i := range ops {
		sum = units.Sum(sum, c.Op(ops[i], p, samples))
	}
	return sum
}

// Recompute returns the time of the forward operations that a layer repeats because it did not keep
// their results. For a measured layer that is its forward, or the share of it that the repeated
// operations have in the roofline.
func (c *Compute) Recompute(l network.Layer, t training.Options, samples int64) time.Duration {
	again := t.Repeated(l)
	if len(again) == 0 {
		return 0
	}
	forward, ok := c.measured.at(l, forwardTime, samples)
	if ok && len(again) == len(l.Ops) {
		return forward
	}
	repeated := c.roofline(again, network.Forward, samples)
	if ok {
		return part(forward, repeated, c.roofline(l.Ops, network.Forward, samples))
	}
	return repeated
}
