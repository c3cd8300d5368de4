package published

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"psim/configs"
	"psim/costmodel"
	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/costmodel/training"
)

// attentionRates returns how fast fused attention is on devices, of what authors of kernels
// and others have measured.
func attentionRates() Table {
	return Table{
		Name: "attention", Title: "fused attention in 16 bits, by device and features of a head", Figure: "attention",
		Paper: "authors of kernels and others", Place: "the sources are in published/testdata/attention.csv",
		Fitted: "attention and half_head of a device, from causal rows of 4,096 to 16,384 tokens where there are such; error on the others",
		Device: "rates of large products as the catalog has them, which are those of long runs",
		Note: "FLOPs are counted as the rows' authors do: half of the square with a causal mask, and backward 2.5 times as much as forward. " +
			"psim counts whole tiles of 128 tokens and has no term for processors that idle at the end of a short sequence, so that rows of 2,048 tokens are slower in truth, most of all on Blackwell; " +
			"without a mask consumer devices and H20 are up to a fifth faster than with one.",
		Rows: func() ([]Row, error) { return rowPer(attentionRows("fit", "held out"), record.attention) },
	}
}

// attentionRows lists those of some uses.
func attentionRows(uses ...string) []record {
	return slices.DeleteFunc(records("attention.csv"), func(r record) bool { return !slices.Contains(uses, r.text("use")) })
}

// attention predicts the rate of a row.
func (r record) attention() (Row, error) {
	d, err := attentionDevice(r.text("device"))
	if err != nil {
		return Row{}, err
	}
	took, err := r.attentionTime(d)
	work, published := r.attentionWork()
	return Row{
		Label: fmt.Sprintf("%s %s, %s, %s tokens, %s", d.Name, r.text("kernel"), r.attentionHeads(), r.text("tokens"), r.text("mask")),
		Unit:  "TFLOP/s", Published: published, Predicted: work / took.Seconds() / 1e12, Used: r.text("use") == "fit",
	}, err
}

// attentionElsewhere names the devices with rows that the catalog lacks, each with the one of
// the catalog that it is priced as, but for its rate of products.
var attentionElsewhere = map[string]string{"rtx-a5000": "rtx-3090", "p100": "p40"}

// attentionDevice returns a device of the catalog, or one that it lacks. RTX A5000 is a GA102
// with 8,192 lanes at 1,695 MHz, whose tensor cores do four times as much as these in 16 bits
// (19.2 and half of 153.4 TFLOP/s of RTX A4000: ecer.com, a copy of its datasheet, read
// 2026-11), of which long runs keep 0.804 of its best product (docs/products.md), 93.9
// TFLOP/s (testdata/rates.csv). P100 is to P40 as their best products in fp32, 9.50 TFLOP/s
// (testdata/products.csv, squares-180) and 10.07 (testdata/rates.csv).
func attentionDevice(name string) (costmodel.Device, error) {
	base := cmp.Or(attentionElsewhere[name], name)
	for _, d := range configs.Catalog().Devices {
		if d.Name == base {
			d.Name = name
			switch name {
			case "rtx-a5000":
				d.Peak.BF16 = 4 * 8192 * 2 * 1.695e9
				d.Efficiency.BF16 = 0.804 * 93.9e12 / float64(d.Peak.BF16)
			case "p100":
				d.Peak.FP16 *= 9.50 / 10.07
			}
			return d, nil
		}
	}
	return costmodel.Device{}, fmt.Errorf("testdata/attention.csv: no device %q", name)
}

// headsUnsaid stands for a number of heads that a source leaves out: enough for the launch
// not to count.
const headsUnsaid = 128

// attentionTime returns the time that a device takes for what a row has measured.
func (r record) attentionTime(d costmodel.Device) (time.Duration, error) {
	precision := "bf16"
	if d.Peak.BF16 == 0 {
		precision = "fp16"
	}
	c, err := costmodel.NewCompute(d, training.Options{Precision: precision})
	if err != nil {
		return 0, err
	}
	o, err := r.attentionOp()
	heads := int64(headsUnsaid)
	if r.text("heads") != "" {
		heads = int64(r.count("heads"))
	}
	took := c.Op(o, network.Forward, heads)
	if !r.forwardOnly() {
		took += c.Op(o, network.InputGradient, heads)
	}
	return took, err
}

// attentionOp returns the attention of one head, as a model has it.
func (r record) attentionOp() (network.Op, error) {
	m := models.Model{
		Family: "llama", Layers: 1, Hidden: r.count("features"), Heads: 1, FFNHidden: 256, Vocab: 256,
		SequenceLength: r.count("tokens"), Window: r.attentionWindow(), Attention: models.AttentionFlash,
	}
	n, err := m.Network()
	for _, l := range n.Layers {
		for _, o := range l.Ops {
			if o.Class != network.Attention {
				continue
			}
			if r.text("mask") == "no mask" {
				o.Pairs = o.Rows * o.Cols
			}
			return o, err
		}
	}
	return network.Op{}, err
}

// attentionHeads says how many heads of how many features there are.
func (r record) attentionHeads() string {
	if r.text("heads") == "" {
		return "heads of " + r.text("features")
	}
	return r.text("heads") + " heads of " + r.text("features")
}

// attentionWindow returns how many tokens attention sees; 0 is all.
func (r record) attentionWindow() int {
	if r.text("window") == "" {
		return 0
	}
	return r.count("window")
}

// forwardOnly reports whether no backward was measured.
func (r record) forwardOnly() bool {
	return r.text("backward_tflops") == "" && r.text("both_tflops") == ""
}

// attentionWork returns the FLOPs of a row by its author's count, for all heads, and at how
// many TFLOP/s they were done.
func (r record) attentionWork() (flops, rate float64) {
	s, heads := r.number("tokens"), float64(headsUnsaid)
	if r.text("heads") != "" {
		heads = r.number("heads")
	}
	pairs := s * s
	if r.text("mask") == "causal" {
		w := float64(cmp.Or(r.attentionWindow(), int(s)))
		pairs = w * (s - w/2)
	}
	forward := 4 * heads * pairs * r.number("features")
	switch {
	case r.text("both_tflops") != "":
		return 3.5 * forward, r.number("both_tflops")
	case r.forwardOnly():
		return forward, r.number("forward_tflops")
	}
	return 3.5 * forward, 3.5 / (1/r.number("forward_tflops") + 2.5/r.number("backward_tflops"))
}
