package schedules

import (
	"fmt"
	"strings"

	"psim/schedules/graph"
	"psim/schedules/order"
	"psim/schedules/wiring"
)

// A Schedule is one row of the catalog.
type Schedule struct {
	Name    string
	Summary string // one line
	// About says in two or three sentences what it does and when to use it.
	About string
	// Bubble and Memory are formulas for equal stages and free communication,
	// in P ranks, M microbatches, V stages per rank, R microbatches per round,
	// rank r, and times F, B = I+W, I and W of one stage (W no longer than the
	// others), F&B of an overlapped pair and T of the step. Bubble is the idle
	// share of the ranks' time, or "of span" (see Bubble), or the idle time "of
	// rank 0"; Memory counts the stage activations that rank r holds at most. A
	// formula ends with the conditions that it is limited to, and may begin with
	// "at most" or "about"; a condition Q=… gives a letter a meaning, and one that
	// begins with "and" is a remark. A test reads it as it stands here and compares.
	Bubble, Memory string
	Constraint     string // what it demands of its shape; empty if nothing
	Paper          string
	// MultiStage says that it serves placements with several stages on a rank.
	MultiStage bool
	// Pipelined says that it spreads stages over ranks; ddp does not.
	Pipelined bool
	// Virtual says that a rank may hold several stages (virtual_stages), and
	// Grouped that the size of their groups of microbatches may be set (group).
	Virtual, Grouped bool
	// PerRank is the number of stages of every rank where the schedule fixes
	// it at more than one, or with Virtual the least; virtual_stages may then be
	// left out.
	PerRank int

	// LeftOut says what of a written order has no effect; empty if nothing.
	LeftOut string
	// SerialBackward says that backwards run one at a time, Stashing that every
	// backward updates its stage (see Pipeline).
	SerialBackward, Stashing bool

	order func(s graph.Shape, stageRank []int32) order.Order
	// place puts stages on ranks; nil is stage s on rank s.
	place func(graph.Shape) graph.Placement
	// legal reports a shape that the schedule cannot serve; nil is none.
	legal func(graph.Shape) error
}

