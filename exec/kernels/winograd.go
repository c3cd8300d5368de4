package kernels

import (
	"slices"

	"github.com/gomlx/gomlx/core/graph"
)

// A tiling computes a few neighbouring results of a convolution by 3 with fewer multiplications
// (Winograd). Pixels and taps are treated as polynomials. Their values at some points are
// multiplied, and the results are the coefficients of the sums over the channels. Each matrix
// has a row for each value that it makes.
type tiling struct {
	pixels  [][]float64 // makes products from the pixels of a tile and one more at each end
	taps    [][]float64 // makes products from 3 taps
	results [][]float64 // makes results from products
}

// newTiling makes a tiling from points. Infinity is one more point.
func newTiling(points ...float64) tiling {
	t := tiling{results: make([][]float64, len(points)-1)}
	for i, x := range points {
		scale := 1.0
		for j, other := range points {
			if j != i {
				scale *= x - other
			}
		}
		t.pixels = append(t.pixels, polynomial(points, i))
		t.taps = append(t.taps, []float64{1 / scale, x / scale, x * x / scale})
		power := 1.0
		for k := range t.results {
			t.results[k] = append(t.results[k], power)
			power *= x
		}
	}
	t.pixels = append(t.pixels, polynomial(points, -1))
	t.taps = append(t.taps, []float64{0, 0, 1})
	for k := range t.results {
		t.results[k] = append(t.results[k], 0)
	}
	t.results[len(t.results)-1][len(points)] = 1
	return t
}

// polynomial returns the coefficients of the polynomial that is 0 at all points but one.
func polynomial(points []float64, but int) []float64 {
	c := make([]float64, len(points)+1)
	c[0] = 1
	for i, x := range points {
		if i == but {
			continue
		}
		for k := len(points); k > 0; k-- {
			c[k] = c[k-1] - x*c[k]
		}
		c[0] *= -x
	}
	return c
}

// A tiled convolution works on squares of pixels. Matrices along the lines and along the
// columns pick the pixels, also at the edges. A block has as many lines (columns) as one of
// these matrices covers.
type tiled struct {
	tiling
	images, height, width, in, out int
	down, right                    int  // blocks
	across                         bool // the images lie side by side
}

// wideImage bounds the size in pixels from which blocks are cut and tiles are 4×4.
const wideImage = 16

// tile finds how to convolve images [n, height, width, in]. It returns false if tiles are not
// worth while, because picking costs the same for every channel. A tile of 4×4 takes a quarter
// of the multiplications, and its rounding errors are eleven times those of nine taps. A tile
// of 2×2 takes 4/9, with four times the errors.
func (convolution) tile(x *graph.Node, out int) (c tiled, ok bool) {
	d := x.Shape().Dimensions
	c = tiled{images: d[0], height: d[1], width: d[2], in: d[3], out: out, down: 1, right: 1}
	if c.tiling = newTiling(0, 1, -1); min(c.height, c.width) >= wideImage {
		const root = 1.41421356237309504880168872420969807856967187537694
		c.tiling = newTiling(0, root/2, -root/2, root, -root)
		c.down, c.right = c.blocks(c.height), c.blocks(c.width)
	}
	weights := len(c.pixels) * len(c.pixels) * c.in * out
	c.across = c.down*c.right == 1 && weights > 8*c.height*c.width*(c.in+out)
	side := max(c.height/c.down, c.width/c.right)
	ok = 8*side <= len(c.results)*min(c.in, out)
	if ok && min(c.height, c.width) >= wideImage && max(c.in, out) <= 64 {
		c.down, c.right = c.pairs(c.height, c.down), c.pairs(c.width, c.right)
	}
	return c, ok
}

// blocks cuts n pixels into as many blocks as possible.
func (t tiling) blocks(n int) int {
	for b := n / wideImage; b > 1; b-- {
		if n%(b*len(t.results)) == 0 {
			return b
		}
	}
	return 1
}

