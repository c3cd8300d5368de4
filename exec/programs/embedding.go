package programs

import (
	"psim/costmodel/arch"

	"github.com/gomlx/gomlx/core/graph"
)

// embedding adds the rows of two tables, by token and by position.
type embedding struct {
	samples, sequence int
	tokens, positions string // parameters
}

func (l embedding) forward(s *scope, x *Node) *Node {
	s.save("tokens", arch.ForwardToWeight, x)
	words := graph.Gather(s.parameter(l.tokens), graph.Reshape(x, -1, 1))
	hidden := words.Shape().Dim(1)
	places := graph.Slice(s.parameter(l.positions), graph.AxisRange(0, l.sequence))
	sum := graph.Add(graph.Reshape(words, l.samples, -1), graph.Reshape(places, 1, -1))
	return graph.Reshape(sum, -1, hidden)
}

func (embedding) input(s *scope, dy *Node) *Node {
	s.keep("embed.output_gradient", dy)
	return nil
}

func (l embedding) weight(s *scope) {
	x, dy := s.saved("tokens"), s.saved("embed.output_gradient")
	s.rows[l.tokens] = rows{graph.Reshape(x, -1, 1), dy}
	s.gradient(l.positions, l.places(dy, s.shape(l.positions)))
}

// places sums over the samples; positions behind the sequence have none.
func (l embedding) places(dy *Node, table []int) *Node {
	sum := columnSums(graph.Reshape(dy, l.samples, -1))
	sum = graph.Reshape(sum, l.sequence, -1)
	if table[0] == l.sequence {
		return sum
	}
	return graph.Concatenate([]*Node{sum, zeros(dy, table[0]-l.sequence, table[1])}, 0)
}

func zeros(like *Node, dims ...int) *Node {
	return graph.BroadcastToDims(graph.ScalarZero(like.Graph(), like.DType()), dims...)
}
