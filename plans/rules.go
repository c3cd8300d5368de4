package plans

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"psim/costmodel/group"
	"psim/schedules"
	"psim/schedules/graph"
)

// mostVirtual bounds the stages of a rank where nobody asks for more: messages grow
// with them.
const mostVirtual = 8

func numbers(from, to int) []string {
	var list []string
	for n := from; n <= to; n++ {
		list = append(list, strconv.Itoa(n))
	}
	return list
}

func (s *Space) tensors(*Plan) []string {
	return slices.DeleteFunc(divisors(int64(s.Devices)), func(text string) bool {
		n, _ := strconv.Atoi(text)
		return s.perNode > 0 && s.perNode%n != 0
	})
}

// legalTensor wants groups that divide heads and all else that they share, and nodes.
func (s *Space) legalTensor(p *Plan) bool {
	whole := s.perNode == 0 || s.perNode%p.Tensor == 0 || p.Tensor%s.perNode == 0
	return p.Tensor > 0 && s.Devices%p.Tensor == 0 && whole && !(s.config.Train.TwoPass() && p.Tensor > 1) && (s.divides(p, false) || s.divides(p, true))
}

func (s *Space) stages(p *Plan) []string { return divisors(int64(s.ranks(p))) }

func (s *Space) legalStages(p *Plan) bool {
	return p.Stages > 0 && s.ranks(p)%p.Stages == 0 && p.Stages <= max(1, s.blocks)
}

func (s *Space) replicas(p *Plan) []string {
	return []string{strconv.Itoa(s.ranks(p) / p.Stages)}
}

// legalReplicas wants all devices used, and equal shares of the batch.
func (s *Space) legalReplicas(p *Plan) bool {
	return p.Data > 0 && p.Data*p.Stages == s.ranks(p) && s.Global%int64(p.Data) == 0
}

func (s *Space) micro(p *Plan) []string { return divisors(s.Global / int64(p.Data)) }

func (s *Space) legalMicro(p *Plan) bool {
	return p.Micro > 0 && s.Global/int64(p.Data)%p.Micro == 0
}

func (s *Space) microbatches(p *Plan) []string {
	return []string{strconv.FormatInt(s.Global/int64(p.Data)/p.Micro, 10)}
}

func (s *Space) legalMicrobatches(p *Plan) bool {
	return int64(p.Microbatches)*p.Micro*int64(p.Data) == s.Global
}

// names lists the schedules for a number of stages. One that updates without waiting for
// the whole batch trains something else, and is there only if the configuration has
// it or somebody asks for it; orders that are searched for take long, and are there
// only if somebody asks.
func (s *Space) names(p *Plan) []string {
	var names []string
	for _, one := range schedules.Catalog() {
		if own := !one.Stashing || one.Name == s.config.Schedule.Name; own {
			names = append(names, one.Name)
		}
	}
	return names
}

func (s *Space) legalName(p *Plan) bool {
	one, known := s.schedules[p.Schedule]
	return known && one.Pipelined == (p.Stages > 1) && !(one.Stashing && p.Context > 1) && !(s.config.Train.TwoPass() && s.kinds[p.Schedule] != wholeOrder && s.kinds[p.Schedule] != serialOrder)
}

func (s *Space) virtual(p *Plan) []string {
	one := s.schedules[p.Schedule]
	switch {
	case !one.Virtual:
		return numbers(max(1, one.PerRank), max(1, one.PerRank))
	}
	return numbers(1, mostVirtual)
}

// legalVirtual wants a shape that the schedule serves, and where a rank has several
// stages as many blocks in each, or with the embedding and the head as many layers. With
// one stage per rank a schedule for several is another of the catalog.
func (s *Space) legalVirtual(p *Plan) bool {
	one := s.schedules[p.Schedule]
	shape := s.shape(p)
	if one.Virtual && shape.Virtual < max(1, one.PerRank) || shape.Virtual != p.VirtualStages || one.Check(shape) != nil {
		return false
	}
	if p.VirtualStages == 1 && one.Single != "" && slices.Contains(s.valuesOf(p, "schedule.name", s.names(p)), one.Single) {
		return false
	}
	stages := len(one.Placement(shape).First)
	return stages <= s.blocks && (p.VirtualStages == 1 || s.blocks%stages == 0 || (s.blocks+2)%stages == 0)
}

// shape sizes a plan's schedule.
func (s *Space) shape(p *Plan) graph.Shape {
	return s.schedules[p.Schedule].Sized(graph.Shape{Ranks: p.Stages, Virtual: p.VirtualStages, Microbatches: p.Microbatches, Replicas: p.Data})
}

// recomputes lists what recomputation is tried: for networks with experts or latent
// attention by modules, too, as Megatron-LM recommends them, from the cheapest on.
func (s *Space) recomputes(*Plan) []string {
	list := []string{"none", "selective", "full"}
	if s.mixed > 0 || s.differing["mla_up_proj"] {
		list = append(list, "norm", "moe_act", "moe_act,norm", "mla_up_proj", "norm,mla_up_proj", "moe_act,norm,mla_up_proj", "mlp", "moe")
	}
	return list
}

// legalRecompute leaves out what the network has not, and what repeats nothing, or the same
// as another value.
func (s *Space) legalRecompute(p *Plan) bool {
	differs, known := s.differing[p.Recompute]
	if !known {
		differs = s.repeating(p.Recompute)
		s.differing[p.Recompute] = differs
	}
	return differs
}

// repeating reports whether a recomputation is possible, and repeats other operations than
// those before.
func (s *Space) repeating(recompute string) bool {
	t := s.config.Train
	t.Recompute = recompute
	if t.Validate() != nil || t.Check(s.network) != nil {
		return false
	}
	var again strings.Builder
	for i, l := range s.network.Layers {
		if i > 0 && l.Shares(s.network.Layers[i-1]) {
			continue
		}
		fmt.Fprintf(&again, "layer %d:", i)
		for _, op := range t.Repeated(l) {
			fmt.Fprintf(&again, " %s", op.Name)
		}
	}
	same := s.operations[again.String()]
	s.operations[again.String()] = true
	return !same
}

func (s *Space) zeros(*Plan) []string { return numbers(0, 3) }

// legalZero wants replicas to shard over. psim models second copies of stages with at most
// a sharded optimizer, and sharded parameters without pipelines.
func (s *Space) legalZero(p *Plan) bool {
	switch {
	case p.Zero < 0 || p.Zero > 3:
		return false
	case p.Zero == 0:
		return true
	case p.Zero == 3 && (p.Schedule != "ddp" || p.Expert > 1):
		return false
	}
	return p.Data*p.Context > 1 && (p.Zero == 1 || s.schedules[p.Schedule].Placement(s.shape(p)).Second == nil)
}

func (s *Space) sequences(*Plan) []string { return []string{"false", "true"} }

func (s *Space) legalSequence(p *Plan) bool {
	return (p.Tensor > 1 || !p.Sequence) && s.divides(p, p.Sequence)
}

// divides reports whether the devices of a rank, and of its expert group, can share the
// network.
func (s *Space) divides(p *Plan, sequence bool) bool {
	group := group.Group{
		Devices: p.Tensor, Sequence: sequence, Context: p.Context, Method: s.config.Parallel.ContextMethod,
		Expert: p.Expert, ExpertTensor: p.ExpertTensor,
	}
	fits, known := s.divided[group]
	if !known {
		_, err := s.model.On(group)
		fits = err == nil
		s.divided[group] = fits
	}
	return fits
}
