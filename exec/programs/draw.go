package programs

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"psim/costmodel/network"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
)

// Draw is what the dropout masks of a microbatch are drawn from. Each sample
// has masks of its own, which depend on nothing else than these numbers and the
// names of layer and place: however a network is split into stages and a batch
// into microbatches, and as often as a forward is repeated, they are the same.
//
// The host makes them, before a program runs, at about a nanosecond for an
// element: 3 ms for a GPT-2 block whose forward takes 400.
type Draw struct {
	Seed   uint64
	Step   int // of the training
	Sample int // the microbatch's first one, counted over the step's whole batch
}

// Keep says which elements of the first sample a dropout keeps: each with
// probability 1 - rate, rounded to 1/65536.
func (d Draw) Keep(keep []bool, layer, place string, rate float64) {
	key := fmt.Sprintf("%s/%s, step %d, sample %d", layer, place, d.Step, d.Sample)
	source := rand.NewPCG(d.Seed, hash(key))
	threshold := uint64(math.Round(rate * (1 << 16)))
	for len(keep) >= 4 {
		word := source.Uint64()
		keep[0] = word&0xffff >= threshold
		keep[1] = word>>16&0xffff >= threshold
		keep[2] = word>>32&0xffff >= threshold
		keep[3] = word>>48 >= threshold
		keep = keep[4:]
	}
	word := source.Uint64()
	for i := range keep {
		keep[i] = word>>(16*i)&0xffff >= threshold
	}
}

// A mask is one dropout of a layer, for all samples of a microbatch.
type mask struct {
	dropout
	layer      string
	dimensions []int
}

// keep makes the mask, sample by sample.
func (m mask) keep(draw Draw, samples int) []bool {
	keep := make([]bool, shapes.Make(dtypes.Bool, m.dimensions...).Size())
	each := len(keep) / samples
	for i := range samples {
		draw.Keep(keep[i*each:(i+1)*each], m.layer, m.place, m.rate)
		draw.Sample++
	}
	return keep
}

// draw uploads the masks that a program takes and adds them to what it is
// given. One that the program hands on is counted by the device, others are
// gone when it has run, as its temporaries are. The caller releases them.
func (s *Stage) draw(d *Device, p *program, draw Draw, given map[string]*Tensor) (masks List, err error) {
	for i, name := range p.inputs {
		if !isMask(name) {
			continue
		}
		m := s.masks[name]
		t, err := fromFlat(d, m.keep(draw, s.options.Samples), shapes.Make(dtypes.Bool, m.dimensions...), p.returns(i))
		if err != nil {
			masks.Release()
			return nil, fmt.Errorf("%s: the mask of %s: %w", p.name, m.place, err)
		}
		given[name] = t
		masks = append(masks, t)
	}
	return masks, nil
}

func isMask(name string) bool { return strings.HasPrefix(name, maskKey) }

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
	s.save(l.place+".mask", network.ForwardToInput, mask)
	return l.apply(x, mask)
}

func (l dropout) input(s *scope, dy *Node) *Node {
	return l.apply(dy, s.saved(l.place+".mask"))
}

func (l dropout) apply(x, mask *Node) *Node {
	return graph.Where(mask, graph.MulScalar(x, 1/(1-l.rate)), graph.ScalarZero(x.Graph(), x.DType()))
}
