// Package memory follows the bytes in use on every rank: what lasts from step to
// step, and what each task of a graph takes and gives back. It counts what the
// layers of package network list as kept, so that execution has the same bytes.
package memory

import (
	"psim/costmodel/stages"
	"psim/schedules/graph"
)

// A Ledger says how the tasks of a graph change the live bytes of their ranks.
type Ledger struct {
	staged   *stages.Staged
	graph    *graph.Graph
	stages   []stage
	versions versions // of weights that are stashed
	sliced   stages.Sliced
	// late tells, by stage and microbatch, whether the W of a stage that shares its
	// input comes after the stage before has given that up.
	late []bool
}

// A stage holds what its tasks look up.
type stage struct {
	sizes     []passes                      // by size of microbatch
	gradients []int64                       // by bucket: whole gradients that ZeRO 2 and 3 hold for a while
	gathered  int64                         // parameters that are whole for one task
	travels   [][]stages.Flat               // by part of what gathers and scatters them
	weights   int64                         // one version of the parameters
	input     sharing                       // whether the stage before keeps the input as well
	parts     [graph.WeightGradient + 1]int // of passes that are cut within layers, by kind
}

// NewLedger follows the memory of all stages of a plan.
func NewLedger(staged *stages.Staged, g *graph.Graph) *Ledger {
	l := &Ledger{staged: staged, stages: make([]stage, len(staged.Stages))}
	for s := range staged.Stages {
		l.stages[s] = l.stage(s)
	}
	for _, n := range staged.Sizes {
		kept := keptByLayers(staged, staged.Network.Layers, n)
		for s := range staged.Stages {
			segments := segmentsOf(staged, s, kept, n)
			kept = kept[len(staged.Stages[s].Layers):]
			l.stages[s].sizes = append(l.stages[s].sizes, passes{segments: segments})
		}
	}
	for s := range staged.Stages {
		for size := range staged.Sizes {
			l.followStage(s, size)
		}
		if l.shares(s, 0, 0) {
			l.stages[s].input = l.stages[s].sizes[0].segments[0].input
		}
	}
	return l.In(g)
}

// In returns the ledger of another graph of the plan.
func (l *Ledger) In(g *graph.Graph) *Ledger {
	other := *l
	other.graph, other.versions, other.sliced = g, versionsOf(g), stages.SlicedIn(g)
	other.findLate()
	return &other
}

// stage finds what does not depend on other stages.
func (l *Ledger) stage(s int) stage {
	staged, planned := l.staged, &l.staged.Stages[s]
	st := stage{weights: planned.Parameters * staged.PerParameter.Parameter}
	st.parts[graph.Forward] = staged.PartsOf(s, graph.Forward)
	for _, k := range []graph.Kind{graph.Backward, graph.InputGradient, graph.WeightGradient} {
		st.parts[k] = 1 + len(staged.Exchanges(s, graph.Backward))
	}
	for _, b := range planned.Buckets {
		st.gradients = append(st.gradients, b.Bytes)
	}
	if staged.Gathers() {
		st.travels = staged.GatheredFlats(s)
		var used int64 // without the zeros that travel with it
		for _, flats := range st.travels {
			for _, f := range flats {
				used, st.gathered = used+f.Parameters, st.gathered+staged.UnitBytes(f)
			}
		}
		if used > 0 {
			st.gradients = []int64{used * staged.PerParameter.Gradient}
		}
	}
	return st
}

// at finds what a task looks up: its stage, for its size of microbatch.
func (l *Ledger) passesOf(stage int, t *graph.Task) *passes {
	return &l.stages[stage].sizes[l.staged.SizeOf(t)]
}

// Task is how the live bytes change when a task starts and when it ends. Those of a
// message change at its start on the receiver, at its end on the sender.
func (l *Ledger) Task(t *graph.Task) (start, end int64) {
	before, after := l.Parts(t)
	return before.Sum(), after.Sum()
}

// Parts is what Task adds up.
func (l *Ledger) Parts(t *graph.Task) (start, end Breakdown) {
	switch t.Kind {
	case graph.Forward, graph.Backward, graph.InputGradient, graph.WeightGradient:
		return l.compute(t)
	case graph.SendForward: // both sides hold the whole tensor, whatever part of it is sent
		from := l.passesOf(int(t.Stage), t).last()
		start.Activations = from.result
		kept, _ := l.keptOutput(t)
		end.Activations = kept - from.output
		return start, end
	case graph.SendBackward:
		result := l.passesOf(int(t.Stage)-1, t).last().result
		return Breakdown{Activations: result}, Breakdown{Activations: -result}
	case graph.AllReduce, graph.ReduceScatter, graph.AllGather:
		return l.collective(t)
	case graph.AllToAll: // what is sent has been put in order beside what it was
		return Breakdown{Buffers: t.Bytes}, Breakdown{Buffers: -t.Bytes}
	case graph.Optimizer:
		if l.versions.kept[action{t.Stage, t.Microbatch}] {
			start.Parameters = l.stages[t.Stage].weights
		}
	}
	return start, end
}

