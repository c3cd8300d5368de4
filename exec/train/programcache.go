package train

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/gomlx/compute"

	"psim/costmodel/network"
	"psim/costmodel/stages"
	"psim/exec/backend"
	"psim/exec/kernels"
	"psim/schedules/graph"
)

// A programCache compiles programs, each only once for a backend, and owns them. Segments may be asked for
// concurrently.
type programCache struct {
	job         Job
	mu          sync.Mutex // guards the map of segments
	segments    map[segmentKey]*compiledSegment
	arithmetics map[compute.Backend]*kernels.Arithmetic
	optimizers  map[optimizerKey]*kernels.Updates
}

// A compiledSegment has the programs of a segment once whoever asked first has compiled them.
type compiledSegment struct {
	sync.Once
	programs *kernels.Programs // nil after an error
	err      error
}

type segmentKey struct {
	backend        compute.Backend
	first          string // the name of the first layer
	layers         int
	samples        int64
	withoutDropout bool // without dropout
	needs          kernels.Backwards
}

type optimizerKey struct {
	backend compute.Backend
	tensors string
}

func newProgramCache(job Job) *programCache {
	return &programCache{
		job: job, segments: map[segmentKey]*compiledSegment{},
		arithmetics: map[compute.Backend]*kernels.Arithmetic{}, optimizers: map[optimizerKey]*kernels.Updates{},
	}
}

// segment compiles layers for every size of microbatch, with the backwards that are needed.
func (c *programCache) segment(
	b compute.Backend, planned stages.Segment, needs kernels.Backwards,
) (*segment, error) {
	return c.compiled(b, planned, segmentKey{needs: needs})
}

// backwards says which backwards the tasks of a stage run.
func (j Job) backwards(stage int) kernels.Backwards {
	needs := kernels.NoBackward
	for i := range j.Graph.Classes {
		t := &j.Graph.Classes[i]
		if int(t.Stage) != stage {
			continue
		}
		switch split := t.Kind == graph.InputGradient || t.Kind == graph.WeightGradient; {
		case t.Kind == graph.Backward, split && j.Unsplit(stage):
			needs |= kernels.WholeBackward
		case split:
			needs |= kernels.SplitBackward
		}
	}
	return needs
}

// compiled compiles a segment, or finds its programs. The key says which are wanted.
func (c *programCache) compiled(b compute.Backend, planned stages.Segment, key segmentKey) (*segment, error) {
	g, layers := &segment{bySize: map[int64]*kernels.Programs{}, part: planned.Part}, planned.Layers
	for _, n := range c.job.Sizes {
		key.backend, key.first, key.layers, key.samples = b, layers[0].Name, len(layers), n
		made := c.entry(key)
		made.Do(func() {
			made.programs, made.err = kernels.Compile(b, layers, kernels.Options{
				Samples: int(n), Recompute: c.job.Recompute, TwoPass: c.job.Training.TwoPass(), Needs: key.needs,
			})
		})
		if made.err != nil {
			return nil, made.err
		}
		g.bySize[n] = made.programs
	}
	return g, nil
}

// entry returns the entry of a key, which is new if nobody has asked for it.
func (c *programCache) entry(key segmentKey) *compiledSegment {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.segments[key] == nil {
		c.segments[key] = &compiledSegment{}
	}
	return c.segments[key]
}

// arithmetic returns the arithmetic of a backend.
func (c *programCache) arithmetic(b compute.Backend) *kernels.Arithmetic {
	if c.arithmetics[b] == nil {
		c.arithmetics[b] = kernels.NewArithmetic(b)
	}
	return c.arithmetics[b]
}

// updates returns the updates of tensors on a backend.
func (c *programCache) updates(b compute.Backend, tensors []network.Tensor) (*kernels.Updates, error) {
	key := optimizerKey{b, fmt.Sprint(tensors)}
	if c.optimizers[key] == nil {
		made, err := kernels.NewUpdates(b, tensors, c.job.Optimizer)
		if err != nil {
			return nil, err
		}
		c.optimizers[key] = made
	}
	return c.optimizers[key], nil
}

func (c *programCache) close() {
	for _, s := range c.segments {
		if s.programs != nil {
			s.programs.Close()
		}
	}
	for _, p := range c.arithmetics {
		p.Close()
	}
	for _, p := range c.optimizers {
		p.Close()
	}
}

// ProgramMemory has the bytes that a program of a rank takes, by what its compiler says, and those of them
// that the ledger does not see.
type ProgramMemory struct {
	Rank int
	Name string
	backend.ProgramSizes
	Unseen int64
}

// ownCompiled returns, for every rank of this process, the program that takes most beyond what the ledger sees.
func (t *Trainer) ownCompiled() (list []ProgramMemory) {
	for rank, m := range t.ranks {
		if m == nil {
			continue
		}
		programs := append(m.updates.Compiled(), m.arithmetic.Compiled()...)
		for _, stage := range m.stages {
			if stage == nil {
				continue
			}
			for _, g := range stage.segments {
				for _, p := range g.bySize {
					programs = append(programs, p.Compiled()...)
				}
			}
		}
		if len(programs) == 0 {
			continue
		}
		worst := slices.MaxFunc(programs, func(a, b *backend.Program) int {
			return cmp.Or(cmp.Compare(a.Unseen(), b.Unseen()), cmp.Compare(b.Name, a.Name))
		})
		if worst.Sizes != (backend.ProgramSizes{}) {
			list = append(list, ProgramMemory{rank, worst.Name, worst.Sizes, worst.Unseen()})
		}
	}
	return list
}
