package kernels

import (
	"slices"

	"psim/costmodel/network"

	"github.com/gomlx/gomlx/core/graph"
)

// linear multiplies rows by a weight and adds a bias.
type linear struct {
	name       string // of its buffers
	weightName string
	biasName   string // "" if there is none
	outFirst   bool   // the weight is [out, in], as in nn.Linear
	first      bool   // no input gradient is needed
}

func (l linear) forward(s *scope, x *graph.Node) *graph.Node {
	if s.trains(l.weightName) {
		s.save(l.name+".input", network.ForwardToWeight, x)
	}
	y := l.times(x, s.parameter(l.weightName), !l.outFirst)
	if l.biasName != "" {
		y = graph.Add(y, repeatRows(s.parameter(l.biasName), y.Shape().Dim(0)))
	}
	return y
}

func (l linear) input(s *scope, dy *graph.Node) *graph.Node {
	if s.trains(l.weightName) {
		s.keep(l.name+".output_gradient", dy)
	}
	if l.first {
		return nil
	}
	return l.times(dy, s.parameter(l.weightName), l.outFirst)
}

func (l linear) weight(s *scope) {
	if !s.trains(l.weightName) {
		return
	}
	x, dy := s.saved(l.name+".input"), s.saved(l.name+".output_gradient")
	if l.outFirst {
		s.gradient(l.weightName, outer(dy, x))
	} else {
		s.gradient(l.weightName, outer(x, dy))
	}
	if l.biasName != "" {
		s.gradient(l.biasName, graph.Reshape(columnSums(dy), -1))
	}
}

// times returns x·w, or x·wᵀ, in the layout that the backend's kernels expect.
func (linear) times(x, w *graph.Node, rowsFirst bool) *graph.Node {
	if rowsFirst {
		return product(x, w)
	}
	return productTransposed(x, w)
}

// product returns a·b of two matrices, or of each pair in two lists of matrices.
func product(a, b *graph.Node) *graph.Node {
	last := a.Rank() - 1
	return graph.Dot(a, b).General([]int{last}, leading(last-1), []int{last - 1}, leading(last-1))
}

// productTransposed returns a·bᵀ of two matrices, or of each pair in two lists of matrices.
func productTransposed(a, b *graph.Node) *graph.Node {
	last := a.Rank() - 1
	return graph.Dot(a, b).General([]int{last}, leading(last-1), []int{last}, leading(last-1))
}

// outer returns aᵀ·b for matrices with the same number of rows. Either a or the result has to
// be transposed; it takes the smaller.
func outer(a, b *graph.Node) *graph.Node {
	rows, m, n := a.Shape().Dim(0), a.Shape().Dim(1), b.Shape().Dim(1)
	if rows*m <= rows*n+m*n {
		return product(graph.Transpose(a, 0, 1), b)
	}
	return graph.Transpose(product(graph.Transpose(b, 0, 1), a), 0, 1)
}

// columnSums turns [m, n] into [1, n] by a product with ones. That is fast, and more exact than
// ReduceSum, which adds in order.
func columnSums(x *graph.Node) *graph.Node {
	return product(ones(x, 1, x.Shape().Dim(0)), x)
}

// rowSums sums along the last axis and keeps all axes.
func rowSums(x *graph.Node) *graph.Node {
	dims := x.Shape().Dimensions
	last := dims[len(dims)-1]
	sums := productTransposed(graph.Reshape(x, -1, last), ones(x, 1, last))
	return graph.Reshape(sums, append(append([]int{}, dims[:len(dims)-1]...), 1)...)
}

// repeatRows returns n rows with the values of x, by copying. To add one row to many, the
// Go backend goes number by number, which takes four times as long as copies and an addition.
func repeatRows(x *graph.Node, n int) *graph.Node {
	if formOf(x).broadcast {
		return graph.BroadcastToDims(graph.Reshape(x, 1, -1), n, x.Shape().Size())
	}
	const few = 64 // rows; the copies of more are copied in turn
	row, rest := graph.Reshape(x, 1, -1), n%few
	var list []*graph.Node
	if n >= few {
		block := graph.Reshape(repeatMatrix(row, few), few, -1)
		list = slices.Repeat([]*graph.Node{block}, n/few)
	}
	return graph.Concatenate(append(list, slices.Repeat([]*graph.Node{row}, rest)...), 0)
}

