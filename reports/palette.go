package reports

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

// kindColor is the colour of a kind of task: the Okabe–Ito palette, with
// PyTorch's hues for compute.
func kindColor(k graph.Kind) color.RGBA {
	switch k {
	case graph.Forward:
		return chart.RGB(0x0072b2) // blue
	case graph.Backward:
		return chart.RGB(0xe69f00) // orange
	case graph.InputGradient:
		return chart.RGB(0x5cc8bd) // teal
	case graph.WeightGradient:
		return chart.RGB(0x00784f) // green
	case graph.SendForward, graph.Send:
		return chart.RGB(0x7f8c99) // grey
	case graph.SendBackward:
		return chart.RGB(0x9467bd) // purple
	case graph.Reduce:
		return chart.RGB(0x56b4e9) // sky blue
	case graph.Copy:
		return chart.RGB(0xa9d8f4)
	case graph.AllReduce:
		return chart.RGB(0xd55e00) // vermillion
	case graph.ReduceScatter:
		return chart.RGB(0xcc79a7) // pink
	case graph.AllGather:
		return chart.RGB(0x882255) // wine
	case graph.Average:
		return chart.RGB(0x404040)
	case graph.Optimizer:
		return chart.RGB(0xf0e442) // yellow
	}
	return chart.RGB(0x000000)
}

// kindTitle is the name of a kind for people.
func kindTitle(k graph.Kind) string {
	switch k {
	case graph.Forward:
		return "forward"
	case graph.Backward:
		return "backward"
	case graph.InputGradient:
		return "input gradient"
	case graph.WeightGradient:
		return "weight gradient"
	case graph.SendForward:
		return "activations sent"
	case graph.SendBackward:
		return "gradients sent"
	case graph.Send:
		return "chunk sent"
	case graph.Reduce:
		return "reduce"
	case graph.Copy:
		return "copy"
	case graph.AllReduce:
		return "all-reduce"
	case graph.ReduceScatter:
		return "reduce-scatter"
	case graph.AllGather:
		return "all-gather"
	case graph.Average:
		return "average"
	case graph.Optimizer:
		return "optimizer"
	}
	return k.String()
}
