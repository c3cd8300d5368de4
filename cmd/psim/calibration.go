package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"text/tabwriter"
	"time"

	lib "psim"
	"psim/costmodel"
	"psim/costmodel/arch"
	"psim/costmodel/calibrate"
	"psim/costmodel/link"
	"psim/exec"
	"psim/exec/programs"
	"psim/internal/units"
)

// calibration is what was measured, and the machine that it makes. Times are in
// seconds, rates per second.
type calibration struct {
	File    string            `json:"file"`
	Command string            `json:"command"`
	Model   string            `json:"model"`
	CPU     string            `json:"cpu"`
	Layers  []calibratedLayer `json:"layers"`
	// FLOPS to Launch are the constants for layers that were not measured, and
	// FitError by how much they are off for those that were, as a fraction.
	FLOPS     float64 `json:"flops_per_s"`
	Bandwidth float64 `json:"memory_bandwidth_bytes_per_s"`
	Launch    float64 `json:"launch_s"`
	FitError  float64 `json:"fit_error"`
	// Call is what calling a program costs, included in the layers' times.
	Call      float64           `json:"call_s"`
	Optimizer calibratedUpdate  `json:"optimizer"`
	Link      lib.LinkConstants `json:"link"`

	machine costmodel.Machine
}

// calibratedLayer is one layer for one size of microbatch.
type calibratedLayer struct {
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

type calibratedUpdate struct {
	Name      string  `json:"name"`
	PerTensor float64 `json:"per_tensor_s"`
	Rate      float64 `json:"bytes_per_s"`
}

// newCalibration fits a machine to what was measured.
func newCalibration(n arch.Network, optimizer string, p *exec.LayerProfile) (*calibration, error) {
	measured, timings := measurements(p)
	constants, err := calibrate.FitRoofline(timings, p.Call)
	if err != nil {
		return nil, err
	}
	flops := units.FLOPS(rounded(float64(constants.FLOPS)))
	d := costmodel.Device{
		Peak: costmodel.Peak{FP32: flops}, MemoryBandwidth: units.Rate(rounded(float64(constants.Bandwidth))),
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
	link.Call, link.Collective = fitSums(p.Sums, link.Latency)
	c := &calibration{
		Model: n.Name, CPU: cpu(), machine: costmodel.Machine{Device: d, Link: link},
		FLOPS: float64(flops), Bandwidth: float64(d.MemoryBandwidth), Launch: time.Duration(d.Launch).Seconds(), FitError: constants.Error, Call: p.Call.Seconds(),
		Optimizer: calibratedUpdate{optimizer, time.Duration(update.PerTensor).Seconds(), float64(update.Rate)},
		Link:      lib.Constants(link),
	}
	c.list(n, p, measured)
	return c, nil
}

// measurements are the profile's layers, as a machine file has them and as the
// fit takes them. The backward in one piece is not fitted: it does what its
// halves do.
func measurements(p *exec.LayerProfile) (measured []costmodel.Measured, timings []calibrate.Timing) {
	for _, l := range p.Layers {
		measured = append(measured, costmodel.Measured{
			Layer: l.Layer.Signature(), Samples: int64(l.Samples),
			Forward: units.Duration(l.Forward), Backward: units.Duration(l.Backward),
			InputGradient: units.Duration(l.InputGradient), WeightGradient: units.Duration(l.WeightGradient),
		})
		for pass, took := range map[arch.Pass]time.Duration{arch.Forward: l.Forward, arch.InputGradient: l.InputGradient, arch.WeightGradient: l.WeightGradient} {
			timings = append(timings, calibrate.Timing{Layer: l.Layer, Pass: pass, Samples: int64(l.Samples), Time: took})
		}
	}
	return calibrate.Smooth(measured), timings
}

func fitTransfers(list []exec.Batched) (units.Duration, units.Rate) {
	var transfers []calibrate.Transfer
	for _, b := range list {
		transfers = append(transfers, calibrate.Transfer{Pieces: b.Tensors, Bytes: b.Bytes, Time: b.Time})
	}
	perPiece, rate := calibrate.FitTransfers(transfers)
	return perPiece, units.Rate(rounded(float64(rate)))
}

func fitUpdate(name string, list []exec.Batched) costmodel.MeasuredUpdate {
	u := costmodel.MeasuredUpdate{Name: name}
	u.PerTensor, u.Rate = fitTransfers(list)
	return u
}

// fitSums finds what a collective costs beside its steps, and the bandwidth of
// its ring. Over two devices an all-reduce has two steps, which send all of the
// bytes together.
func fitSums(list []exec.Batched, latency units.Duration) (call units.Duration, ring units.Rate) {
	call, ring = fitTransfers(list)
	return max(0, call-2*latency), ring
}

// rounded to four digits, which is more than a measurement tells.
func rounded(x float64) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64)
	if err != nil {
		return x
	}
	return r
}

