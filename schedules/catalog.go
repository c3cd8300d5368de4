package schedules

import (
	"fmt"
	"strings"
)

// A Schedule is one row of the catalog.
type Schedule struct {
	Name    string
	Summary string // one line
	// Bubble and Memory are formulas for equal stages and free communication,
	// in P ranks, M microbatches, V stages per rank, R microbatches per round,
	// rank r, and times F, I and W of one stage (W no longer than the others) and
	// T of the step; Memory counts the stage activations that rank r holds at
	// most. A formula ends with what it is limited to.
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

	// SerialBackward says that backwards run one at a time, Stashing that every
	// backward updates its stage (see Pipeline).
	SerialBackward, Stashing bool

	order func(Shape, []int32) Order
	// place puts stages on ranks; nil is stage s on rank s.
	place func(Shape) []int32
	// second puts second copies of all stages on ranks; nil is none.
	second func(Shape) []int32
	// legal reports a shape that the schedule cannot serve; nil is none.
	legal func(Shape) error
}

// Catalog lists the pipeline and data-parallel schedules.
func Catalog() []Schedule {
	return []Schedule{
		{
			Name: "model-parallel", Summary: "one microbatch at a time through all stages and back",
			Bubble: "(P-1)/P", Memory: "1", Paper: "-",
			MultiStage: true, Pipelined: true, order: modelParallel,
		},
		{
			Name: "gpipe", Summary: "all forwards, then all backwards, first in, first out",
			Bubble: "(P-1)/(M+P-1)", Memory: "M", Paper: "Huang et al. 2019, GPipe",
			MultiStage: true, Pipelined: true, order: gpipe,
		},
		{
			Name: "torchgpipe", Summary: "GPipe by clock cycles, backwards last in, first out",
			Bubble: "(P-1)/(M+P-1)", Memory: "M", Paper: "Kim et al. 2020, torchgpipe",
			Pipelined: true, order: torchgpipe,
		},
		{
			Name: "hw4", Summary: "forwards by clock cycles, backwards one at a time, as the CMU course's runs",
			Bubble: "1-M(F+B)/((M+P-1)F+MPB)", Memory: "M", Paper: "CMU 11-868; Kim et al. 2020, torchgpipe",
			MultiStage: true, Pipelined: true, SerialBackward: true, order: hw4,
		},
		{
			Name: "1f1b", Summary: "a warm-up, then one forward and one backward in turn",
			Bubble: "(P-1)/(M+P-1)", Memory: "min(M, P-r)", Paper: "Narayanan et al. 2021, PipeDream-flush",
			Pipelined: true, order: oneForwardOneBackward,
		},
		{
			Name: "pipedream", Summary: "1F1B without a flush: an update after every backward, weights stashed",
			Bubble: "0 in steady state; fill and drain as 1f1b", Memory: "min(M, P-r), and as many versions of the weights", Paper: "Narayanan et al. 2019, PipeDream",
			Constraint: "no parameter on two stages, data = 1", Pipelined: true, Stashing: true,
			order: pipedream, legal: oneReplica,
		},
		{
			Name: "interleaved-1f1b", Summary: "1F1B over V stages per rank, in rounds of R=M/⌊M/P⌋",
			Bubble: "(P-1)/(MV+P-1), M>=P", Memory: "min((V-1)R+2(P-1-r)+1, MV), V>1", Paper: "Narayanan et al. 2021, Megatron-LM",
			Constraint: "⌊M/P⌋ divides M, or group", Pipelined: true, Virtual: true, Grouped: true,
			order: interleavedOneForwardOneBackward, place: loopedStages, legal: legalRounds,
		},
		{
			Name: "looped-bfs", Summary: "all forwards of a chunk before the next chunk, then all back",
			Bubble: "(P-1)/(MV+P-1), M>=P", Memory: "MV", Paper: "Lamy-Poirier 2023, Breadth-First",
			Pipelined: true, Virtual: true, order: loopedBFS, place: loopedStages,
		},
		{
			Name: "zb-h1", Summary: "1F1B with I and W in place of B, W up to r steps late",
			Bubble: "(P-1)(F+I-W)/T, M>=P", Memory: "min(M, P)", Paper: "Qi et al. 2023, Zero Bubble",
			Pipelined: true, order: zbH1,
		},
		{
			Name: "zb-h2", Summary: "twice zb-h1's warm-up, for no bubble in a rank's own span",
			Bubble: "max(0, (P-1)(F+I-2W))/T of span, M>=2P-1", Memory: "min(M, 2P-1)", Paper: "Qi et al. 2023, Zero Bubble",
			Pipelined: true, order: zbH2,
		},
		{
			Name: "interleaved-zero-bubble", Summary: "zb-h1 over V stages per rank, in such rounds",
			Bubble: "(P-1)(F+I-W)/T, P|M", Memory: "min((V-1)R+P, MV)", Paper: "Qi et al. 2023; PyTorch",
			Constraint: "⌊M/P⌋ divides M", Pipelined: true, Virtual: true,
			order: interleavedZeroBubble, place: loopedStages, legal: legalRounds,
		},
		{
			Name: "zbv", Summary: "stages folded into a V over the ranks; split backwards fill every gap",
			Bubble: "0 of span, F=I=W, M>=2P-1", Memory: "min(2M, 2P)", Paper: "Qi et al. 2024, Controllable Memory",
			Constraint: "2 stages per rank", Pipelined: true, PerRank: 2,
			order: zbv, place: vShape,
		},
		{
			Name: "v-half", Summary: "the V of zbv with half the activations of 1F1B",
			Bubble: "about P/2M of span, F=I=W", Memory: "2⌊(P+2)/2⌋", Paper: "Qi et al. 2024, Controllable Memory",
			Constraint: "2 stages per rank", Pipelined: true, PerRank: 2, order: vHalf, place: vShape,
		},
		{
			Name: "v-min", Summary: "the V of zbv with a third of the activations of 1F1B",
			Bubble: "about 2P/3M of span, F=I=W", Memory: "2⌊(P+4)/3⌋", Paper: "Qi et al. 2024, Controllable Memory",
			Constraint: "2 stages per rank", Pipelined: true, PerRank: 2, order: vMin, place: vShape,
		},
		{
			Name: "dualpipev", Summary: "the V of zbv, with forwards and backwards in overlapped pairs",
			Bubble: "(P-1)(F&B+B-3W) of rank 0, F=I=W", Memory: "2P+1", Paper: "DeepSeek-AI 2025, DualPipe; Qi et al. 2025, Cut-in-half",
			Constraint: "2 stages per rank, M>=2P", Pipelined: true, PerRank: 2,
			order: dualPipeV, place: vShape, legal: twicePerRank("dualpipev"),
		},
		{
			Name: "dualpipe", Summary: "two opposite pipelines, every stage twice, in overlapped pairs",
			Bubble: "(P/2-1)(F&B+B-3W) of rank 0, F=I=W", Memory: "P+1", Paper: "DeepSeek-AI 2024, DeepSeek-V3",
			Constraint: "P and M even, M>=2P", Pipelined: true,
			order: dualPipe, second: upwards, legal: dualPipeShape,
		},
		{
			Name: "chimera", Summary: "two opposite pipelines, every stage twice, in each other's gaps",
			Bubble: "(P-2)/(2M+P-2), F=B, P|M", Memory: "P/2+1 to P", Paper: "Li & Hoefler 2021, Chimera",
			Constraint: "P and M even", Pipelined: true, order: chimera, second: upwards,
			legal: func(s Shape) error { return evenShape("chimera", s) },
		},
		{
			Name: "hanayo", Summary: "V/2 waves down the ranks and up again; chimera's slots, no stage twice",
			Bubble: "(P-1)/(MV+P-1), F=B, P|M", Memory: "min((V-1)Q+1+r, VQ), Q=min(M, P)", Paper: "Liu et al. 2023, Hanayo",
			Constraint: "V even: 2 stages per rank for each wave", Pipelined: true, Virtual: true, PerRank: 2,
			order: hanayo, place: waves, legal: wholeWaves,
		},
		{
			Name: "ddp", Summary: "copies, whole or sharded (ZeRO, FSDP); gradients summed",
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
func (s Schedule) Sized(shape Shape) Shape {
	if s.PerRank > 0 && shape.Virtual <= 1 {
		shape.Virtual = s.PerRank
	}
	return shape
}

// Placement is where the schedule puts its stages: the rank of each.
func (s Schedule) Placement(shape Shape) []int32 {
	if s.place != nil {
		return s.place(shape)
	}
	return OneStagePerRank(shape.Ranks)
}

// SecondPlacement is the rank of the second copy of every stage, nil where the
// schedule has one copy.
func (s Schedule) SecondPlacement(shape Shape) []int32 {
	if s.second == nil {
		return nil
	}
	return s.second(shape)
}

// Order generates the compute order for a shape. stageRank says where the
// stages are; nil means the schedule's own Placement.
func (s Schedule) Order(shape Shape, stageRank []int32) (Order, error) {
	if err := s.Check(shape); err != nil {
		return nil, err
	}
	shape = s.Sized(shape)
	if stageRank == nil {
		stageRank = s.Placement(shape)
	}
	if err := s.checkPlacement(stageRank, shape); err != nil {
		return nil, err
	}
	return s.order(shape, stageRank), nil
}

// Pipeline is the schedule of a shape, ready to be wired. stageRank is as for
// Order.
func (s Schedule) Pipeline(shape Shape, stageRank []int32) (Pipeline, error) {
	order, err := s.Order(shape, stageRank)
	if err != nil {
		return Pipeline{}, err
	}
	if stageRank == nil {
		stageRank = s.Placement(shape)
	}
	return Pipeline{
		Name: s.Name, Shape: s.Sized(shape), StageRank: stageRank, SecondRank: s.SecondPlacement(shape),
		Order: order, SerialBackward: s.SerialBackward, Stashing: s.Stashing,
	}, nil
}

// Check reports a shape that the schedule cannot serve.
func (s Schedule) Check(shape Shape) error {
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
	case shape.Virtual > 1 && shape.tasksPerReplica() > MaxTasks:
		return fmt.Errorf("stages = %d × virtual_stages = %d × microbatches = %d: more than %d tasks", shape.Ranks, shape.Virtual, shape.Microbatches, MaxTasks)
	case shape.tasksPerReplica() > MaxTasks:
		return fmt.Errorf("stages = %d × microbatches = %d: more than %d tasks", shape.Ranks, shape.Microbatches, MaxTasks)
	case s.legal != nil:
		return s.legal(shape)
	}
	return nil
}

// checkPlacement reports a placement that the schedule cannot serve.
func (s Schedule) checkPlacement(stageRank []int32, shape Shape) error {
	const advice = "(gpipe and model-parallel take any placement)"
	own := s.Placement(shape)
	if len(stageRank) != len(own) && !s.MultiStage {
		return fmt.Errorf("%s cannot run %d stages on %d ranks: it needs %s per rank %s", s.Name, len(stageRank), shape.Ranks, stagesInWords(len(own)/shape.Ranks), advice)
	}
	for stage, r := range stageRank {
		switch {
		case r < 0 || int(r) >= shape.Ranks:
			return fmt.Errorf("placement of stage %d on rank %d: the ranks are 0 to %d", stage, r, shape.Ranks-1)
		case !s.MultiStage && r != own[stage] && s.place == nil:
			return fmt.Errorf("placement of stage %d on rank %d: %s needs stage s on rank s %s", stage, r, s.Name, advice)
		case !s.MultiStage && r != own[stage]:
			return fmt.Errorf("placement of stage %d on rank %d: %s needs it on rank %d %s", stage, r, s.Name, own[stage], advice)
		}
	}
	return nil
}

func stagesInWords(n int) string {
	if n == 1 {
		return "one stage"
	}
	return fmt.Sprintf("%d stages", n)
}

// tasksPerReplica bounds the number of tasks from below: a forward and a
// backward for every stage and microbatch.
func (s Shape) tasksPerReplica() float64 {
	return 2 * float64(s.Ranks) * float64(max(1, s.Virtual)) * float64(s.Microbatches)
}

// OneStagePerRank is the placement of stage s on rank s.
func OneStagePerRank(ranks int) []int32 {
	stageRank := make([]int32, ranks)
	for s := range stageRank {
		stageRank[s] = int32(s)
	}
	return stageRank
}
