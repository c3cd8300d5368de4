// Package calibration measures what the layers of a network take on this machine,
// and makes a machine of it, by which predictions can be made.
package calibration

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"psim/calibrate"
	"psim/costmodel"
	"psim/costmodel/link"
	"psim/costmodel/network"
	"psim/costmodel/training"
	"psim/exec"
	"psim/exec/programs"
	"psim/internal/ram"
	"psim/internal/units"
)

// A Calibration is what was measured, and the machine that it makes. Times are in
// seconds, rates per second.
type Calibration struct {
	// File and Command are where it was written to, and by which line.
	File    string  `json:"file"`
	Command string  `json:"command"`
	Model   string  `json:"model"`
	CPU     string  `json:"cpu"`
	Layers  []Layer `json:"layers"`
	// FLOPS to Launch are the constants for layers that were not measured, and
	// FitError by how much they are off for those that were, as a fraction.
	FLOPS     float64 `json:"flops_per_s"`
	Bandwidth float64 `json:"memory_bandwidth_bytes_per_s"`
	Launch    float64 `json:"launch_s"`
	FitError  float64 `json:"fit_error"`
	// Call is what calling a program costs, included in the layers' times.
	Call      float64                 `json:"call_s"`
	Optimizer Update                  `json:"optimizer"`
	Link      calibrate.LinkConstants `json:"link"`
	// Cores are what tasks on all cores take from each other; absent where there is one, or
	// too little memory for a copy of the network on each.
	Cores *costmodel.MachineCores `json:"cores,omitempty"`

	// Warnings are doubts about what was measured.
	Warnings []string `json:"warnings,omitempty"`

	// Machine is what a machine file of it says.
	Machine costmodel.Machine `json:"-"`
}

// A Layer is one layer for one size of microbatch.
type Layer struct {
	Layer          string  `json:"layer"`
	Count          int     `json:"count"` // of such layers in the network
	Signature      string  `json:"signature"`
	Samples        int64   `json:"samples"`
	Forward        float64 `json:"forward_s"`
	Backward       float64 `json:"backward_s"`
	InputGradient  float64 `json:"input_gradient_s"`
	WeightGradient float64 `json:"weight_gradient_s"`
	// Rates of the matrix products' operations alone, in the time of the pass.
	ForwardRate  float64 `json:"forward_flops_per_s"`
	BackwardRate float64 `json:"backward_flops_per_s"`
}

// An Update is what an optimizer's step takes.
type Update struct {
	Name      string  `json:"name"`
	PerTensor float64 `json:"per_tensor_s"`
	Rate      float64 `json:"bytes_per_s"`
}

// Measure measures the layers of a network by themselves, with its optimizer, on a
// core of this machine, and copies between two: Sizes lists what o.Samples usually
// are. A *exec.RunError is not of the network or the options.
func Measure(ctx context.Context, n network.Network, t training.Options, o exec.LayerOptions) (*Calibration, error) {
	if err := check(n, t, slices.Max(o.Samples)); err != nil {
		return nil, err
	}
	o.Optimizer = programs.DefaultOptimizer(t.Optimizer)
	devices, err := exec.OpenDevices(2, exec.DeviceOptions{Oversubscribe: true}) // they take turns
	if err != nil {
		return nil, &exec.RunError{Err: err}
	}
	defer exec.CloseDevices(devices)
	p, err := exec.ProfileLayers(ctx, n, devices, o)
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
		return nil, &exec.RunError{Err: err}
	}
	return c, nil
}

