// Package memory counts the bytes in use on every rank: those that stay from step to step
// ([PersistentBreakdown]), and those that each task of a graph allocates and frees ([Ledger]).
//
// A task changes memory twice, when it starts and when it ends. It starts with the bytes of its
// peak, and gives back at its end whatever is not kept, so that nothing has to be known about
// time within a task:
//
//	         ┌──── peak ────┐
//	 before  │              │ left     start = peak − before, end = left − peak
//	─────────┘              └─────
//
// Which tensors are kept follows from the buffers of package network, which an execution keeps
// as well, so that predicted and executed bytes are equal. A message counts on its receiver
// from its start, and on its sender until its end.
package memory

import (
	"psim/costmodel/stages"
	"psim/schedules/graph"
)

// A Ledger knows how the tasks of a graph change the live bytes of their ranks.
type Ledger struct {
	staged   *stages.Staged
	graph    *graph.Graph
	stages   []stage
	versions versions // of stashed weights
	sliced   stages.Sliced
	// late says, by stage and microbatch, whether the W of a stage that shares its input with
	// the stage before comes after that stage has freed it.
	late []bool
}

// A stage holds the bytes that the tasks of a stage look up.
type stage struct {
	sizes     []passes                      // by size of microbatch
	gradients []int64                       // whole ones that wait to be scattered under ZeRO 2 and 3, by bucket
	gathered  int64                         // parameters that are gathered for one task
	travels   [][]stages.Flat               // the flats of each collective that gathers or scatters them
	weights   int64                         // one version of the parameters
	input     sharing                       // of the tensor that the stage before keeps as its result
	parts     [graph.WeightGradient + 1]int // into which all-to-alls or gathers cut passes, by kind
}

// NewLedger returns the ledger of a graph.
func NewLedger(staged *stages.Staged, g *graph.Graph) *Ledger {
	l := &Ledger{staged: staged, stages: make([]stage, len(staged.Stages))}
	for s := range staged.Stages {
		l.stages[s] = l.stage(s)
	}
	for _, n := range staged.Sizes {
		kept := keptByLayers(staged, staged.Network.Layers, n)
		addGradients(staged, kept)
		var segments []segment
		var before []layerKept // from the first layer of the stage before on
		for s := range staged.Stages {
			if s == 0 || !sameSegments(staged, s, before, kept) {
				segments = segmentsOf(staged, s, kept, n)
			}
			before, kept = kept, kept[len(staged.Stages[s].Layers):]
			l.stages[s].sizes = append(l.stages[s].sizes, passes{segments: segments})
		}
	}
	for s := range staged.Stages {
		for size := range staged.Sizes {
			if l.followsLike(s, size) {
				l.stages[s].sizes[size] = l.stages[s-1].sizes[size]
			} else {
				l.followStage(s, size)
			}
		}
		if l.shares(s, 0, 0) {
			l.stages[s].input = l.stages[s].sizes[0].segments[0].input
		}
	}
	return l.In(g)
}

// In returns the ledger of another graph of the same stages.
func (l *Ledger) In(g *graph.Graph) *Ledger {
	other := *l
	other.graph, other.versions, other.sliced = g, versionsOf(g), stages.SlicedIn(g)
	other.findLate()
	return &other
}

// stage counts the bytes of a stage that do not depend on other stages.
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
		var used int64 // without padding
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

// passesOf returns the changes of a stage for a task's size of microbatch.
func (l *Ledger) passesOf(stage int, t *graph.Task) *passes {
	return &l.stages[stage].sizes[l.staged.SizeOf(t)]
}

// Task returns how the live bytes change when a task starts and when it ends. Those of a message
// change at its start on the receiver, and at its end on the sender.
func (l *Ledger) Task(t *graph.Task) (start, end int64) {
	before, after := l.Parts(t)
	return before.Sum(), after.Sum()
}

// Parts is Task with the bytes by use.
func (l *Ledger) Parts(t *graph.Task) (start, end Breakdown) {
	switch t.Kind {
	case graph.Forward, graph.Backward, graph.InputGradient, graph.WeightGradient:
		return l.compute(t)
	case graph.Loss:
		start.Activations, end.Activations = l.passesOf(int(t.Stage), t).loss.bytes()
		return start, end
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
	case graph.ToHost:
		if t.Offloads() {
			end.Activations = -t.Bytes
		}
		return start, end
	case graph.FromHost:
		if t.Offloads() {
			start.Activations = t.Bytes
		}
		return start, end
	case graph.AllToAll: // a copy of the rows in the order in which they are sent
		return Breakdown{Buffers: t.Bytes}, Breakdown{Buffers: -t.Bytes}
	case graph.Optimizer:
		if l.versions.kept[action{t.Stage, t.Microbatch}] {
			start.Parameters = l.stages[t.Stage].weights
		}
		start.Optimizer = l.rootsOf(t)
		end.Optimizer, end.Gradients = -start.Optimizer, end.Gradients-l.freedBy(t)
	}
	return start, end
}

