package programs

import (
	"psim/costmodel/arch"

	"github.com/gomlx/gomlx/core/graph"
)

// dropout zeroes elements where its mask says so and scales the others. Its
// mask comes from the host (Draw), so that it is the same on any backend.
type dropout struct {
	place string // in the layer
	rate  float64
}

// dropouts returns a dropout, or nothing where the rate is 0.
func dropouts(place string, rate float64) chain {
	if rate == 0 {
		return nil
	}
	return chain{dropout{place, rate}}
}

func (l dropout) forward(s *scope, x *Node) *Node {
	mask := s.mask(l, x.Shape().Dimensions)
	s.save(l.place+".mask", arch.ForwardToInput, mask)
	return l.apply(x, mask)
}

func (l dropout) input(s *scope, dy *Node) *Node {
	return l.apply(dy, s.saved(l.place+".mask"))
}

func (dropout) weight(*scope) {}

func (l dropout) apply(x, mask *Node) *Node {
	return graph.Where(mask, graph.MulScalar(x, 1/(1-l.rate)), graph.ScalarZero(x.Graph(), x.DType()))
}
