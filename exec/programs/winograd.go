package programs

import (
	"slices"

	"github.com/gomlx/gomlx/core/graph"
)

// A tiling makes a few neighbouring results of a convolution by 3 with fewer
// multiplications (Winograd): pixels and taps are polynomials, of which the values at
// some points are multiplied, and the results are the coefficients of the sums over the
// channels. Each matrix has a row for what it makes.
type tiling struct {
	pixels  [][]float64 // products from the pixels of a tile and one beyond each end
	taps    [][]float64 // products from 3 taps
	results [][]float64 // results from products
}

// tile makes a tiling from points, of which infinity is one more.
func tile(points ...float64) tiling {
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

// polynomial returns the coefficients of the one that is 0 at all points but one.
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

// A tiled convolution is one of squares of pixels, in which matrices along the lines and
// along the columns pick the pixels, also at the edges. A block has as many lines
// (columns) as one such matrix covers.
type tiled struct {
	tiling
	images, height, width, in, out int
	down, right                    int  // blocks
	across                         bool // the images lie side by side
}

const wide = 16 // pixels, from which on blocks are cut and tiles are 4×4

// tile finds how to convolve images [n, height, width, in], or false where it is not
// worth while: the picking costs as much for every channel. A tile of 4×4 takes a
// quarter of the multiplications and rounds eleven times as much as sums of nine taps do,
// one of 2×2 takes 4/9 and rounds four times as much.
func (convolution) tile(x *Node, out int) (c tiled, ok bool) {
	d := x.Shape().Dimensions
	c = tiled{images: d[0], height: d[1], width: d[2], in: d[3], out: out, down: 1, right: 1}
	if c.tiling = tile(0, 1, -1); min(c.height, c.width) >= wide {
		const root = 1.41421356237309504880168872420969807856967187537694
		c.tiling = tile(0, root/2, -root/2, root, -root)
		c.down, c.right = c.blocks(c.height), c.blocks(c.width)
	}
	weights := len(c.pixels) * len(c.pixels) * c.in * out
	c.across = c.down*c.right == 1 && weights > 8*c.height*c.width*(c.in+out)
	side := max(c.height/c.down, c.width/c.right)
	ok = 8*side <= len(c.results)*min(c.in, out)
	if ok && min(c.height, c.width) >= wide && max(c.in, out) <= 64 {
		c.down, c.right = c.pairs(c.height, c.down), c.pairs(c.width, c.right)
	}
	return c, ok
}

// blocks cuts n pixels into as many as there can be.
func (t tiling) blocks(n int) int {
	for b := n / wide; b > 1; b-- {
		if n%(b*len(t.results)) == 0 {
			return b
		}
	}
	return 1
}

// pairs cuts blocks of many pixels further, into pairs of tiles, if that goes. Smaller
// matrices pick them, but every block repeats the weights: of 64 channels that pays, of
// 128 it does not.
func (t tiling) pairs(n, blocks int) int {
	if pair := 2 * len(t.results); n/blocks > wide && n%pair == 0 {
		return n / pair
	}
	return blocks
}

// pick returns a matrix of the pixels of n for every product, tile by tile. Beyond them
// are zeros, or one more where they are beside others.
func (t tiling) pick(n int, beside bool) (rows [][]float64) {
	first, length := -1, n
	if beside {
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

// unite returns a matrix of every product, tile by tile, for each of n results, and of
// so many ones behind them.
func (t tiling) unite(n, ones int) (rows [][]float64) {
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

// weights turns [out, in, 3, 3] into a list of matrices, of the products to the right and
// in each of them down: [out, in], by half a turn if that is asked for, or else [in, out].
// A large weight stays [out, in], as its transposition would take long.
func (c tiled) weights(w *Node, turned bool) *Node {
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

func matrix(like *Node, rows [][]float64) *Node {
	return graph.ConstAsDType(like.Graph(), like.DType(), rows)
}

// convolve adds a bias unless that is nil. The weight is [out, in, 3, 3]; turned by half
// a turn it is [in, out, 3, 3].
func (c tiled) convolve(x, w, bias *Node, turned bool) *Node {
	multiply := product
	if !turned && c.across {
		multiply = productTransposed
	}
	y := c.gather(c.multiply(c.spread(x), c.weights(w, turned), multiply), bias)
	if c.across {
		y = graph.TransposeAllAxes(graph.Reshape(y, c.height, c.width, c.images, c.out), 2, 0, 1, 3)
	}
	return graph.Reshape(y, c.images, c.height, c.width, c.out)
}

// lists says how many lists of images there are, and how many lie side by side in each.
func (c tiled) lists() (lists, together int) {
	if c.across {
		return 1, c.images
	}
	return c.images, 1
}

// spread returns, of each product to the right, matrices [tiles, in] for the blocks down
// and in each of them for the products down.
func (c tiled) spread(x *Node) (parts []*Node) {
	lists, together := c.lists()
	if c.across {
		x = graph.TransposeAllAxes(x, 1, 2, 0, 3)
	}
	x = halo(graph.Reshape(x, lists*c.height, c.width, together*c.in), c.right)
	right := c.pick(c.width/c.right, c.right > 1)
	down := repeat(matrix(x, c.pick(c.height/c.down, c.down > 1)), lists*c.down)
	tiles := len(right) / len(c.pixels)
	for j := range c.pixels {
		part := product(repeat(matrix(x, right[j*tiles:(j+1)*tiles]), x.Shape().Dim(0)), x)
		part = product(down, halo(graph.Reshape(part, lists, c.height, -1), c.down))
		parts = append(parts, graph.Reshape(part, lists*c.down*len(c.pixels), -1, c.in))
	}
	return parts
}

// multiply returns the sums over the channels. Weights that outnumber the pixels stay
// together, and the pixels are put together.
func (c tiled) multiply(parts []*Node, u *Node, multiply func(a, b *Node) *Node) (sums []*Node) {
	p := len(parts)
	if c.across && u.Shape().Size() > p*parts[0].Shape().Size() {
		all := multiply(graph.Concatenate(parts, 0), u)
		for j := range p {
			sums = append(sums, graph.Slice(all, graph.AxisRange(j*p, (j+1)*p)))
		}
		return sums
	}
	for j, part := range parts {
		these := repeat(graph.Slice(u, graph.AxisRange(j*p, (j+1)*p)), part.Shape().Dim(0)/p)
		sums = append(sums, multiply(part, graph.Reshape(these, part.Shape().Dim(0), u.Shape().Dim(1), -1)))
	}
	return sums
}

// gather makes results of the sums, and adds the bias as one product more.
func (c tiled) gather(sums []*Node, bias *Node) *Node {
	lists, together := c.lists()
	down := repeat(matrix(sums[0], c.unite(c.height/c.down, 0)), lists*c.down)
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
	right := repeat(matrix(sums[0], c.unite(c.width/c.right, ones)), lines)
	return product(right, graph.Concatenate(sums, 1))
}

// halo cuts the lines of x [lists, lines, rest] into blocks, with the lines beside
// unless there is but one.
func halo(x *Node, blocks int) *Node {
	d := x.Shape().Dimensions
	if blocks == 1 {
		return x
	}
	n, all := d[1]/blocks, graph.AxisRange()
	x = graph.Reshape(x, d[0], blocks, n, d[2])
	zero := zeros(x, d[0], 1, 1, d[2])
	above := graph.Slice(x, all, graph.AxisRange(0, blocks-1), graph.AxisElem(n-1), all)
	below := graph.Slice(x, all, graph.AxisRange(1, blocks), graph.AxisElem(0), all)
	above, below = graph.Concatenate([]*Node{zero, above}, 1), graph.Concatenate([]*Node{below, zero}, 1)
	return graph.Reshape(graph.Concatenate([]*Node{above, x, below}, 2), d[0]*blocks, n+2, d[2])
}

// repeat makes a list of a matrix, or of matrices, again and again.
func repeat(x *Node, n int) *Node {
	if x.Rank() == 2 {
		x = graph.Reshape(x, 1, x.Shape().Dim(0), x.Shape().Dim(1))
	}
	list := make([]*Node, n)
	for i := range list {
		list[i] = x
	}
	return graph.Concatenate(list, 0)
}
