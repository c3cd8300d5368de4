package kernels

import (
	"math"
	"os"
	"strings"
	"testing"

	"psim/costmodel/network"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
)

// A form is a way to compute a kernel: another than the one in use has modules in the place of some.
type form struct {
	name string
	of   func(module) module // nil for the form in use
}

// BenchmarkForms times forms of the kernels that are slower than PyTorch's, as BenchmarkKernels times the
// form in use. tools/pytorch -forms makes a table of it.
func BenchmarkForms(b *testing.B) {
	if !strings.HasPrefix(os.Getenv("PSIM_BACKEND"), "xla") {
		b.Skip("forms are for a compiler: make forms")
	}
	tried := triedForms()
	for _, k := range kernels(b, testing.Short()) {
		if tried[k.name] != nil {
			b.Run(k.name+"/memory", k.benchmark) // the first runs of a process wait for it
		}
		for _, f := range tried[k.name] {
			k.form = f
			b.Run(k.name+"/"+f.name, k.benchmark)
		}
	}
}

// swap puts the form's modules into a chain.
func (f form) swap(c chain) chain {
	if f.of == nil {
		return c
	}
	var swapped chain
	for _, m := range c {
		switch m := m.(type) {
		case residual:
			swapped = append(swapped, residual{f.swap(m.chain)})
		case chain:
			swapped = append(swapped, f.swap(m))
		default:
			swapped = append(swapped, f.of(m))
		}
	}
	return swapped
}

// newForm returns a form in which one kind of module is computed otherwise.
func newForm[M module](name string, by func(M) module) form {
	return form{name, func(m module) module {
		if of, ok := m.(M); ok {
			return by(of)
		}
		return m
	}}
}

// triedForms has the forms by kernel; the first is the one in use.
func triedForms() map[string][]form {
	used := form{"in use", nil}
	norms := []form{used,
		normBy("products with ones", normForm{rows: rowSums, columns: columnSums}),
		normBy("sums along axes", normForm{rows: alongRows, columns: alongColumns}),
		normBy("one pass, of squares", normForm{rows: rowsByPieces, columns: columnsByPieces, squares: true}),
	}
	gelus := []form{used, geluBy("tanh", gateTanh, false), geluBy("exponential", gateExp, false),
		geluBy("backward from y ÷ x", gateLogistic, true)}
	attentions := []form{used,
		attentionBy("softmax sums by products", attentionForm{softmax: softmaxByProduct}),
		attentionBy("maxima by pieces", attentionForm{softmax: softmaxByPieces}),
		attentionBy("mask by choice", attentionForm{softmax: func(x *graph.Node) *graph.Node { return graph.Softmax(x) },
			choose: true}),
	}
	linears := []form{used,
		newForm("products turned round", func(l linear) module { return turnedLinear{l} }),
		newForm("weights copied transposed", func(l linear) module { return copiedLinear{l} }),
	}
	tiles := newTiling(0, 1, -1)
	convolutions := []form{used,
		convolutionBy("the backend's own alone", convolutionForm{f: ownForward, i: ownInput, w: ownWeight}),
		convolutionBy("products with copies of neighbours", convolutionForm{f: copiesForward, i: copiesInput, w: copiesWeight}),
		convolutionBy("tiles of 2×2 (Winograd)", convolutionForm{f: tilesForward(tiles), i: tilesInput(tiles), w: copiesWeight}),
	}
	return map[string][]form{
		"norm": norms, "GELU": gelus, "attention": attentions, "block": linears, "head": linears, "step": linears,
		"conv56": convolutions, "conv28": convolutions, "conv14": convolutions, "conv7": convolutions,
		"vgg": convolutions,
	}
}

type normForm struct {
	layerNorm
	rows, columns func(*graph.Node) *graph.Node
	squares       bool // the variance is the mean of squares without the square of the mean
}

func normBy(name string, f normForm) form {
	return newForm(name, func(l layerNorm) module {
		f.layerNorm = l
		return f
	})
}

func (l normForm) mean(x *graph.Node) *graph.Node {
	return graph.MulScalar(l.rows(x), 1/float64(x.Shape().Dim(-1)))
}

