package picture

import (
	"image/color"

	"psim/reports/chart"
	"psim/schedules/graph"
)

// The colours of a timeline where no task runs.
const (
	idleFill   = 0xe9e9e9
	launchFill = 0xf2b8a8
)

// A look says how a kind of task is drawn and how the legend names it. Light is the lightest
// tone of the colour; it is 0 for kinds that have only one tone.
type look struct {
	color, light uint32
	title        string
}

// lookOf returns the look of a kind. The colours are those of Okabe and Ito, with PyTorch's
// hues for compute: blue forwards, orange backwards, and teal and green halves of a
// backward, whose light tones can be distinguished.
func lookOf(k graph.Kind) look {
	return [graph.Kinds]look{
		graph.Forward:        {0x0072b2, 0x7cbcec, "forward"},
		graph.Backward:       {0xe69f00, 0xf8d690, "backward"},
		graph.InputGradient:  {0x5cc8bd, 0xa6e3db, "input gradient"},
		graph.WeightGradient: {0x00784f, 0xa9cf6e, "weight gradient"},
		graph.Loss:           {0x5b2a86, 0xb79fd0, "loss"},
		graph.SendForward:    {0x7f8c99, 0, "activations sent"},
		graph.SendBackward:   {0x9467bd, 0, "gradients sent"},
		graph.Send:           {0x7f8c99, 0, "chunk sent"},
		graph.Reduce:         {0x56b4e9, 0, "reduce"},
		graph.Copy:           {0xa9d8f4, 0, "copy"},
		graph.AllReduce:      {0xd55e00, 0, "all-reduce"},
		graph.ReduceScatter:  {0xcc79a7, 0, "reduce-scatter"},
		graph.AllGather:      {0x882255, 0, "all-gather"},
		graph.Broadcast:      {0x8c564b, 0, "broadcast"},
		graph.AllToAll:       {0x17a2b8, 0, "all-to-all"},
		graph.Average:        {0x404040, 0, "average"},
		graph.Optimizer:      {0xf0e442, 0, "optimizer"},
		graph.Zero:           {0xb8b08d, 0, "zero gradients"},
		graph.ToHost:         {0x6b7a3a, 0, "copy to host"},
		graph.FromHost:       {0xa9b665, 0, "copy from host"},
	}[k]
}

// tone mixes the full colour, at 0, and the lightest tone, at 1.
func (l look) tone(light float64) color.RGBA {
	a, b := chart.RGB(l.color), chart.RGB(l.light)
	if l.light == 0 {
		return a
	}
	mix := func(a, b uint8) uint8 { return uint8(float64(a) + light*(float64(b)-float64(a)) + 0.5) }
	return color.RGBA{R: mix(a.R, b.R), G: mix(a.G, b.G), B: mix(a.B, b.B), A: 0xff}
}
