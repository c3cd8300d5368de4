package costmodel

import (
	"math"

	"psim/costmodel/network"
)

// tileSide is the side of the smallest block of a product's result that a multiprocessor gets.
// Libraries choose the tiles that leave the least idle, from 64 × 64 to 256 × 128 (NVIDIA, Matrix
// Multiplication Background User's Guide, section 2.3).
const tileSide = 64

// product returns the time in seconds to compute a product: that of whole waves of tiles, plus the
// time that halfRows further rows would take in 16 bits or more, because a product begins and ends
// below its rate. Where tiles are serial, the tiles of a wave are written together while nothing is
// computed. Products with a short inner dimension are then slower, whatever their size.
func (c *Compute) product(o network.Op, p network.Pass, flops float64, samples int64) float64 {
	rows := float64(samples) * float64(max(1, o.Count)) * float64(o.Rows) / float64(max(1, o.Experts))
	occupied, written := flops, 0.0
	if c.serial {
		written = c.moving(float64(o.Written(p, samples)) * c.element)
	}
	if c.processors > 0 {
		occupied = 0
		for _, s := range shapes(o, p, samples) {
			occupied += s.occupied(c.processors)
		}
	}
	rate, half := c.flops, c.halfRows
	if o.Bits > 0 {
		rate, half = c.narrow, half*c.narrow/c.flops
	}
	computing := (occupied + flops*half/rows) / rate
	switch {
	case o.Aligned():
	case o.Weight:
		computing /= c.unaligned
	default:
		computing /= c.ragged
	}
	return computing + written
}

// A shape is the shape of count equal products in one kernel: rows × inner by inner × cols.
type shape struct{ count, rows, cols, inner float64 }

// shapes returns the shapes of the products in a pass of an operation.
func shapes(o network.Op, p network.Pass, samples int64) []shape {
	count, rows := float64(max(1, o.Count)*max(1, o.Experts)), float64(o.Rows)
	if o.Weight {
		rows *= float64(samples) / float64(max(1, o.Experts))
	} else {
		count *= float64(samples)
	}
	inner, cols := float64(o.Inner), float64(o.Cols)
	switch {
	case p == network.Forward:
		return []shape{{count, rows, cols, inner}}
	case p == network.WeightGradient:
		return []shape{{count, inner, cols, rows}}
	case o.Weight:
		return []shape{{count, rows, inner, cols}}
	}
	return []shape{{count, rows, inner, cols}, {count, inner, cols, rows}}
}

// occupied counts the FLOPs that the multiprocessors could have done in the time of the tiles: tiles
// at the edges reach beyond the result, and in the last wave some multiprocessors are idle.
func (s shape) occupied(multiprocessors float64) float64 {
	tiles := s.count * math.Ceil(s.rows/tileSide) * math.Ceil(s.cols/tileSide)
	return 2 * tileSide * tileSide * s.inner * math.Ceil(tiles/multiprocessors) * multiprocessors
}