func (l normForm) centre(x *graph.Node) (centred, inverse *graph.Node) {
	middle := l.mean(x)
	centred = graph.Sub(x, middle)
	var variance *graph.Node
	if l.squares {
		variance = graph.Sub(l.mean(graph.Mul(x, x)), graph.Mul(middle, middle))
	} else {
		variance = l.mean(graph.Mul(centred, centred))
	}
	return centred, graph.Reciprocal(graph.Sqrt(graph.AddScalar(variance, normEpsilon)))
}

func (l normForm) forward(s *scope, x *graph.Node) *graph.Node {
	s.save(l.name+".input", network.ForwardToInput, x)
	centred, inverse := l.centre(x)
	scaled := graph.Mul(graph.Mul(centred, inverse), row(s.parameter(l.key+".weight")))
	return graph.Add(scaled, row(s.parameter(l.key+".bias")))
}

func (l normForm) input(s *scope, dy *graph.Node) *graph.Node {
	centred, inverse := l.centre(s.saved(l.name + ".input"))
	normed := graph.Mul(centred, inverse)
	s.gradient(l.key+".weight", graph.Reshape(l.columns(graph.Mul(dy, normed)), -1))
	s.gradient(l.key+".bias", graph.Reshape(columnSums(dy), -1))
	scaled := graph.Mul(dy, row(s.parameter(l.key+".weight")))
	slope, shift := l.mean(graph.Mul(scaled, normed)), l.mean(scaled)
	return graph.Mul(inverse, graph.Sub(graph.Sub(scaled, shift), graph.Mul(normed, slope)))
}

func alongRows(x *graph.Node) *graph.Node       { return graph.ReduceAndKeep(x, graph.ReduceSum, -1) }
func alongColumns(x *graph.Node) *graph.Node    { return graph.ReduceSum(x, 0) }
func rowsByPieces(x *graph.Node) *graph.Node    { return rowSums(addPieces(x, 1)) }
func columnsByPieces(x *graph.Node) *graph.Node { return columnSums(addPieces(x, 0)) }

type geluForm struct {
	gelu
	gate     func(x, square *graph.Node, times float64) *graph.Node
	quotient bool // the backward's gate is y ÷ x
}

func geluBy(name string, gate func(x, square *graph.Node, times float64) *graph.Node, quotient bool) form {
	return newForm(name, func(l gelu) module { return geluForm{l, gate, quotient} })
}

func (l geluForm) forward(s *scope, x *graph.Node) *graph.Node {
	s.save(l.name+".input", network.ForwardToInput, x)
	return graph.Mul(x, l.gate(x, graph.Mul(x, x), 1))
}

func (l geluForm) input(s *scope, dy *graph.Node) *graph.Node {
	x, y := s.saved(l.name+".input"), s.saved(l.output)
	square := graph.Mul(x, x)
	slope := graph.AddScalar(graph.MulScalar(square, 3*geluCubic*twice), twice)
	rest := graph.OnePlus(graph.Mul(graph.Sub(x, y), slope))
	if !l.quotient {
		return graph.Mul(dy, graph.Mul(l.gate(x, square, 1), rest))
	}
	half := graph.Scalar(x.Graph(), x.DType(), 0.5)
	tiny := graph.LessThan(square, graph.Scalar(x.Graph(), x.DType(), 1e-30))
	return graph.Mul(dy, graph.Mul(graph.Where(tiny, half, graph.Div(y, x)), rest))
}

// twice is 2·√(2/π).
var twice = 2 * math.Sqrt(2/math.Pi)

// exponent returns 2u of gelu, so many times.
func exponent(x, square *graph.Node, times float64) *graph.Node {
	return graph.Mul(x, graph.AddScalar(graph.MulScalar(square, times*twice*geluCubic), times*twice))
}

func gateLogistic(x, square *graph.Node, times float64) *graph.Node {
	return graph.Logistic(exponent(x, square, times))
}

func gateTanh(x, square *graph.Node, times float64) *graph.Node {
	return graph.AddScalar(graph.MulScalar(graph.Tanh(exponent(x, square, times/2)), 0.5), 0.5)
}

