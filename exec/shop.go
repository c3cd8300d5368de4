package exec

import (
	"fmt"

	"psim/costmodel/arch"
	"psim/exec/programs"

	"github.com/gomlx/compute"
)

// shop compiles programs, and each only once for a backend, whose devices then
// share it. It owns them all.
type shop struct {
	job         Job
	segments    map[segmentKey]*programs.Stage
	arithmetics map[compute.Backend]*programs.Arithmetic
	optimizers  map[optimizerKey]*programs.Updates
}

type segmentKey struct {
	backend compute.Backend
	first   string // layer
	layers  int
	samples int
}

type optimizerKey struct {
	backend compute.Backend
	tensors string
}

func newShop(job Job) *shop {
	return &shop{
		job: job, segments: map[segmentKey]*programs.Stage{},
		arithmetics: map[compute.Backend]*programs.Arithmetic{}, optimizers: map[optimizerKey]*programs.Updates{},
	}
}

// segment compiles layers for every size of microbatch.
func (s *shop) segment(b compute.Backend, layers []arch.Layer, part uint16) (*segment, error) {
	g := &segment{bySize: map[int]*programs.Stage{}, part: part}
	return g, s.compile(b, layers, g, s.job.Samples)
}

// compile adds the programs of a segment for sizes of microbatches.
func (s *shop) compile(b compute.Backend, layers []arch.Layer, g *segment, samples []int) error {
	for _, n := range samples {
		key := segmentKey{b, layers[0].Name, len(layers), n}
		if s.segments[key] == nil {
			made, err := programs.Compile(b, layers, programs.Options{Samples: n, Recompute: s.job.Recompute})
			if err != nil {
				return err
			}
			s.segments[key] = made
		}
		g.bySize[n] = s.segments[key]
	}
	return nil
}

// arithmetic of a backend.
func (s *shop) arithmetic(b compute.Backend) *programs.Arithmetic {
	if s.arithmetics[b] == nil {
		s.arithmetics[b] = programs.NewArithmetic(b)
	}
	return s.arithmetics[b]
}

// updates compiles the optimizer's steps of tensors.
func (s *shop) updates(b compute.Backend, tensors []arch.Tensor) (*programs.Updates, error) {
	key := optimizerKey{b, fmt.Sprint(tensors)}
	if s.optimizers[key] == nil {
		made, err := programs.NewUpdates(b, tensors, s.job.Optimizer, false)
		if err != nil {
			return nil, err
		}
		s.optimizers[key] = made
	}
	return s.optimizers[key], nil
}

// close frees all programs.
func (s *shop) close() {
	for _, p := range s.segments {
		p.Close()
	}
	for _, p := range s.arithmetics {
		p.Close()
	}
	for _, p := range s.optimizers {
		p.Close()
	}
}
