package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"psim/costmodel/network"
	"psim/exec/backend"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
)

// A MaskSeed is what the dropout masks of a microbatch are drawn from. Each sample has masks of
// its own, which depend only on these numbers and on the names of layer and place. So they are
// the same however the network is split into stages and the batch into microbatches, and
// however often a forward is repeated.
//
// The host makes them before a program runs, at about a nanosecond for an element: 3 ms for a
// GPT-2 block whose forward takes 400.
type MaskSeed struct {
	Seed   uint64
	Step   int // of the training
	Sample int // the first of the microbatch, counted over the step's whole batch
}

// Keep says which elements of the first sample a dropout keeps: each with probability 1 - rate,
// rounded to 1/65536.
func (d MaskSeed) Keep(keep []bool, layer, place string, rate float64) {
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

// A mask belongs to one dropout of a layer, and has all samples of a microbatch.
type mask struct {
	dropout
	layer      string
	dimensions []int
}

// keep makes the mask, sample by sample.
func (m mask) keep(seed MaskSeed, samples int) []bool {
	keep := make([]bool, shapes.Make(dtypes.Bool, m.dimensions...).Size())
	each := len(keep) / samples
	for i := range samples {
		seed.Keep(keep[i*each:(i+1)*each], m.layer, m.place, m.rate)
		seed.Sample++
	}
	return keep
}

// addMasks uploads the masks that a program takes, and adds them to its inputs. The device
// counts a mask that the program returns; others are gone when it has run, as its temporaries
// are. The caller releases them.
func (s *Programs) addMasks(d *backend.LocalDevice, c call) (masks backend.Tensors, err error) {
	for i, name := range c.program.Inputs {
		if !isMask(name) {
			continue
		}
		m := s.masks[name]
		shape := shapes.Make(dtypes.Bool, m.dimensions...)
		t, err := backend.FromFlat(d, m.keep(c.seed, s.options.Samples), shape, c.program.Returns(i))
		if err != nil {
			masks.Release()
			return nil, fmt.Errorf("%s: the mask of %s: %w", c.program.Name, m.place, err)
		}
		c.given[name] = t
		masks = append(masks, t)
	}
	return masks, nil
}

// isMask reports whether an input of a program is a mask.
func isMask(name string) bool { return strings.HasPrefix(name, maskKey) }

// dropout zeroes the elements that its mask does not keep, and scales the others. The mask
// comes from the host (MaskSeed), so it is the same on any backend.
type dropout struct {
	place string // in the layer
	rate  float64
}

// dropoutChain returns a dropout, or nil if the rate is 0.
func dropoutChain(place string, rate float64) chain {
	if rate == 0 {
		return nil
	}
	return chain{dropout{place, rate}}
}

func (l dropout) forward(s *scope, x *graph.Node) *graph.Node {
	mask := s.mask(l, x.Shape().Dimensions)
	s.save(l.place+".mask", network.ForwardToInput, mask)
	return l.apply(x, mask)
}

func (l dropout) input(s *scope, dy *graph.Node) *graph.Node {
	return l.apply(dy, s.saved(l.place+".mask"))
}

func (l dropout) apply(x, mask *graph.Node) *graph.Node {
	return graph.Where(mask, graph.MulScalar(x, 1/(1-l.rate)), graph.ScalarZero(x.Graph(), x.DType()))
}
