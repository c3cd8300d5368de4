package order

import "psim/schedules/graph"

// Layered returns the order of a pipeline whose stages are cut into layers, each a stage of its own on the same rank.
// An action of a stage becomes an action of each of its layers: a forward from the first to the last, others back.
// layers has the number of layers of every stage.
func (o Order) Layered(layers []int) Order {
	first, all := make([]int32, len(layers)), int32(0)
	for s, n := range layers {
		first[s], all = all, all+int32(n)
	}
	cut := make(Order, len(o))
	for r, actions := range o {
		for _, a := range actions {
			n := int32(layers[a.Stage])
			for i := range n {
				one := a
				if one.Stage = first[a.Stage] + i; a.Kind != graph.Forward {
					one.Stage = first[a.Stage] + n - 1 - i
				}
				cut[r] = append(cut[r], one)
			}
		}
	}
	return cut
}