// compute returns how F, B, I and W change the live bytes. Gathered parameters are freed after F,
// B and I; stashed ones after the last B that needs them.
func (l *Ledger) compute(t *graph.Task) (start, end Breakdown) {
	if l.sliced.SplitBackward(t) {
		return l.halfBackward(t)
	}
	if l.staged.Unsplit(int(t.Stage)) {
		switch t.Kind {
		case graph.InputGradient:
			return start, end
		case graph.WeightGradient:
			whole := *t
			whole.Kind = graph.Backward
			return l.compute(&whole)
		}
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
	if st.parts[t.Kind] > 1 && l.sliced.Has(t) { // the first part allocates for the whole pass, the last one frees
		if t.Part > 0 {
			start = Breakdown{}
		}
		if int(t.Part) < st.parts[t.Kind]-1 {
			end = Breakdown{}
		}
	}
	return start, end
}

// halfBackward returns the changes of the I or the W of a part of a backward. The I allocates what
// the part allocates, and the W frees.
func (l *Ledger) halfBackward(t *graph.Task) (start, end Breakdown) {
	whole := *t
	whole.Kind = graph.Backward
	if start, end = l.compute(&whole); t.Kind == graph.InputGradient {
		return start, Breakdown{}
	}
	return Breakdown{}, end
}

// keptOutput returns the bytes of a stage's sent result that stay until its B or I, which frees
// them, and the bytes that the devices of a tensor-parallel group gather for it if each kept a
// part.
func (l *Ledger) keptOutput(t *graph.Task) (kept, gathered int64) {
	s := int(t.Stage)
	switch {
	case !l.staged.Process.KeepOutputs, t.Kind == graph.WeightGradient:
		return 0, 0
	case s == len(l.stages)-1, l.staged.Placement.Together(s, s+1): // it was not sent
		return 0, 0
	}
	output := l.passesOf(s, t).last().output
	g := l.staged.Network.Group
	if l.staged.Process.PartOutputs && g.Devices > 1 && !g.Sequence { // with Sequence they are parts already
		return (output-1)/int64(g.Devices) + 1, output
	}
	return output, 0
}

// backwardPart returns the changes of B or W, or of a part of it that runs some segments. Under
// ZeRO 2 and 3 it also allocates whole gradients, which exist until they are scattered.
func (l *Ledger) backwardPart(t *graph.Task, whole change, parts []change) (start, end Breakdown) {
	gradients, first, last := l.stages[t.Stage].gradients, true, true
	if st := &l.stages[t.Stage]; st.parts[t.Kind] < 2 && l.sliced.Has(t) {
		whole, first, last = parts[t.Part], t.Part == 0, int(t.Part) == len(gradients)-1
		gradients = gradients[t.Part : t.Part+1]
	}
	start, end = whole.parts()
	kept, gathered := l.keptOutput(t)
	if first {
		start.Activations += gathered
	}
	if last {
		end.Activations += l.sharedInput(t) - kept - gathered
	}
	if l.staged.Zero >= 2 && !l.staged.SumOnce {
		for _, bytes := range gradients {
			start.Gradients += bytes
		}
	}
	return start, end
}

// Persistent returns the bytes that every rank holds from step to step (see
// PersistentBreakdown).
func Persistent(staged *stages.Staged, ranks int) []int64 {
	return repeated(Lasting(staged, ranks/max(1, staged.Replicas)), ranks)
}

// Lasting returns the bytes that every rank of a replica holds from step to step.
func Lasting(staged *stages.Staged, ranks int) []int64 {
	lasting := make([]int64, ranks)
	for r, b := range replicaBreakdown(staged, ranks) {
		lasting[r] = b.Sum()
	}
	return lasting
}

// repeated returns as many values as there are ranks: those of one replica, again and again.
func repeated[T any](replica []T, ranks int) []T {
	all := make([]T, ranks)
	for r := range all {
		all[r] = replica[r%len(replica)]
	}
	return all
}

// An action is a stage and a microbatch.
type action struct{ stage, microbatch int32 }

// versions records when stashed weights are kept and freed (Narayanan et al. 2019, "PipeDream",
// section 3.3). Microbatches that started with the same version share it. So a stage s of P
// with P − s microbatches in flight holds P − s versions, the newest among them, if there are at
// least 2(P − s − 1) microbatches.
type versions struct {
	kept  map[action]bool // updates after which the previous weights are still needed
	freed map[action]bool // backwards that are the last to need an old version
}

// versionsOf follows the versions through the first replica of a graph. Without stashing there
// are none.
func versionsOf(g *graph.Graph) versions {
	v := versions{map[action]bool{}, map[action]bool{}}
	if !g.Stashing {
		return v
	}
	newest := make([]int, g.Placement.Stages())
	taken := map[action]int{} // the version of every forward
	users := map[[2]int]int{} // microbatches in flight, by stage and version
	for _, t := range g.Tasks() {
		s, a := int(t.Stage), action{t.Stage, t.Microbatch}
		switch {
		case t.Microbatch == graph.None:
		case t.Kind == graph.Forward:
			taken[a] = newest[s]
			users[[2]int{s, newest[s]}]++
		case t.Kind == graph.Backward:
			version := [2]int{s, taken[a]}
			users[version]--
			v.freed[a] = users[version] == 0 && taken[a] < newest[s]
		case t.Kind == graph.Optimizer:
			v.kept[a] = users[[2]int{s, newest[s]}] > 0
			newest[s]++
		}
	}
	return v
}
