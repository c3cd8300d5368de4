package programs

import (
	"psim/costmodel/arch"

	"github.com/gomlx/gomlx/core/graph"
)

// relu saves its output, which is mostly the next layer's saved input as well.
type relu struct{ name string }

func (l relu) forward(s *scope, x *Node) *Node {
	y := graph.MaxScalar(x, 0.0)
	s.save(l.name+".output", arch.ForwardToInput, y)
	return y
}

func (l relu) input(s *scope, dy *Node) *Node {
	y := s.saved(l.name + ".output")
	zero := graph.ScalarZero(y.Graph(), y.DType())
	return graph.Where(graph.GreaterThan(y, zero), dy, zero)
}

func (relu) weight(*scope) {}

// residual adds its input to what its modules make of it.
type residual struct{ chain }

func (r residual) forward(s *scope, x *Node) *Node { return graph.Add(x, r.chain.forward(s, x)) }

func (r residual) input(s *scope, dy *Node) *Node { return graph.Add(dy, r.chain.input(s, dy)) }

// chain runs modules one after another.
type chain []module

func (c chain) forward(s *scope, x *Node) *Node {
	for _, m := range c {
		x = m.forward(s, x)
	}
	return x
}

func (c chain) input(s *scope, dy *Node) *Node {
	for i := len(c) - 1; i >= 0; i-- {
		dy = c[i].input(s, dy)
	}
	return dy
}

func (c chain) weight(s *scope) {
	for i := len(c) - 1; i >= 0; i-- {
		c[i].weight(s)
	}
}
