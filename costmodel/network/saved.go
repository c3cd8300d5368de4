package network

import (
	"cmp"

	"psim/costmodel/group"
)

// SavedOps divides the operations of a block into those whose results
// training.SelectiveOperations keeps, and those that it runs again.
func (l Layer) SavedOps() (saved, repeated []Op) {
	products := 0
	for _, op := range l.Ops {
		keep := op.Class == Attention && op.Modules&FusedCore != 0
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
			repeated = append(repeated, op)
		}
	}
	return saved, repeated
}

// Results lists the results of an operation whose results are saved. Fused attention has its
// context and a statistic of every row; a reduce-scatter has a tensor of the shape of the
// layer's input.
func (o Op) Results(l Layer) []Buffer {
	result := Buffer{
		Name: o.Name + ".result", Shape: Dims{int(o.Count * o.Rows), int(o.Cols)}, Sharded: o.Sharded && !o.RowParallel,
	}
	switch o.Class {
	case Exchange:
		result.Shape = l.Input
	case Attention:
		result.Shape = Dims{int(o.Rows), int(o.Count * cmp.Or(o.Values, o.Inner))}
		result.Lifetime = ForwardToWeight
		statistic := Buffer{
			Name: o.Name + ".statistic", Shape: Dims{int(o.Rows), int(o.Count)}, ElementBytes: 4, Sharded: o.Sharded,
		}
		return []Buffer{result, statistic}
	}
	return []Buffer{result}
}