// compute says how F, B, I and W change the live bytes. Parameters that were gathered
// are freed after F, B and I, and stashed ones after the last B that needs them.
func (l *Ledger) compute(t *graph.Task) (start, end Breakdown) {
	if l.sliced.SplitBackward(t) {
		return l.halfBackward(t)
	}
	st, p := &l.stages[t.Stage], l.passesOf(int(t.Stage), t)
	switch t.Kind {
	case graph.Forward:
		start.Activations, end.Activations = p.forward.bytes()
	case graph.InputGradient:
		start.Activations, end.Activations = p.input[l.held(t)].bytes()
		kept, gathered := l.keptOutput(t)
		start.Activations += gathered
		end.Activations += l.sharedInput(t) - kept - gathered
	case graph.WeightGradient:
		start, end = l.backwardPart(t, p.weight, p.weightParts)
	case graph.Backward:
		start, end = l.backwardPart(t, p.backward[l.held(t)], p.backwardParts[l.held(t)])
		if l.versions.freed[action{t.Stage, t.Microbatch}] {
			end.Parameters -= st.weights
		}
	}
	if t.Kind != graph.WeightGradient {
		end.Parameters -= st.gathered
	}
	if st.parts[t.Kind] > 1 && l.sliced.Has(t) { // the first part takes what the whole does, and the last gives back
		if t.Part > 0 {
			start = Breakdown{}
		}
		if int(t.Part) < st.parts[t.Kind]-1 {
			end = Breakdown{}
		}
	}
	return start, end
}

// half says how a half of a part of a backward changes the live bytes: the I takes what the
// part does, and the W gives back.
func (l *Ledger) halfBackward(t *graph.Task) (start, end Breakdown) {
	whole := *t
	whole.Kind = graph.Backward
	if start, end = l.compute(&whole); t.Kind == graph.InputGradient {
		return start, Breakdown{}
	}
	return Breakdown{}, end
}

// keptOutput returns what stays of a stage's result that was sent, which B or I frees, and
// what the devices of a tensor group that each kept a part gather again until then.
func (l *Ledger) keptOutput(t *graph.Task) (kept, gathered int64) {
	s := int(t.Stage)
	if !l.staged.Process.KeepOutputs || t.Kind == graph.WeightGradient || s == len(l.stages)-1 || l.staged.Placement.Together(s, s+1) {
		return 0, 0
	}
	output := l.passesOf(s, t).last().output
	if group := l.staged.Network.Group; l.staged.Process.PartOutputs && group.Devices > 1 && !group.Sequence { // which are parts already
		return (output-1)/int64(group.Devices) + 1, output
	}
	return output, 0
}

// part says how B or W changes the live bytes, or a slice of one, in which some
// segments run. Under ZeRO 2 and 3 it also takes the whole gradients, which are
// there until they have been reduced and scattered.
func (l *Ledger) backwardPart(t *graph.Task, whole change, parts []change) (start, end Breakdown) {
	gradients, first, last := l.stages[t.Stage].gradients, true, true
	if st := &l.stages[t.Stage]; st.parts[t.Kind] < 2 && l.sliced.Has(t) {
		whole, first, last = parts[t.Part], t.Part == 0, int(t.Part) == len(gradients)-1
		gradients = gradients[t.Part : t.Part+1]
	}
	start.Activations, end.Activations = whole.bytes()
	kept, gathered := l.keptOutput(t)
	if first {
		start.Activations += gathered
	}
	if last {
		end.Activations += l.sharedInput(t) - kept - gathered
	}
	if l.staged.Zero >= 2 {
		for _, bytes := range gradients {
			start.Gradients += bytes
		}
	}
	return start, end
}

// Persistent is the memory of every rank that lasts from step to step (see Lasting).
func Persistent(staged *stages.Staged, ranks int) []int64 {
	persistent := make([]int64, ranks)
	for r, b := range PersistentBreakdown(staged, ranks) {
		persistent[r] = b.Sum()
	}
	return persistent
}

// An action is what a stage does for a microbatch.
type action struct{ stage, microbatch int32 }

// versions tell where stashed weights come and go (Narayanan et al. 2019,
// "PipeDream", section 3.3). Microbatches that took the same version share it, so
// that a stage of P − s microbatches in flight holds P − s versions, the newest
// among them, where M is at least 2(P − s − 1); the first ones share theirs.
type versions struct {
	kept  map[action]bool // updates after which the weights before are still needed
	freed map[action]bool // backwards that are the last to need old weights
}

// versionsOf follows the versions through the first replica of a graph; without
// stashing there are none.
func versionsOf(g *graph.Graph) versions {
	v := versions{map[action]bool{}, map[action]bool{}}
	if !g.Stashing {
		return v
	}
	newest := make([]int, g.Placement.Stages())
	took := map[action]int{}  // the version of every forward
	users := map[[2]int]int{} // by stage and version: microbatches in flight
	for i := range g.Tasks {
		t := &g.Tasks[i]
		s, a := int(t.Stage), action{t.Stage, t.Microbatch}
		switch {
		case t.Microbatch == graph.None:
		case t.Kind == graph.Forward:
			took[a] = newest[s]
			users[[2]int{s, newest[s]}]++
		case t.Kind == graph.Backward:
			with := [2]int{s, took[a]}
			users[with]--
			v.freed[a] = users[with] == 0 && took[a] < newest[s]
		case t.Kind == graph.Optimizer:
			v.kept[a] = users[[2]int{s, newest[s]}] > 0
			newest[s]++
		}
	}
	return v
}