// repeatColumns returns n columns with the values of the last axis of x, which is 1 long. The Go backend
// goes number by number there too, and products with ones are faster.
func repeatColumns(x *graph.Node, n int) *graph.Node {
	dims := append([]int{}, x.Shape().Dimensions...)
	dims[len(dims)-1] = n
	if formOf(x).broadcast {
		return graph.BroadcastToDims(x, dims...)
	}
	x = graph.Reshape(x, -1, 1)
	m := x.Shape().Dim(0)
	if m < 2 {
		return graph.Reshape(product(x, ones(x, 1, n)), dims...)
	}
	var halves []*graph.Node // whose copy clears the registers, as in zeroAfterCopy
	for _, rows := range [][2]int{{0, m / 2}, {m / 2, m}} {
		halves = append(halves, product(graph.Slice(x, graph.AxisRange(rows[0], rows[1])), ones(x, 1, n)))
	}
	return graph.Reshape(graph.Concatenate(halves, 0), dims...)
}

func ones(like *graph.Node, dims ...int) *graph.Node {
	return graph.BroadcastToDims(graph.ScalarOne(like.Graph(), like.DType()), dims...)
}

func leading(n int) []int {
	axes := make([]int, n)
	for i := range axes {
		axes[i] = i
	}
	return axes
}

// embedding adds the rows of two tables, by token and by position.
type embedding struct {
	samples, sequence int
	tokens, positions string // parameters
}

func (l embedding) forward(s *scope, x *graph.Node) *graph.Node {
	s.save("tokens", network.ForwardToWeight, x)
	words := graph.Gather(s.parameter(l.tokens), graph.Reshape(x, -1, 1))
	hidden := words.Shape().Dim(1)
	places := graph.Slice(s.parameter(l.positions), graph.AxisRange(0, l.sequence))
	sum := graph.Add(graph.Reshape(words, l.samples, -1), repeatRows(places, l.samples))
	return graph.Reshape(sum, -1, hidden)
}

func (embedding) input(s *scope, dy *graph.Node) *graph.Node {
	s.keep("embed.output_gradient", dy)
	return nil
}

func (l embedding) weight(s *scope) {
	x, dy := s.saved("tokens"), s.saved("embed.output_gradient")
	s.rows[l.tokens] = rows{graph.Reshape(x, -1, 1), dy}
	s.gradient(l.positions, l.places(dy, s.shape(l.positions)))
}

// places sums over the samples. Positions behind the sequence get zeros.
func (l embedding) places(dy *graph.Node, table []int) *graph.Node {
	sum := columnSums(graph.Reshape(dy, l.samples, -1))
	sum = graph.Reshape(sum, l.sequence, -1)
	if table[0] == l.sequence {
		return sum
	}
	return graph.Concatenate([]*graph.Node{sum, zeros(dy, table[0]-l.sequence, table[1])}, 0)
}

func zeros(like *graph.Node, dims ...int) *graph.Node {
	return graph.BroadcastToDims(graph.ScalarZero(like.Graph(), like.DType()), dims...)
}

// zeroAfterCopy returns a zero, after a copy that makes the next operations fast. A matrix
// product leaves the wide registers of the processor in use. Until a copy clears them, maxima
// take five times as long and exponentials twice as long. The Go backend runs nodes in their
// order, and runs equal nodes once, so this copies a few numbers of x.
func zeroAfterCopy(x *graph.Node) *graph.Node {
	if formOf(x).broadcast {
		return graph.ScalarZero(x.Graph(), x.DType())
	}
	const enough = 128 // numbers, so that the copy uses wide registers
	dims := x.Shape().Dimensions
	ranges := make([]graph.SliceAxisSpec, len(dims))
	for axis, need := len(dims)-1, enough; axis >= 0; axis-- {
		n := min(need, dims[axis])
		ranges[axis], need = graph.AxisRange(0, n), (need+n-1)/n
	}
	few := graph.Reshape(graph.Slice(x, ranges...), -1)
	few = graph.Slice(graph.Concatenate([]*graph.Node{few, few}, 0), graph.AxisElem(0))
	return graph.ConvertDType(graph.Reshape(graph.GreaterThan(few, few)), x.DType())
}
