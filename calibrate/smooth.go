package calibrate

import (
	"cmp"
	"slices"

	"psim/costmodel"
	"psim/internal/units"
)

// Smooth makes measured times monotone, as a machine file needs them: if a size took less
// time than a smaller one, which is noise, both get their mean.
func Smooth(list []costmodel.Measured) []costmodel.Measured {
	smooth := slices.Clone(list)
	slices.SortStableFunc(smooth, func(a, b costmodel.Measured) int { return cmp.Compare(a.Samples, b.Samples) })
	byLayer := map[string][4][]*units.Duration{}
	for i := range smooth {
		points := byLayer[smooth[i].Layer]
		for k, d := range smooth[i].Times() {
			points[k] = append(points[k], d)
		}
		byLayer[smooth[i].Layer] = points
	}
	for _, passes := range byLayer {
		for _, points := range passes {
			poolViolators(points)
		}
	}
	// Keep the order of the layers in the list, for readers of the file.
	order := map[string]int{}
	for _, m := range list {
		if _, ok := order[m.Layer]; !ok {
			order[m.Layer] = len(order)
		}
	}
	slices.SortStableFunc(smooth, func(a, b costmodel.Measured) int {
		return cmp.Compare(order[a.Layer], order[b.Layer])
	})
	return smooth
}

// poolViolators finds the nearest rising sequence in the least squares (Ayer et al. 1955):
// it replaces neighbours that fall by their mean.
func poolViolators(points []*units.Duration) {
	type block struct{ sum, n int64 }
	var blocks []block
	for _, p := range points {
		blocks = append(blocks, block{int64(*p), 1})
		for k := len(blocks) - 1; k > 0 && blocks[k].sum/blocks[k].n < blocks[k-1].sum/blocks[k-1].n; k-- {
			blocks[k-1].sum += blocks[k].sum
			blocks[k-1].n += blocks[k].n
			blocks = blocks[:k]
		}
	}
	i := 0
	for _, b := range blocks {
		for range b.n {
			*points[i] = units.Duration(b.sum / b.n)
			i++
		}
	}
}