func gateExp(x, square *graph.Node, times float64) *graph.Node {
	return graph.Reciprocal(graph.OnePlus(graph.Exp(exponent(x, square, -times))))
}

// An attentionForm is an attention without dropout.
type attentionForm struct {
	attention
	softmax func(*graph.Node) *graph.Node
	choose  bool // between scores and the mask, instead of adding it
}

func attentionBy(name string, f attentionForm) form {
	return newForm(name, func(a attention) module {
		f.attention = a
		return f
	})
}

func (a attentionForm) forward(s *scope, x *graph.Node) *graph.Node {
	q := graph.MulScalar(a.split(x, 0), a.scale())
	k, v := a.split(x, 1), a.split(x, 2)
	scores := productTransposed(q, k)
	if a.choose {
		square := shapes.Make(dtypes.Int32, scores.Shape().Dimensions...)
		later := graph.GreaterThan(graph.Iota(x.Graph(), square, 2), graph.Iota(x.Graph(), square, 1))
		scores = graph.Where(later, graph.Scalar(x.Graph(), x.DType(), -1e9), scores)
	} else {
		scores = a.mask(scores)
	}
	p := a.softmax(scores)
	for name, node := range map[string]*graph.Node{"q": q, "k": k, "v": v, "softmax.output": p} {
		s.save("attn."+name, network.ForwardToInput, node)
	}
	s.save("attn.attn_dropout.output", network.ForwardToInput, p)
	return a.join(product(p, v))
}

func softmaxByProduct(x *graph.Node) *graph.Node {
	e := graph.Exp(graph.Sub(x, graph.ReduceAndKeep(x, graph.ReduceMax, -1)))
	return graph.Mul(e, graph.Reciprocal(rowSums(e)))
}

// softmaxByPieces takes maxima of pieces of a row, number by number, and then of what is left.
func softmaxByPieces(x *graph.Node) *graph.Node {
	d := x.Shape().Dimensions
	n := d[len(d)-1]
	top := x
	for n > 8 && n%2 == 0 {
		n /= 2
		all := graph.AxisRange()
		top = graph.Max(graph.Slice(top, all, all, graph.AxisRange(0, n)), graph.Slice(top, all, all, graph.AxisRange(n, 2*n)))
	}
	e := graph.Exp(graph.Sub(x, graph.ReduceAndKeep(top, graph.ReduceMax, -1)))
	return graph.Mul(e, graph.Reciprocal(rowSums(e)))
}

// turnedLinear makes transposed products, and transposes the results.
type turnedLinear struct{ linear }

func (l turnedLinear) forward(s *scope, x *graph.Node) *graph.Node {
	s.save(l.name+".input", network.ForwardToWeight, x)
	return l.addBias(s, l.turned(x, s.parameter(l.weightName), !l.outFirst))
}

func (l turnedLinear) input(s *scope, dy *graph.Node) *graph.Node {
	s.keep(l.name+".output_gradient", dy)
	return l.turned(dy, s.parameter(l.weightName), l.outFirst)
}

func (turnedLinear) turned(x, w *graph.Node, rowsFirst bool) *graph.Node {
	axis := 1
	if rowsFirst {
		axis = 0
	}
	return graph.Transpose(graph.Dot(w, x).General([]int{axis}, nil, []int{1}, nil), 0, 1)
}

func (l linear) addBias(s *scope, y *graph.Node) *graph.Node {
	if l.biasName == "" {
		return y
	}
	return graph.Add(y, repeatRows(s.parameter(l.biasName), y.Shape().Dim(0)))
}

// copiedLinear transposes weights by a copy before it multiplies.
type copiedLinear struct{ linear }

func (l copiedLinear) forward(s *scope, x *graph.Node) *graph.Node {
	s.save(l.name+".input", network.ForwardToWeight, x)
	w := graph.Transpose(s.parameter(l.weightName), 0, 1)
	return l.addBias(s, l.times(x, w, l.outFirst))
}

func (l copiedLinear) input(s *scope, dy *graph.Node) *graph.Node {
	s.keep(l.name+".output_gradient", dy)
	return l.times(dy, graph.Transpose(s.parameter(l.weightName), 0, 1), !l.outFirst)
}
