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
	// in P ranks, M microbatches, rank r; Memory counts the microbatches
	// whose activations rank r holds at most.
	Bubble, Memory string
	Constraint     string // what it demands of its shape; empty if nothing
	Paper          string
	// MultiStage says that it serves placements with several stages on a rank.
	MultiStage bool
	// Pipelined says that it spreads stages over ranks; ddp does not.
	Pipelined bool

	order func(Shape, []int32) Order
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
			Name: "1f1b", Summary: "a warm-up, then one forward and one backward in turn",
			Bubble: "(P-1)/(M+P-1)", Memory: "min(M, P-r)", Paper: "Narayanan et al. 2021, PipeDream-flush",
			Pipelined: true, order: oneForwardOneBackward,
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

// Order generates the compute order for a shape. stageRank says where the
// stages are; nil means stage s on rank s.
func (s Schedule) Order(shape Shape, stageRank []int32) (Order, error) {
	switch {
	case shape.Ranks < 1:
		return nil, fmt.Errorf("stages = %d: there must be at least 1", shape.Ranks)
	case shape.Microbatches < 1:
		return nil, fmt.Errorf("microbatches = %d: there must be at least 1", shape.Microbatches)
	case shape.Virtual > 1:
		return nil, fmt.Errorf("virtual_stages = %d: %s holds one stage per rank; remove virtual_stages or set it to 1", shape.Virtual, s.Name)
	case !s.Pipelined && shape.Ranks > 1:
		return nil, fmt.Errorf("stages = %d: %s does not split the network, so it takes 1; its copies are set by parallel.data", shape.Ranks, s.Name)
	case shape.Virtual < 0:
		return nil, fmt.Errorf("virtual_stages = %d: there must be at least 1", shape.Virtual)
	case shape.Ranks > MaxTasks, shape.Microbatches > MaxTasks, shape.tasksPerReplica() > MaxTasks:
		return nil, fmt.Errorf("stages = %d × microbatches = %d: more than %d tasks", shape.Ranks, shape.Microbatches, MaxTasks)
	}
	if stageRank == nil {
		stageRank = OneStagePerRank(shape.Ranks)
	}
	if err := s.checkPlacement(stageRank, shape.Ranks); err != nil {
		return nil, err
	}
	return s.order(shape, stageRank), nil
}

// checkPlacement reports a placement that the schedule cannot serve.
func (s Schedule) checkPlacement(stageRank []int32, ranks int) error {
	const advice = "(gpipe and model-parallel take any placement)"
	if len(stageRank) != ranks && !s.MultiStage {
		return fmt.Errorf("%s cannot run %d stages on %d ranks: it needs one stage per rank %s", s.Name, len(stageRank), ranks, advice)
	}
	for stage, r := range stageRank {
		switch {
		case r < 0 || int(r) >= ranks:
			return fmt.Errorf("placement of stage %d on rank %d: the ranks are 0 to %d", stage, r, ranks-1)
		case int(r) != stage && !s.MultiStage:
			return fmt.Errorf("placement of stage %d on rank %d: %s needs stage s on rank s %s", stage, r, s.Name, advice)
		}
	}
	return nil
}

// tasksPerReplica bounds the number of tasks from below: a forward and a
// backward for every rank and microbatch.
func (s Shape) tasksPerReplica() int64 { return 2 * int64(s.Ranks) * int64(s.Microbatches) }

// OneStagePerRank is the placement of stage s on rank s.
func OneStagePerRank(ranks int) []int32 {
	stageRank := make([]int32, ranks)
	for s := range stageRank {
		stageRank[s] = int32(s)
	}
	return stageRank
}