// crowd measures what the cores of this machine take from each other, with microbatches of
// the size in the middle.
func (c *Calibration) crowd(ctx context.Context, n network.Network, t training.Options, o exec.LayerOptions) error {
	cores, samples := exec.DeviceOptions{}.Cores(), slices.Sorted(slices.Values(o.Samples))[len(o.Samples)/2]
	if cores < 2 || float64(cores)*need(n.Layers, t, samples) > float64(ram.Free()) {
		return nil
	}
	devices, err := exec.OpenDevices(cores, exec.DeviceOptions{})
	if err != nil {
		return err
	}
	defer exec.CloseDevices(devices)
	p, err := exec.ProfileCrowd(ctx, n, devices, samples, o)
	if err == nil {
		c.Machine.Cores = costmodel.MeasuredCores(cores, p.Alone, p.Together)
		for _, slower := range []*float64{&c.Machine.Cores.Forward, &c.Machine.Cores.Backward, &c.Machine.Cores.Update, &c.Machine.Cores.Average} {
			*slower = calibrate.Significant(*slower)
		}
		c.Cores = &c.Machine.Cores
		c.doubt(p.Disturbed())
	}
	return err
}

// doubt warns of neighbours that were not measured well.
func (c *Calibration) doubt(disturbed bool) {
	if disturbed {
		c.Warnings = append(c.Warnings, "the machine was disturbed: the same tasks took over 5 % longer in most rounds than in the shortest; something else was running, so that neither the layers' times nor the neighbours' can be relied on")
	}
	if n := c.Cores; max(n.Forward, n.Backward, n.Update) >= float64(n.Number) {
		c.Warnings = append(c.Warnings, fmt.Sprintf("%d tasks at once took as long as one after another: the other cores were busy, or are not to be had; measure again on a quiet machine", n.Number))
	}
}

// Sizes lists half of a microbatch's size, itself and twice it.
func Sizes(micro int64) []int {
	if micro == 1 {
		return []int{1, 2}
	}
	return []int{int(micro / 2), int(micro), int(2 * micro)}
}

// check refuses layers that cannot be executed, or would not fit in this machine's
// memory with microbatches of so many samples.
func check(n network.Network, t training.Options, samples int) error {
	for _, l := range n.Distinct() {
		if l.Kind == network.KindUnknown {
			return fmt.Errorf("%s cannot be executed, so that its layers cannot be measured; there are programs for gpt, mlp and vgg16", n.Name)
		}
	}
	need := need(n.Distinct(), t, samples)
	if have := float64(ram.Free()); need > have {
		return fmt.Errorf("measuring microbatches of %d samples would need about %s of memory, of which %s are free here; use fewer samples or a smaller model",
			samples, units.FormatBytes(int64(min(need, 1e18))), units.FormatBytes(int64(have)))
	}
	return nil
}

