package order

import (
	"slices"

	"psim/schedules/graph"
)

// HasWaits reports whether the order says where sends are waited for, as PyTorch's form
// with communication does from 2.15 on.
func (o Order) HasWaits() bool {
	return o.contains(func(a Action) bool { return isWait(a.Kind) || a.Kind == graph.WaitGradient })
}

// WithWaits adds to an order with messages the waits that PyTorch requires from 2.15 on, at
// its places. The backward of a stage and microbatch proves that the next stage has its
// activations, so the wait for them follows it. Other sends are waited for at the end of the
// row. A sum of gradients is waited for at once.
func (o Order) WithWaits() Order {
	if o.HasWaits() {
		return o
	}
	all := make(Order, len(o))
	for r, actions := range o {
		var sent []Action // not waited for yet
		for _, a := range actions {
			all[r] = append(all[r], a)
			switch {
			case isSend(a.Kind):
				sent = append(sent, a)
			case a.Kind == graph.ReduceGradient:
				all[r] = append(all[r], a.on(a.Stage, graph.WaitGradient))
			case a.Kind == graph.Backward, a.Kind == graph.InputGradient:
				if i := slices.Index(sent, a.on(a.Stage, graph.SendForward)); i >= 0 {
					all[r] = append(all[r], sent[i].wait())
					sent = slices.Delete(sent, i, i+1)
				}
			}
		}
		for _, a := range sent {
			all[r] = append(all[r], a.wait())
		}
	}
	return all
}

// WithoutWaits returns the order as PyTorch up to 2.14 reads it.
func (o Order) WithoutWaits() Order {
	plain := make(Order, len(o))
	for r, actions := range o {
		for _, a := range actions {
			if !isWait(a.Kind) && a.Kind != graph.WaitGradient {
				plain[r] = append(plain[r], a)
			}
		}
	}
	return plain
}

// wait returns the end of a SEND.
func (a Action) wait() Action {
	if a.Kind == graph.SendForward {
		return a.on(a.Stage, graph.WaitForward)
	}
	return a.on(a.Stage, graph.WaitBackward)
}

// sent returns the SEND that a wait ends.
func (a Action) sent() Action {
	if a.Kind == graph.WaitForward {
		return a.on(a.Stage, graph.SendForward)
	}
	return a.on(a.Stage, graph.SendBackward)
}
