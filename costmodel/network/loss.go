package network

import (
	"slices"
	"strings"
)

// lossName is the name of the loss, and begins the names of its steps and buffers.
const lossName = "loss"

// isLoss reports whether something of this name belongs to the loss.
func isLoss(name string) bool { return name == lossName || strings.HasPrefix(name, lossName+".") }

// OnlyLoss reports whether a layer is a loss that was taken out of a network's last layer.
func (l Layer) OnlyLoss() bool { return len(l.Ops) > 0 && isLoss(l.Ops[0].Name) }

// LossApart returns the layers of a network with its loss in a layer of its own, the last one,
// which reads the logits. It returns false if the network does not end with a loss.
func (n Network) LossApart() (layers []Layer, ok bool) {
	last := len(n.Layers) - 1
	head := n.Layers[last]
	at := slices.IndexFunc(head.Ops, func(o Op) bool { return isLoss(o.Name) })
	if at < 1 {
		return n.Layers, false
	}
	loss := Layer{
		Name: lossName, Kind: head.Kind, Input: head.Output, Output: head.Output,
		Ops: head.Ops[at:], KeptWhole: head.KeptWhole,
	}
	head.Ops = head.Ops[:at:at]
	var buffers []Buffer
	for _, b := range head.Buffers {
		switch {
		case isLoss(b.Name):
			loss.Buffers = append(loss.Buffers, b)
			continue
		case b.Lifetime == InputToWeight && strings.HasSuffix(b.Name, ".output_gradient"):
			head.KeepsGradient = true // the loss makes it
		}
		buffers = append(buffers, b)
	}
	head.Buffers = buffers
	return append(slices.Clone(n.Layers[:last]), head, loss), true
}