// need estimates the bytes that layers take with microbatches of so many samples.
func need(layers []network.Layer, t training.Options, samples int) (bytes float64) {
	const element, temporaries = 4, 2 // what a pass computes with beside what it keeps
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

func newCalibration(n network.Network, optimizer string, p *exec.LayerProfile) (*Calibration, error) {
	measured, timings := measurements(p)
	constants, err := calibrate.FitRoofline(timings, p.Call)
	if err != nil {
		return nil, err
	}
	flops := units.FLOPS(calibrate.Significant(float64(constants.FLOPS)))
	d := costmodel.Device{
		Peak: costmodel.Peak{FP32: flops}, MemoryBandwidth: units.Rate(calibrate.Significant(float64(constants.Bandwidth))),
		Efficiency: costmodel.Efficiency{FP32: 1, Memory: 1}, Launch: constants.Launch,
		Measured: measured, MeasuredModel: n.Name,
	}
	update := fitUpdate(optimizer, p.Updates)
	for _, u := range []costmodel.MeasuredUpdate{update, fitUpdate(costmodel.Averaging, p.Scales)} {
		if u.Rate > 0 {
			d.Updates = append(d.Updates, u)
		}
	}
	link := link.Link{}
	link.Latency, link.Bandwidth = fitTransfers(p.Copies)
	link.Call, link.Collective = fitTransfers(p.Sums)
	link.Call = max(0, link.Call-2*link.Latency) // over two devices, two steps send all of the bytes together
	c := &Calibration{
		Model: n.Name, CPU: programs.Processor(), Machine: costmodel.Machine{Device: d, Link: link},
		FLOPS: float64(flops), Bandwidth: float64(d.MemoryBandwidth), Launch: seconds(d.Launch), FitError: constants.Error, Call: p.Call.Seconds(),
		Optimizer: Update{optimizer, seconds(update.PerTensor), float64(update.Rate)},
		Link:      calibrate.NewLinkConstants(link),
	}
	c.list(n, p, measured)
	return c, nil
}

// measurements returns the profile's layers as a machine file has them, and as the
// fit takes them. The backward in one piece is not fitted: it does what its
// halves do.
func measurements(p *exec.LayerProfile) (measured []costmodel.Measured, timings []calibrate.Timing) {
	for _, l := range p.Layers {
		measured = append(measured, costmodel.Measured{
			Layer: l.Layer.Signature(), Samples: int64(l.Samples),
			Forward: units.Duration(l.Forward), Backward: units.Duration(l.Backward),
			InputGradient: units.Duration(l.InputGradient), WeightGradient: units.Duration(l.WeightGradient),
		})
		for pass, took := range map[network.Pass]time.Duration{network.Forward: l.Forward, network.InputGradient: l.InputGradient, network.WeightGradient: l.WeightGradient} {
			timings = append(timings, calibrate.Timing{Layer: l.Layer, Pass: pass, Samples: int64(l.Samples), Time: took})
		}
	}
	return calibrate.Smooth(measured), timings
}

// fitTransfers fits a time for each tensor and a rate. Where noise hides that more
// bytes take longer, the rate is that of the largest transfer, which is what was seen.
func fitTransfers(list []exec.Batched) (units.Duration, units.Rate) {
	var transfers []calibrate.MeasuredCopy
	for _, b := range list {
		transfers = append(transfers, calibrate.MeasuredCopy{Pieces: b.Tensors, Bytes: b.Bytes, Time: b.Time})
	}
	perPiece, rate := calibrate.FitTransfers(transfers)
	if rate == 0 && len(list) > 0 {
		largest := slices.MaxFunc(list, func(a, b exec.Batched) int { return cmp.Compare(a.Bytes, b.Bytes) })
		if largest.Time > 0 {
			perPiece, rate = 0, units.Rate(float64(largest.Bytes)/largest.Time.Seconds())
		}
	}
	return perPiece, units.Rate(calibrate.Significant(float64(rate)))
}

func fitUpdate(name string, list []exec.Batched) costmodel.MeasuredUpdate {
	u := costmodel.MeasuredUpdate{Name: name}
	u.PerTensor, u.Rate = fitTransfers(list)
	return u
}

func (c *Calibration) list(n network.Network, p *exec.LayerProfile, measured []costmodel.Measured) {
	count := map[string]int{}
	for _, l := range n.Layers {
		count[l.Signature()]++
	}
	for i, m := range measured {
		l := p.Layers[i].Layer
		row := Layer{
			Layer: l.Name, Count: count[m.Layer], Signature: m.Layer, Samples: m.Samples,
			Forward: seconds(m.Forward), Backward: seconds(m.Backward),
			InputGradient: seconds(m.InputGradient), WeightGradient: seconds(m.WeightGradient),
		}
		flops := func(passes ...network.Pass) (sum float64) {
			for _, pass := range passes {
				sum += float64(l.FLOPs(pass)) * float64(m.Samples)
			}
			return sum
		}
		row.ForwardRate = perSecond(flops(network.Forward), row.Forward)
		row.BackwardRate = perSecond(flops(network.InputGradient, network.WeightGradient), row.Backward)
		c.Layers = append(c.Layers, row)
	}
}

// seconds turns a duration into a number for JSON.
func seconds(d units.Duration) float64 { return time.Duration(d).Seconds() }

// perSecond returns a rate; 0 where nothing took time.
func perSecond(amount, seconds float64) float64 {
	if seconds == 0 {
		return 0
	}
	return amount / seconds
}
