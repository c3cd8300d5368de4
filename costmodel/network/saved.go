package network

import (
	"cmp"

	"psim/costmodel/group"
)

// SavedOps parts the operations of a block into those whose results SelectiveOperations
// keeps, and the others.
func (l Layer) SavedOps() (saved, again []Op) {
	products := 0
	for _, op := range l.Ops {
		keep := op.Class == Attention
		switch {
		case op.Class == Product && op.Weight:
			keep = products%2 == 0
			products++
		case op.Class == Exchange:
			keep = op.Exchanges[Forward].Collective == group.ReduceScatter
		}
		if keep {
			saved = append(saved, op)
		} else {
			again = append(again, op)
		}
	}
	return saved, again
}

// Results lists what an operation that is saved hands on; fused attention has a statistic
// of every row beside its context, and a reduce-scatter leaves a tensor as the layer's input.
func (o Op) Results(l Layer) []Buffer {
	result := Buffer{Name: o.Name + ".result", Shape: Dims{int(o.Count * o.Rows), int(o.Cols)}, Sharded: o.Sharded && !o.RowParallel}
	switch o.Class {
	case Exchange:
		result.Shape = l.Input
	case Attention:
		result.Shape, result.Lifetime = Dims{int(o.Rows), int(o.Count * cmp.Or(o.Values, o.Inner))}, ForwardToWeight
		statistic := Buffer{Name: o.Name + ".statistic", Shape: Dims{int(o.Rows), int(o.Count)}, ElementBytes: 4, Sharded: o.Sharded}
		return []Buffer{result, statistic}
	}
	return []Buffer{result}
}