// Catalog lists the pipeline and data-parallel schedules.
func Catalog() []Schedule {
	return []Schedule{
		{
			Name: "model-parallel", Summary: "one microbatch at a time through all stages and back",
			About: "Every rank holds a part of the network, and one of them works at a time. It trains what does " +
				"not fit on one device with the least memory, and is what every pipeline is measured against.",
			Bubble: "(P-1)/P", Memory: "1", Paper: "Huang et al. 2019, GPipe, figure 2b",
			MultiStage: true, Pipelined: true, order: modelParallel,
		},
		{
			Name: "gpipe", Summary: "all forwards, then all backwards, first in, first out",
			About: "A batch is cut into microbatches that follow each other through the stages, all forwards " +
				"before any backward. It is the simplest pipeline; a rank keeps the activations of every " +
				"microbatch, so more of them shrink the bubble and cost memory.",
			Bubble: "(P-1)/(M+P-1)", Memory: "M", Paper: "Huang et al. 2019, GPipe",
			MultiStage: true, Pipelined: true, order: gpipe,
		},
		{
			Name: "torchgpipe", Summary: "GPipe by clock cycles, backwards last in, first out",
			About: "GPipe as torchgpipe runs it: in clock cycles, and backwards in the reverse order of " +
				"forwards, so that the newest activations are freed first. Time and peak are GPipe's.",
			Bubble: "(P-1)/(M+P-1)", Memory: "M", Paper: "Kim et al. 2020, torchgpipe",
			Pipelined: true, order: torchgpipe,
		},
		{
			Name: "hw4", Summary: "forwards by clock cycles, backwards one at a time, as the CMU course's runs",
			About: "The pipeline of CMU's course as PyTorch runs it: forwards of different microbatches overlap, " +
				"and then autograd goes through one backward at a time. Use it to predict such a program, and " +
				"to see what it gives away.",
			Bubble: "1-M(F+B)/((M+P-1)F+MPB)", Memory: "M", Paper: "CMU 11-868; Kim et al. 2020, torchgpipe",
			MultiStage: true, Pipelined: true, SerialBackward: true, order: hw4,
		},
		{
			Name: "1f1b", Summary: "a warm-up, then one forward and one backward in turn",
			About: "A rank starts backwards as soon as one can run, and from then on alternates with forwards. " +
				"The bubble is GPipe's, but rank r holds at most P-r microbatches, so M can grow: the usual " +
				"choice.",
			Bubble: "(P-1)/(M+P-1)", Memory: "min(M, P-r)", Paper: "Narayanan et al. 2021, PipeDream-flush",
			Pipelined: true, order: oneForwardOneBackward,
		},
		{
			Name: "pipedream", Summary: "1F1B without a flush: an update after every backward, weights stashed",
			About: "The pipeline never empties: every backward updates the weights at once, and a microbatch's " +
				"backward uses the version that its forward used. No bubble in steady state, at the price of " +
				"stale weights and of up to P-r versions of them. What trains is not what a single device trains.",
			Bubble: "(P-1)/(M+P-1), and 0 in steady state", Memory: "min(M, P-r)", Paper: "Narayanan et al. 2019, PipeDream",
			Constraint: "no parameter on two stages, data = 1", Pipelined: true, Stashing: true,
			order: pipedream, legal: wiring.OneReplica,
		},
		{
			Name: "interleaved-1f1b", Summary: "1F1B over V stages per rank, in rounds of R=M/⌊M/P⌋",
			About: "Every rank holds V shorter pieces of the network, so that the pipeline fills and drains V " +
				"times as fast. The bubble shrinks by V; messages grow by V, and memory a little. For fast " +
				"links.",
			Bubble: "(P-1)/(MV+P-1), M>=P", Memory: "min((V-1)R+2(P-1-r)+1, MV), V>1", Paper: "Narayanan et al. 2021, Megatron-LM",
			Constraint: "⌊M/P⌋ divides M, or group", Pipelined: true, Virtual: true, Grouped: true,
			order: interleavedOneForwardOneBackward, place: loopedStages, legal: legalRounds,
		},
		{
			Name: "looped-bfs", Summary: "all forwards of a chunk before the next chunk, then all back",
			About: "The stages are looped over the ranks as in interleaved 1F1B, but a rank finishes all " +
				"microbatches of one piece before the next. The bubble is as small and the memory is GPipe's; " +
				"with sharded parameters, a piece is gathered once each way, not once for every round.",
			Bubble: "(P-1)/(MV+P-1), M>=P", Memory: "MV", Paper: "Lamy-Poirier 2023, Breadth-First",
			Pipelined: true, Virtual: true, order: loopedBFS, place: loopedStages,
		},
		{
			Name: "zb-h1", Summary: "1F1B with I and W in place of B, W up to r steps late",
			About: "The backward is cut in two: the input gradient, for which the rank before waits, and the " +
				"weight gradient, which nobody waits for and which fills gaps. A third of 1F1B's bubble where " +
				"F, I and W are equal, with the memory of 1F1B's first rank on all.",
			Bubble: "(P-1)(F+I-W)/T, M>=P", Memory: "min(M, P)", Paper: "Qi et al. 2023, Zero Bubble",
			Pipelined: true, order: zbH1,
		},
		{
			Name: "zb-h2", Summary: "twice zb-h1's warm-up, for no bubble in a rank's own span",
			About: "With about twice the memory of zb-h1, enough forwards come first that a rank, once begun, " +
				"never waits if times are equal. What remains are the ramps, which steps that follow each " +
				"other can overlap if the optimizer does not make all ranks wait.",
			Bubble: "max(0, (P-1)(F+I-2W))/T of span, M>=2P-1", Memory: "min(M, 2P-1)", Paper: "Qi et al. 2023, Zero Bubble",
			Pipelined: true, order: zbH2,
		},
		{
			Name: "interleaved-zero-bubble", Summary: "zb-h1 over V stages per rank, in such rounds",
			About: "The two ideas together: several stages per rank, and weight gradients in the gaps. The " +
				"bubble of zb-h1 divided by V, for more messages.",
			Bubble: "(P-1)(F+I-W)/T, P|M", Memory: "min((V-1)R+P, MV)", Paper: "Qi et al. 2023; PyTorch",
			Constraint: "⌊M/P⌋ divides M", Pipelined: true, Virtual: true,
			order: interleavedZeroBubble, place: loopedStages, legal: legalRounds,
		},
		{
			Name: "zbv", Summary: "stages folded into a V over the ranks; split backwards fill every gap",
			About: "A rank holds two stages, one on the way down a V and one on the way up, so the last stage is " +
				"on the first rank and its backward starts there. With equal times no rank waits between its " +
				"first and last task, in 1F1B's memory.",
			Bubble: "0 of span, F=I=W, M>=2P-1", Memory: "2P, M>=2P-1", Paper: "Qi et al. 2024, Controllable Memory",
			Constraint: "2 stages per rank", Pipelined: true, PerRank: 2,
			order: zbv, place: vShape,
		},
		{
			Name: "v-half", Summary: "the V of zbv with half the activations of 1F1B",
			About: "Passes are laid out so that about half of 1F1B's activations are held at a time, for about " +
				"half of its bubble. Use it where memory, rather than time, decides what can be trained.",
			Bubble: "at most (3P-4)F/T of span, F=I=W, M>=2P-1, P>1", Memory: "at most 2⌊(P+2)/2⌋", Paper: "Qi et al. 2024, Controllable Memory",
			Constraint: "2 stages per rank", Pipelined: true, PerRank: 2, order: vHalf, place: vShape,
		},
		{
			Name: "v-min", Summary: "the V of zbv with a third of the activations of 1F1B",
			About: "The least memory of the V-shaped schedules: about a third of 1F1B's activations. Its bubble " +
				"is a third less than 1F1B's where F, I and W are equal; it grows where they are not.",
			Bubble: "at most (4P-5)F/T of span, F=I=W, M>=2P-1, P>1", Memory: "at most 2⌊(P+4)/3⌋", Paper: "Qi et al. 2024, Controllable Memory",
			Constraint: "2 stages per rank", Pipelined: true, PerRank: 2, order: vMin, place: vShape,
		},
		{
			Name: "dualpipev", Summary: "the V of zbv, with forwards and backwards in overlapped pairs",
			About: "DualPipe cut in half: the V of zbv instead of two directions, so that every stage is on one " +
				"rank only. A forward and a backward of different microbatches run as a pair, and the " +
				"messages of one hide behind the work of the other.",
			Bubble: "(P-1)(F&B+B-3W) of rank 0, F=I=W, F&B=F+B", Memory: "2P+1", Paper: "DeepSeek-AI 2025, DualPipe; Qi et al. 2025, Cut-in-half",
			Constraint: "2 stages per rank, M>=2P", Pipelined: true, PerRank: 2,
			order: dualPipeV, place: vShape, legal: twicePerRank("dualpipev"),
		},
		{
			Name: "dualpipe", Summary: "two opposite pipelines, every stage twice, in overlapped pairs",
			About: "Microbatches enter at both ends, through two copies of all stages, and a forward of one " +
				"direction runs as a pair with a backward of the other. Made for expert parallelism, whose " +
				"messages hide inside the pairs. Parameters are held twice, and their gradients are summed " +
				"over two ranks.",
			Bubble: "(P/2-1)(F&B+B-3W) of rank 0, F=I=W, F&B=F+B", Memory: "P+1", Paper: "DeepSeek-AI 2024, DeepSeek-V3",
			Constraint: "P and M even, M>=2P", Pipelined: true,
			order: dualPipe, place: opposite, legal: dualPipeShape,
		},
		{
			Name: "chimera", Summary: "two opposite pipelines, every stage twice, in each other's gaps",
			About: "Microbatches enter at both ends, through two copies of all stages, and each direction fills " +
				"the other's gaps: about half of 1F1B's bubble where M = P. Parameters are held twice, and " +
				"their gradients are summed over two ranks.",
			Bubble: "(P-2)/(2M+P-2), F=B, P|M", Memory: "P/2+1+min(r, P-1-r), M>=P", Paper: "Li & Hoefler 2021, Chimera",
			Constraint: "P and M even", Pipelined: true, order: chimera, place: opposite,
			legal: func(s graph.Shape) error { return evenShape("chimera", s) },
		},
		{
			Name: "hanayo", Summary: "V/2 waves down the ranks and up again; chimera's slots, no stage twice",
			About: "Stages go down the ranks and up again, V/2 times, so that both directions of Chimera are one " +
				"pipeline: its bubble, and less with more waves, without a second copy of any stage. Messages " +
				"grow by V.",
			Bubble: "(P-1)/(MV+P-1), F=B, P|M", Memory: "min((V-1)Q+1+r, VQ), Q=min(M, P)", Paper: "Liu et al. 2023, Hanayo",
			Constraint: "V even: 2 stages per rank for each wave", Pipelined: true, Virtual: true, PerRank: 2,
			order: hanayo, place: waves, legal: wholeWaves,
		},
		{
			Name: "ddp", Summary: "copies, whole or sharded (ZeRO, FSDP); gradients summed",
			About: "Every rank holds the network, computes on its share of the batch, and sums gradients with " +
				"the others, in buckets beside the backward. The first thing to try where the network fits on " +
				"a device; with ZeRO or FSDP, what all would hold alike is shared out.",
			Bubble: "0", Memory: "1", Paper: "Li et al. 2020, PyTorch Distributed",
			Constraint: "stages = 1", MultiStage: true, order: modelParallel,
		},
	}
}

