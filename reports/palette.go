package reports

import (
	"image/color"

	"psim/schedules/graph"
)

// The colours of everything that is not a task.
const (
	ink        = 0x202020
	faint      = 0x707070
	gridline   = 0xdcdcdc
	idleFill   = 0xe9e9e9
	laneFill   = 0xf5f5f5
	launchFill = 0xf2b8a8
	alarm      = 0xd55e00
	otherRanks = 0xc8c8c8
)

// rgb is an opaque colour from 0xRRGGBB.
func rgb(hex uint32) color.RGBA {
	return color.RGBA{R: uint8(hex >> 16), G: uint8(hex >> 8), B: uint8(hex), A: 0xff}
}

// inkOn is the colour of text that can be read on a fill.
func inkOn(fill color.RGBA) color.RGBA {
	if 299*int(fill.R)+587*int(fill.G)+114*int(fill.B) < 128_000 {
		return rgb(0xffffff)
	}
	return rgb(ink)
}

// kindColor is the colour of a kind of task: the Okabe–Ito palette, with
// PyTorch's hues for compute.
func kindColor(k graph.Kind) color.RGBA {
	switch k {
	case graph.Forward:
		return rgb(0x0072b2) // blue
	case graph.Backward:
		return rgb(0xe69f00) // orange
	case graph.InputGradient:
		return rgb(0x5cc8bd) // teal
	case graph.WeightGradient:
		return rgb(0x00784f) // green
	case graph.SendForward, graph.Send:
		return rgb(0x7f8c99) // grey
	case graph.SendBackward:
		return rgb(0x9467bd) // purple
	case graph.Reduce:
		return rgb(0x56b4e9) // sky blue
	case graph.Copy:
		return rgb(0xa9d8f4)
	case graph.AllReduce:
		return rgb(0xd55e00) // vermillion
	case graph.ReduceScatter:
		return rgb(0xcc79a7) // pink
	case graph.AllGather:
		return rgb(0x882255) // wine
	case graph.Average:
		return rgb(0x404040)
	case graph.Optimizer:
		return rgb(0xf0e442) // yellow
	}
	return rgb(0x000000)
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

// colors is how many colours of lines there are.
const colors = 8

// rankColor is the colour of the i-th of up to eight lines.
func rankColor(i int) color.RGBA {
	switch i % colors {
	case 0:
		return rgb(0x0072b2)
	case 1:
		return rgb(0xe69f00)
	case 2:
		return rgb(0x009e73)
	case 3:
		return rgb(0xcc79a7)
	case 4:
		return rgb(0x56b4e9)
	case 5:
		return rgb(0xd55e00)
	case 6:
		return rgb(0xb8a900)
	}
	return rgb(0x303030)
}
