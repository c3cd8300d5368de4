package costmodel

import (
	"fmt"
	"time"

	"psim/costmodel/arch"
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// A Workload is a network cut into stages and trained in microbatches.
type Workload struct {
	Network  arch.Network
	Training arch.Training
	// Layers[s] is the number of layers of stage s.
	Layers []int
	// Placement is where the stages are in every replica.
	Placement graph.Placement
	// Samples[m] is the size of microbatch m.
	Samples  []int64
	Replicas int // 0 means 1
	// Zero is the ZeRO stage: 1 shards the optimizer's state over the
	// replicas, 2 the gradients as well, 3 everything, stage by stage (see
	// schedules.Unit).
	Zero int
	// WholeLast: the last stage takes all microbatches at once (see
	// schedules.Pipeline); each has its share of what that takes.
	WholeLast bool
	// PerLayer: stages run layer by layer, as psim exec --per-layer has it, and
	// hold what passes between the layers.
	PerLayer bool
	// State overrides the bytes per parameter that Training implies, for
	// precisions it cannot express. The zero value does not.
	State arch.State
}

// state is the bytes per parameter.
func (w Workload) state() arch.State {
	if w.State != (arch.State{}) {
		return w.State
	}
	return w.Training.State()
}

func (w Workload) replicas() int { return max(1, w.Replicas) }

// Validate reports a step so large that its bytes cannot be counted.
func (w Workload) Validate() error {
	var perSample float64 // no less than the bytes that any pass moves or keeps
	for _, l := range w.Network.Layers {
		for _, p := range []arch.Pass{arch.Forward, arch.InputGradient, arch.WeightGradient} {
			perSample += 8 * float64(l.Traffic(p, 1))
		}
		perSample += 8 * float64(l.Input.Elements()+l.Output.Elements())
		for _, b := range l.Buffers {
			perSample += float64(b.Bytes(8))
		}
	}
	var samples float64
	for _, n := range w.Samples {
		samples += float64(n)
	}
	if samples *= float64(w.replicas()); samples*perSample > 1<<62 {
		return fmt.Errorf("%.0f samples per step of %s are more than can be counted in bytes: use fewer", samples, w.Network.Name)
	}
	return nil
}

// split is the network as it is cut and placed.
func (w Workload) split() arch.Split {
	return arch.Split{Network: w.Network, Layers: w.Layers, Ranks: w.Placement.LowestRanks()}
}

// Stage returns the layers of a stage.
func (w Workload) Stage(s int) []arch.Layer { return w.split().Stage(s) }

// Boundaries is what crosses between stages, per sample: the activations of
// the last layer before the cut and gradients of the same shape, or the part of
// them that a device of a tensor-parallel group sends.
func (w Workload) Boundaries() []wiring.Boundary {
	boundaries := make([]wiring.Boundary, len(w.Layers)-1)
	for s := range boundaries {
		layers := w.Stage(s)
		bytes := layers[len(layers)-1].Output.Elements() * w.Training.ActivationElement()
		parts := int64(w.Network.Group.Parts())
		bytes = (bytes + parts - 1) / parts
		boundaries[s] = wiring.Boundary{Forward: bytes, Backward: bytes}
	}
	return boundaries
}

// Parameters is the number of parameters that the rank of a stage holds for
// it.
func (w Workload) Parameters(s int) int64 {
	var n int64
	for _, t := range w.split().Completed(s) {
		n += t.Shape.Elements()
	}
	return n
}

// Tied lists the parameters that more than one rank of a replica holds: by
// being used in several stages, or all of a rank's where stages have second
// copies.
func (w Workload) Tied() []wiring.Tied {
	tied, lowest := w.copies(), w.Placement.LowestRanks()
	for s := range w.Layers {
		for _, l := range w.Stage(s) {
			for _, t := range l.Tied {
				if owner := w.split().Owner(t.Name); owner >= 0 && lowest[owner] != lowest[s] {
					bytes := t.Shape.Elements() * w.state().Gradient
					tied = append(tied, wiring.Tied{Stages: []int{owner, s}, Bytes: bytes})
				}
			}
		}
	}
	return tied
}

// copies lists what is summed over the two copies of all stages: for every pair
// of ranks, which hold the same, all of their gradients.
func (w Workload) copies() []wiring.Tied {
	var copies []wiring.Tied
	at, lowest := map[int32]int{}, w.Placement.LowestRanks() // which stand for their pairs
	for s := range w.Placement.Second {
		i, ok := at[lowest[s]]
		if !ok {
			i, at[lowest[s]] = len(copies), len(copies)
			copies = append(copies, wiring.Tied{})
		}
		copies[i].Stages = append(copies[i].Stages, s)
		copies[i].Bytes += w.Parameters(s) * w.state().Gradient
	}
	return copies
}

// Sync is how the replicas sum their gradients, in buckets of at least limit
// bytes; a limit of 0 sends every tensor by itself. With ZeRO 3 a stage's
// gradients travel whole, whatever the limit.
func (w Workload) Sync(limit int64, overlap bool) wiring.Sync {
	if w.Replicas < 2 {
		return wiring.Sync{}
	}
	if w.Zero == 3 {
		return wiring.Sync{Overlap: overlap, Units: w.units()}
	}
	sync := wiring.Sync{Overlap: overlap, Sharded: w.Zero > 0, EveryMicrobatch: w.Zero >= 2}
	for s := range w.Layers {
		var sizes []int64
		for _, t := range w.split().Completed(s) {
			sizes = append(sizes, t.Shape.Elements()*w.state().Gradient)
		}
		sync.Buckets = append(sync.Buckets, wiring.Buckets(sizes, limit))
		sync.Parameters = append(sync.Parameters, w.Parameters(s)*w.state().Parameter)
	}
	return sync
}

// Persistent is the memory of every rank that lasts from step to step:
// parameters, gradients and optimizer state, sharded over the replicas as
// Zero says (Rajbhandari et al. 2020, figure 1). A share is rounded up: to a
// byte, or with ZeRO 3 to a parameter of every stage.
func (w Workload) Persistent(ranks int) []int64 {
	perReplica := make([]int64, ranks/w.replicas())
	state := w.state()
	for s := range w.Layers {
		n := w.padded(s)
		for _, r := range w.Placement.Ranks(s) {
			perReplica[r] += w.share(n*state.Parameter, 3) + w.share(n*state.Gradient, 2) + w.share(n*state.Optimizer, 1)
		}
	}
	persistent := make([]int64, ranks)
	for r := range persistent {
		persistent[r] = perReplica[r%len(perReplica)]
	}
	return persistent
}

// share is what one replica holds of bytes that are sharded from a ZeRO stage
// on.
func (w Workload) share(bytes int64, from int) int64 {
	if w.Zero < from {
		return bytes
	}
	n := int64(w.replicas())
	return (bytes + n - 1) / n
}

// StageTimes is the forward and backward time of every stage for a microbatch
// of the given size, for reports and partitioning.
func (w Workload) StageTimes(c Compute, samples int64) (forward, backward []time.Duration) {
	for s := range w.Layers {
		p := w.price(c, s, samples)
		forward, backward = append(forward, p.forward), append(backward, p.backward())
	}
	return forward, backward
}