// Names lists the names of the catalog, in its order.
func Names() []string {
	var names []string
	for _, s := range Catalog() {
		names = append(names, s.Name)
	}
	return names
}

// Find returns the schedule of that name.
func Find(name string) (Schedule, error) {
	for _, s := range Catalog() {
		if s.Name == name {
			return s, nil
		}
	}
	return Schedule{}, fmt.Errorf("there is no schedule %q; the schedules are %s", name, strings.Join(Names(), ", "))
}

// Sized is a shape with the number of stages per rank that the schedule fixes,
// if it is left to the schedule.
func (s Schedule) Sized(shape graph.Shape) graph.Shape {
	if s.PerRank > 0 && shape.Virtual <= 1 {
		shape.Virtual = s.PerRank
	}
	return shape
}

// Placement is where the schedule puts its stages.
func (s Schedule) Placement(shape graph.Shape) graph.Placement {
	if s.place != nil {
		return s.place(shape)
	}
	return graph.InOrder(shape.Ranks)
}

// Order generates the compute order for a shape. stageRank says where the
// stages are; nil means the schedule's own Placement.
func (s Schedule) Order(shape graph.Shape, stageRank []int32) (order.Order, error) {
	if err := s.Check(shape); err != nil {
		return nil, err
	}
	shape = s.Sized(shape)
	if stageRank == nil {
		stageRank = s.Placement(shape).First
	} else if err := s.checkPlacement(stageRank, shape); err != nil {
		return nil, err
	}
	return s.order(shape, stageRank), nil
}