// pairs cuts blocks of many pixels further, into pairs of tiles, if they divide. The matrices
// that pick pixels become smaller, but every block repeats the weights. That pays with 64
// channels, and not with 128.
func (t tiling) pairs(n, blocks int) int {
	if pair := 2 * len(t.results); n/blocks > wideImage && n%pair == 0 {
		return n / pair
	}
	return blocks
}

// pickMatrix returns a matrix that picks the pixels of n for every product, tile by tile.
// Outside are zeros or, if there are neighbours, one more pixel.
func (t tiling) pickMatrix(n int, hasNeighbours bool) (rows [][]float64) {
	first, length := -1, n
	if hasNeighbours {
		first, length = 0, n+2
	}
	for _, product := range t.pixels {
		for at := first; at < first+n; at += len(t.results) {
			row := make([]float64, length)
			for i, v := range product {
				if k := at + i; k >= 0 && k < length {
					row[k] = v
				}
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// uniteMatrix returns a matrix that makes n results from the products, tile by tile, and from a
// number of ones behind them.
func (t tiling) uniteMatrix(n, ones int) (rows [][]float64) {
	m := len(t.results)
	tiles := (n + m - 1) / m
	for k := range n {
		row := make([]float64, len(t.pixels)*tiles+ones)
		for j, v := range t.results[k%m] {
			row[j*tiles+k/m] = v
		}
		for i := range ones {
			row[len(row)-1-i] = 1
		}
		rows = append(rows, row)
	}
	return rows
}

// weights turns [out, in, 3, 3] into a list of matrices, by products to the right and, in each
// of them, down. They are [out, in] if the weight is rotated by 180 degrees, and else [in,
// out]. A large weight stays [out, in], because transposing it would take long.
func (c tiled) weights(w *graph.Node, turned bool) *graph.Node {
	var rows [][]float64
	for _, right := range c.taps {
		for _, down := range c.taps {
			row := make([]float64, 9)
			for i := range row {
				row[i] = down[i/3] * right[i%3]
			}
			if turned {
				slices.Reverse(row)
			}
			rows = append(rows, row)
		}
	}
	d := w.Shape().Dimensions
	if c.across {
		all := productTransposed(matrix(w, rows), graph.Reshape(w, -1, 9))
		return graph.Reshape(all, -1, d[0], d[1])
	}
	a, b := 0, 1
	if !turned {
		a, b = 1, 0
	}
	w = graph.Reshape(graph.TransposeAllAxes(w, 2, 3, a, b), 9, -1)
	return graph.Reshape(product(matrix(w, rows), w), -1, d[a], d[b])
}

func matrix(like *graph.Node, rows [][]float64) *graph.Node {
	return graph.ConstAsDType(like.Graph(), like.DType(), rows)
}

// convolve adds a bias unless it is nil. The weight is [out, in, 3, 3]; rotated by 180 degrees
// it is [in, out, 3, 3].
func (c tiled) convolve(x, w, bias *graph.Node, turned bool) *graph.Node {
	multiply := product
	if !turned && c.across {
		multiply = productTransposed
	}
	y := c.fromTiles(c.multiply(c.toTiles(x), c.weights(w, turned), multiply), bias)
	if c.across {
		y = graph.TransposeAllAxes(graph.Reshape(y, c.height, c.width, c.images, c.out), 2, 0, 1, 3)
	}
	return graph.Reshape(y, c.images, c.height, c.width, c.out)
}

// lists returns how many lists of images there are, and how many lie side by side in each.
func (c tiled) lists() (lists, together int) {
	if c.across {
		return 1, c.images
	}
	return c.images, 1
}

// toTiles returns, for each product to the right, matrices [tiles, in] for the blocks down, and
// in each of them for the products down.
func (c tiled) toTiles(x *graph.Node) (parts []*graph.Node) {
	lists, together := c.lists()
	if c.across {
		x = graph.TransposeAllAxes(x, 1, 2, 0, 3)
	}
	x = halo(graph.Reshape(x, lists*c.height, c.width, together*c.in), c.right)
	right := c.pickMatrix(c.width/c.right, c.right > 1)
	down := repeatMatrix(matrix(x, c.pickMatrix(c.height/c.down, c.down > 1)), lists*c.down)
	tiles := len(right) / len(c.pixels)
	for j := range c.pixels {
		part := product(repeatMatrix(matrix(x, right[j*tiles:(j+1)*tiles]), x.Shape().Dim(0)), x)
		part = product(down, halo(graph.Reshape(part, lists, c.height, -1), c.down))
		parts = append(parts, graph.Reshape(part, lists*c.down*len(c.pixels), -1, c.in))
	}
	return parts
}

// multiply returns the sums over the channels. If there are more weights than pixels, the
// weights stay together and the pixels are put together.
func (c tiled) multiply(
	parts []*graph.Node, u *graph.Node, multiply func(a, b *graph.Node) *graph.Node,
) (sums []*graph.Node) {
	p := len(parts)
	if c.across && u.Shape().Size() > p*parts[0].Shape().Size() {
		all := multiply(graph.Concatenate(parts, 0), u)
		for j := range p {
			sums = append(sums, graph.Slice(all, graph.AxisRange(j*p, (j+1)*p)))
		}
		return sums
	}
	for j, part := range parts {
		these := repeatMatrix(graph.Slice(u, graph.AxisRange(j*p, (j+1)*p)), part.Shape().Dim(0)/p)
		sums = append(sums, multiply(part, graph.Reshape(these, part.Shape().Dim(0), u.Shape().Dim(1), -1)))
	}
	return sums
}

// fromTiles makes results from the sums, and adds the bias as one more product.
func (c tiled) fromTiles(sums []*graph.Node, bias *graph.Node) *graph.Node {
	lists, together := c.lists()
	down := repeatMatrix(matrix(sums[0], c.uniteMatrix(c.height/c.down, 0)), lists*c.down)
	lines := lists * c.height * c.right
	for j, sum := range sums {
		part := product(down, graph.Reshape(sum, lists*c.down, down.Shape().Dim(2), -1))
		sums[j] = graph.Reshape(part, lines, -1, together*c.out)
	}
	ones := 0
	if bias != nil {
		ones = 1
		bias = graph.BroadcastToDims(graph.Reshape(bias, 1, 1, -1), lines, together, c.out)
		sums = append(sums, graph.Reshape(bias, lines, 1, -1))
	}
	right := repeatMatrix(matrix(sums[0], c.uniteMatrix(c.width/c.right, ones)), lines)
	return product(right, graph.Concatenate(sums, 1))
}

// halo cuts the lines of x [lists, lines, rest] into blocks, with the neighbouring lines unless
// there is only one block.
func halo(x *graph.Node, blocks int) *graph.Node {
	d := x.Shape().Dimensions
	if blocks == 1 {
		return x
	}
	n, all := d[1]/blocks, graph.AxisRange()
	x = graph.Reshape(x, d[0], blocks, n, d[2])
	zero := zeros(x, d[0], 1, 1, d[2])
	above := graph.Slice(x, all, graph.AxisRange(0, blocks-1), graph.AxisElem(n-1), all)
	below := graph.Slice(x, all, graph.AxisRange(1, blocks), graph.AxisElem(0), all)
	above, below = graph.Concatenate([]*graph.Node{zero, above}, 1), graph.Concatenate([]*graph.Node{below, zero}, 1)
	return graph.Reshape(graph.Concatenate([]*graph.Node{above, x, below}, 2), d[0]*blocks, n+2, d[2])
}

// repeatMatrix makes a list that repeats a matrix, or a list of matrices.
func repeatMatrix(x *graph.Node, n int) *graph.Node {
	if x.Rank() == 2 {
		x = graph.Reshape(x, 1, x.Shape().Dim(0), x.Shape().Dim(1))
	}
	list := make([]*graph.Node, n)
	for i := range list {
		list[i] = x
	}
	return graph.Concatenate(list, 0)
}