// list fills the table of layers.
func (c *calibration) list(n arch.Network, p *exec.LayerProfile, measured []costmodel.Measured) {
	count := map[string]int{}
	for _, l := range n.Layers {
		count[l.Signature()]++
	}
	for i, m := range measured {
		l := p.Layers[i].Layer
		row := calibratedLayer{
			Layer: l.Name, Count: count[m.Layer], Signature: m.Layer, Samples: m.Samples,
			Forward: time.Duration(m.Forward).Seconds(), Backward: time.Duration(m.Backward).Seconds(),
			InputGradient: time.Duration(m.InputGradient).Seconds(), WeightGradient: time.Duration(m.WeightGradient).Seconds(),
		}
		flops := func(passes ...arch.Pass) (sum float64) {
			for _, pass := range passes {
				sum += float64(l.FLOPs(pass)) * float64(m.Samples)
			}
			return sum
		}
		row.ForwardRate = perSecond(flops(arch.Forward), row.Forward)
		row.BackwardRate = perSecond(flops(arch.InputGradient, arch.WeightGradient), row.Backward)
		c.Layers = append(c.Layers, row)
	}
}

func perSecond(amount, seconds float64) float64 {
	if seconds == 0 {
		return 0
	}
	return amount / seconds
}

// write prints the table, and what to do next.
func (c *calibration) write(w io.Writer, next string) error {
	fmt.Fprintf(w, "%s in fp32 on %s\n\n", c.Model, c.CPU)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "layer\tsamples\tF\tB\tI\tW\tGFLOP/s in F\tin B\t")
	for _, l := range c.Layers {
		name := l.Layer
		if l.Count > 1 {
			name = fmt.Sprintf("%s (%d such)", name, l.Count)
		}
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t\n", name, l.Samples, span(l.Forward), span(l.Backward), span(l.InputGradient), span(l.WeightGradient), giga(l.ForwardRate), giga(l.BackwardRate))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nother layers  %s and %s, %s for every operation (off by %.0f %% of the time of these layers)\n",
		units.FormatFLOPS(c.FLOPS), orUnlimited(c.Bandwidth), span(c.Launch), 100*c.FitError)
	if c.Optimizer.Rate > 0 {
		fmt.Fprintf(w, "%-13s %s of parameters, %s for every tensor\n", c.Optimizer.Name, units.FormatRate(c.Optimizer.Rate), span(c.Optimizer.PerTensor))
	}
	fmt.Fprintf(w, "copies        %s, %s for each\n", units.FormatRate(c.Link.Bandwidth), span(c.Link.Latency))
	fmt.Fprintf(w, "all-reduces   %s, %s for each\n", units.FormatRate(c.Link.Collective), span(c.Link.Call+2*c.Link.Latency))
	fmt.Fprintf(w, "calls         %s for a program that does nothing (included above)\n", span(c.Call))
	_, err := fmt.Fprintf(w, "\nwrote %s; use it with\n  %s\n", c.File, next)
	return err
}

func span(seconds float64) string {
	return units.FormatDuration(time.Duration(math.Round(seconds * 1e9)))
}

func giga(rate float64) string {
	return orDash(rate > 0, strconv.FormatFloat(rate/1e9, 'f', 1, 64))
}

func orUnlimited(rate float64) string {
	if rate == 0 {
		return "unlimited memory bandwidth"
	}
	return units.FormatRate(rate)
}

func (c *calibration) writeJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(c)
}

// comment heads the machine file.
func (c *calibration) comment() []string {
	return []string{
		fmt.Sprintf("Layers of %s in fp32, by themselves on one core of %s.", c.Model, c.CPU),
		fmt.Sprintf("%s. Medians, by", toolchain()),
		"  " + c.Command,
		"",
		fmt.Sprintf("[machine.compute] is for layers that were not measured: fitted to those that were, and off by %.0f %% of their time.", 100*c.FitError),
		fmt.Sprintf("Calling a program that does nothing takes %s, which the layers' times include.", span(c.Call)),
	}
}

// toolchain says what decides the speed beside the processor.
func toolchain() string {
	simd := "without SIMD"
	if programs.SIMDCompiled {
		simd = "built with SIMD, " + programs.SIMD()
		if programs.SIMD() == "" {
			simd = "built with SIMD, which this processor does not have"
		}
	}
	return fmt.Sprintf("gomlx's Go backend, %s %s/%s, %s", runtime.Version(), runtime.GOOS, runtime.GOARCH, simd)
}

var cpuModel = regexp.MustCompile(`(?m)^model name\s*:\s*(.+?)\s*$`)

// cpu names the processor as far as the system tells.
func cpu() string {
	name := "a processor of unknown name"
	if data, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if m := cpuModel.FindSubmatch(data); m != nil {
			name = string(m[1])
		}
	}
	return fmt.Sprintf("%s, %d cores", name, runtime.NumCPU())
}