// Pipeline is the schedule of a shape, ready to be wired. stageRank is as for
// Order.
func (s Schedule) Pipeline(shape graph.Shape, stageRank []int32) (wiring.Pipeline, error) {
	o, err := s.Order(shape, stageRank)
	if err != nil {
		return wiring.Pipeline{}, err
	}
	shape = s.Sized(shape)
	placement := s.Placement(shape)
	if stageRank != nil {
		placement.First = stageRank
	}
	return wiring.Pipeline{
		Name: s.Name, Shape: shape, Placement: placement,
		Order: o, SerialBackward: s.SerialBackward, Stashing: s.Stashing,
	}, nil
}

// Check reports a shape that the schedule cannot serve.
func (s Schedule) Check(shape graph.Shape) error {
	shape = s.Sized(shape)
	switch {
	case shape.Ranks < 1:
		return fmt.Errorf("stages = %d: there must be at least 1", shape.Ranks)
	case shape.Microbatches < 1:
		return fmt.Errorf("microbatches = %d: there must be at least 1", shape.Microbatches)
	case s.PerRank > 0 && !s.Virtual && shape.Virtual > s.PerRank:
		return fmt.Errorf("virtual_stages = %d: %s holds %d stages per rank; remove virtual_stages or set it to %d", shape.Virtual, s.Name, s.PerRank, s.PerRank)
	case shape.Virtual > 1 && !s.Virtual && s.PerRank == 0:
		return fmt.Errorf("virtual_stages = %d: %s holds one stage per rank; remove virtual_stages or set it to 1", shape.Virtual, s.Name)
	case !s.Pipelined && shape.Ranks > 1:
		return fmt.Errorf("stages = %d: %s does not split the network, so it takes 1; its copies are set by parallel.data", shape.Ranks, s.Name)
	case shape.Virtual < 0:
		return fmt.Errorf("virtual_stages = %d: there must be at least 1", shape.Virtual)
	case shape.Group != 0 && !s.Grouped:
		return fmt.Errorf("group = %d: %s has no groups of microbatches; remove group", shape.Group, s.Name)
	case shape.Virtual > 1 && tasksPerReplica(shape) > graph.MaxTasks:
		return fmt.Errorf("stages = %d × virtual_stages = %d × microbatches = %d: more than %d tasks", shape.Ranks, shape.Virtual, shape.Microbatches, graph.MaxTasks)
	case tasksPerReplica(shape) > graph.MaxTasks:
		return fmt.Errorf("stages = %d × microbatches = %d: more than %d tasks", shape.Ranks, shape.Microbatches, graph.MaxTasks)
	case s.legal != nil:
		return s.legal(shape)
	}
	return nil
}
