package wiring

import (
	"errors"
	"fmt"
	"math"

	"psim/schedules/graph"
)

// check validates the pipeline and its order.
func (p *Pipeline) check() error {
	stages := p.Placement.Stages()
	switch {
	case p.Shape.Ranks < 1 || p.Shape.Microbatches < 1:
		return fmt.Errorf("%d ranks and %d microbatches: there must be at least one of each",
			p.Shape.Ranks, p.Shape.Microbatches)
	case p.Shape.Replicas > graph.MaxTasks:
		return fmt.Errorf("%d replicas: at most %d tasks are supported", p.Shape.Replicas, graph.MaxTasks)
	case len(p.Order) != p.Shape.Ranks:
		return fmt.Errorf("the order has %d ranks, the shape %d", len(p.Order), p.Shape.Ranks)
	case p.Samples != nil && len(p.Samples) != p.Shape.Microbatches:
		return fmt.Errorf("%d microbatch sizes for %d microbatches", len(p.Samples), p.Shape.Microbatches)
	case p.Shards != nil && len(p.Shards) != p.Shape.Replicas:
		return fmt.Errorf("shards for %d replicas; there are %d", len(p.Shards), p.Shape.Replicas)
	case p.Boundaries != nil && len(p.Boundaries) != stages-1:
		return fmt.Errorf("%d boundaries for %d stages", len(p.Boundaries), stages)
	}
	checks := []func() error{p.checkSync, p.checkExchanges, p.checkPlacement, p.checkTied, p.checkStashing, p.checkLoop,
		p.checkOffload}
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return p.Order.Validate(p.Placement, p.Shape.Microbatches)
}

// checkSync reports lists of gradients and parameters that do not match the stages.
func (p *Pipeline) checkSync() error {
	s, stages := p.Sync, p.Placement.Stages()
	gathersUpdated := p.Optimizer && s.Sharded && s.Units == nil && s.Ahead == nil && s.active(p.Shape)
	once := s.Units == nil && !p.WholeLast && !p.Stashing && p.Placement.Second == nil
	switch {
	case s.Units != nil && len(s.Units) != stages:
		return fmt.Errorf("sharded units for %d stages; there are %d", len(s.Units), stages)
	case s.Buckets != nil && len(s.Buckets) != stages:
		return fmt.Errorf("gradient buckets for %d stages; there are %d", len(s.Buckets), stages)
	case s.Broadcast != nil && (len(s.Broadcast) != stages || s.Units != nil):
		return fmt.Errorf("parameters of %d stages to broadcast; there are %d, whose parameters may not be sharded",
			len(s.Broadcast), stages)
	case s.Ahead != nil && (len(s.Ahead) != stages || !once):
		return fmt.Errorf("parameters of %d stages to gather ahead; there are %d, which have to be in one place, "+
			"to be updated once a step and to take each microbatch by itself", len(s.Ahead), stages)
	case gathersUpdated && len(s.Parameters) != stages:
		return fmt.Errorf("parameter sizes for %d stages; there are %d, and sharding gathers the parameters of each",
			len(s.Parameters), stages)
	}
	for stage, buckets := range s.Buckets {
		if len(buckets) > math.MaxUint16 {
			return fmt.Errorf("stage %d has %d gradient buckets; at most %d are supported: use larger buckets",
				stage, len(buckets), math.MaxUint16)
		}
	}
	return nil
}

// checkPlacement reports ranks that do not exist, and second copies that do not
// match the first.
func (p *Pipeline) checkPlacement() error {
	for _, r := range p.Placement.First {
		if r < 0 || int(r) >= p.Shape.Ranks {
			return fmt.Errorf("placement on rank %d: the ranks are 0 to %d", r, p.Shape.Ranks-1)
		}
	}
	if second := len(p.Placement.Second); p.Placement.Second != nil && second != p.Placement.Stages() {
		return fmt.Errorf("second copies of %d stages; there are %d", second, p.Placement.Stages())
	}
	for s, r := range p.Placement.Second {
		switch {
		case r < 0 || int(r) >= p.Shape.Ranks:
			return fmt.Errorf("second copy on rank %d: the ranks are 0 to %d", r, p.Shape.Ranks-1)
		case r == p.Placement.First[s]:
			return fmt.Errorf("both copies of stage %d are on rank %d", s, r)
		}
	}
	return nil
}

// checkTied reports tied parameters of stages that do not exist.
func (p *Pipeline) checkTied() error {
	for i, t := range p.Tied {
		if len(t.Stages) == 0 {
			return fmt.Errorf("tied parameter %d names no stage", i)
		}
		for _, s := range t.Stages {
			if s < 0 || s >= p.Placement.Stages() {
				return errors.New("a tied parameter names a stage that does not exist")
			}
		}
	}
	return nil
}

// checkStashing reports options that do not work when stages are updated one by one.
func (p *Pipeline) checkStashing() error {
	if !p.Stashing {
		return nil
	}
	for _, t := range p.Tied {
		if len(p.tiedRanks(t)) > 1 {
			return fmt.Errorf("name = %q: stages %d and %d hold the same parameter, and would update it apart "+
				"from each other; set model.tied = false, or schedule.stages = 1", p.Name, t.Stages[0], t.Stages[1])
		}
	}
	if w := p.Sync.width(); w > 1 {
		return fmt.Errorf("name = %q: updates a stage after every microbatch, which is not modelled over parts "+
			"of a sequence; set parallel.context = 1, not %d", p.Name, w)
	}
	return OneReplica(p.Shape)
}

// OneReplica refuses data-parallel replicas: their updates would have to be summed one by one.
func OneReplica(s graph.Shape) error {
	if s.Replicas > 1 {
		return fmt.Errorf(`name = "pipedream": updates a stage after every microbatch, which is not modelled `+
			`over replicas; set parallel.data = 1, not %d`, s.Replicas)
	}
	return nil
}
