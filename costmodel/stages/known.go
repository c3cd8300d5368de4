package stages

import (
	"slices"
	"sync"

	"psim/costmodel/group"
)

// Known are stages that workloads of one network have in common, which differ in their cuts, placements, samples,
// replicas, ZeRO stages and recomputation: many cuts have the same layers in some stage. Several goroutines may use it.
type Known struct {
	mutex   sync.Mutex
	held    map[heldKey]Stage
	stages  map[stageKey]Stage
	tensors int
}

// A heldKey is what the tensors of a stage and their buckets depend on.
type heldKey struct {
	group         group.Group
	first, layers int
	brings        string // which tied tensors the stage brings to its rank
	bucketed      bool
}

// A stageKey is what a stage depends on, besides the ranks that hold it.
type stageKey struct {
	heldKey
	recompute string
	ahead     bool
	sharded   bool // its parameters are: under ZeRO 3
	stage     int  // its number under ZeRO 3, which names its flats, else 0
}

// Tensors counts the tensors of all stages that are known.
func (k *Known) Tensors() int {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.tensors
}

// A planner plans the stages of a workload.
type planner struct {
	*Staged
	split     Split
	kinds     layerKinds
	recompute string // of Workload.StagedFrom
}

// stage plans a stage, given its first layer, unless it is known.
func (k *Known) stage(p *planner, s, first int) Stage {
	staged, split, n := p.Staged, p.split, p.Layers[s]
	held := heldKey{staged.Network.Group, first, n, split.brought(s), staged.Zero < 3 && staged.sumsGradients()}
	key := stageKey{heldKey: held, recompute: p.recompute, ahead: staged.gathersAhead()}
	if staged.Zero >= 3 {
		key.sharded, key.stage = true, s
	}
	k.mutex.Lock()
	st, planned := k.stages[key]
	if !planned {
		st = k.held[held]
	}
	k.mutex.Unlock()
	if planned {
		st.Ranks = staged.Placement.Ranks(s)
		if staged.Zero >= 3 {
			st.Units = staged.owners(split, s)
			st.Flats = slices.Clone(st.Flats)
			staged.pad(&st)
		}
		return st
	}
	isNew := st.Held == nil
	if isNew {
		staged.hold(&st, split, s)
	}
	tensors := st
	staged.plan(&st, split, s, &p.kinds)
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if k.stages == nil {
		k.held, k.stages = map[heldKey]Stage{}, map[stageKey]Stage{}
	}
	if isNew {
		k.held[held] = tensors
		k.tensors += len(st.Tensors)
	}
	k.stages[key] = st
	k.tensors += keptPerLayer * n
	for i := range st.Flats {
		k.tensors += len(st.Flats[i].Tensors)
	}
	return st
}

// keptPerLayer is what a layer of a stage takes besides tensors, in tensors.
const keptPerLayer = 10

// brought has a 1 for every tied tensor that a stage brings to its rank, and a 0 for every other tied tensor.
func (s Split) brought(stage int) string {
	var list []byte
	for i, l := range s.Stage(stage) {
		for _, t := range slices.Concat(l.Tied, l.FrozenTied) {
			if s.brings(stage, i, t) {
				list = append(list, '1')
			} else {
				list = append(list, '0')
			}
		}
	}
	return string(list)
}
