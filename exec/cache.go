package exec

import (
	"fmt"

	"github.com/gomlx/compute"

	"psim/costmodel/network"
	"psim/costmodel/stages"
	"psim/exec/programs"
)

// A programCache compiles programs, and each only once for a backend, whose
// devices then share it. It owns them all.
type programCache struct {
	job         Job
	segments    map[segmentKey]*programs.Stage
	arithmetics map[compute.Backend]*programs.Arithmetic
	optimizers  map[optimizerKey]*programs.Updates
}

type segmentKey struct {
	backend compute.Backend
	first   string // layer
	layers  int
	samples int64
	still   bool // without dropout
}

type optimizerKey struct {
	backend compute.Backend
	tensors string
}

func newProgramCache(job Job) *programCache {
	return &programCache{
		job: job, segments: map[segmentKey]*programs.Stage{},
		arithmetics: map[compute.Backend]*programs.Arithmetic{}, optimizers: map[optimizerKey]*programs.Updates{},
	}
}

// segment compiles layers for every size of microbatch.
func (c *programCache) segment(b compute.Backend, planned stages.Segment) (*segment, error) {
	return c.compiled(b, planned, false)
}

// compiled does so with layers whose dropout is left out if they are still.
func (c *programCache) compiled(b compute.Backend, planned stages.Segment, still bool) (*segment, error) {
	g, layers := &segment{bySize: map[int64]*programs.Stage{}, part: planned.Part}, planned.Layers
	for _, n := range c.job.Sizes {
		key := segmentKey{b, layers[0].Name, len(layers), n, still}
		if c.segments[key] == nil {
			made, err := programs.Compile(b, layers, programs.Options{Samples: int(n), Recompute: c.job.Recompute, TwoPass: c.job.Training.TwoPass()})
			if err != nil {
				return nil, err
			}
			c.segments[key] = made
		}
		g.bySize[n] = c.segments[key]
	}
	return g, nil
}

func (c *programCache) arithmetic(b compute.Backend) *programs.Arithmetic {
	if c.arithmetics[b] == nil {
		c.arithmetics[b] = programs.NewArithmetic(b)
	}
	return c.arithmetics[b]
}

func (c *programCache) updates(b compute.Backend, tensors []network.Tensor) (*programs.Updates, error) {
	key := optimizerKey{b, fmt.Sprint(tensors)}
	if c.optimizers[key] == nil {
		made, err := programs.NewUpdates(b, tensors, c.job.Optimizer)
		if err != nil {
			return nil, err
		}
		c.optimizers[key] = made
	}
	return c.optimizers[key], nil
}

func (c *programCache) close() {
	for _, p := range c.segments {
		p.Close()
	}
	for _, p := range c.arithmetics {
		p.Close()
	}
	for _, p := range c.optimizers {
		p.Close()
	}
}
