package plans

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"psim/configs/parallel"
	"psim/costmodel/group"
	"psim/schedules"
	"psim/schedules/graph"
)

// mostVirtual bounds the stages of a rank unless the query asks for more: the number of
// messages grows with them.
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
		return s.devicesPerNode > 0 && s.devicesPerNode%n != 0
	})
}

// legalTensor requires groups that fill nodes or divide them, and that can divide the
// network.
func (s *Space) legalTensor(p *Plan) bool {
	return p.Tensor > 0 && s.Devices%p.Tensor == 0 && s.fillsNodes(p.Tensor) && s.legalGroup(p, p.Tensor)
}

// fillsNodes reports whether a group of devices lies within a node, or fills several.
func (s *Space) fillsNodes(devices int) bool {
	return s.devicesPerNode == 0 || s.devicesPerNode%devices == 0 || devices%s.devicesPerNode == 0
}

// legalGroup reports whether the devices of a rank can divide the network; size counts
// them along the dimension that was just chosen. A backward in two passes is modelled for
// one device.
func (s *Space) legalGroup(p *Plan, size int) bool {
	return !(s.config.Train.TwoPass() && size > 1) && (s.divides(p, false) || s.divides(p, true))
}

func (s *Space) stages(p *Plan) []string { return divisors(int64(s.ranks(p))) }

func (s *Space) legalStages(p *Plan) bool {
	most := max(1, s.blocks)
	if s.config.Train.OffloadActivations > 0 {
		most = 1 // modelled without a pipeline
	}
	return p.Stages > 0 && s.ranks(p)%p.Stages == 0 && p.Stages <= most
}

func (s *Space) replicas(p *Plan) []string {
	return []string{strconv.Itoa(s.ranks(p) / p.Stages)}
}

// legalReplicas requires that all devices are used, and have equal shares of the batch.
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

// ownNames lists the schedules of the catalog. A schedule that updates before the whole batch
// is done trains differently, so it is listed only if the configuration has it. Orders
// that are searched for take long and are tried only if the query asks for them.
func (s *Space) ownNames() []string {
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
	kind := s.orderKinds[p.Schedule]
	if s.config.Train.TwoPass() && kind != wholeOrder && kind != serialOrder {
		return false
	}
	return known && one.Pipelined == (p.Stages > 1) && !(one.Stashing && p.Context > 1)
}

func (s *Space) virtual(p *Plan) []string {
	one := s.schedules[p.Schedule]
	if !one.Virtual {
		return numbers(max(1, one.PerRank), max(1, one.PerRank))
	}
	return numbers(1, mostVirtual)
}

// legalVirtual requires a shape that the schedule serves. If a rank has several stages,
// these must have equal numbers of blocks, or of layers counting embedding and head. With
// one stage per rank, a schedule for several stages repeats its Single of the catalog.
func (s *Space) legalVirtual(p *Plan) bool {
	one := s.schedules[p.Schedule]
	shape := s.shape(p)
	tooFew := one.Virtual && shape.Virtual < max(1, one.PerRank)
	if tooFew || shape.Virtual != p.VirtualStages || one.Check(shape) != nil {
		return false
	}
	if p.VirtualStages == 1 && one.Single != "" {
		if names := s.valuesOf(p, "schedule.name", s.names); slices.Contains(names, one.Single) {
			return false
		}
	}
	stages := s.placed(p).stages
	return stages <= s.blocks && (p.VirtualStages == 1 || s.blocks%stages == 0 || (s.blocks+2)%stages == 0)
}

// shape returns the shape of a plan's schedule.
func (s *Space) shape(p *Plan) graph.Shape {
	return s.schedules[p.Schedule].Sized(graph.Shape{
		Ranks: p.Stages, Virtual: p.VirtualStages, Microbatches: p.Microbatches, Replicas: p.Data,
	})
}

// recomputes lists the recomputations to try. For networks with experts or latent
// attention these include lists of modules that Megatron-LM recommends, the cheapest
// first.
func (s *Space) recomputes(*Plan) []string {
	list := []string{"none", "selective", "full"}
	if s.layerExperts > 0 || s.distinctRecompute["mla_up_proj"] {
		list = append(list, "norm", "moe_act", "moe_act,norm", "mla_up_proj", "norm,mla_up_proj",
			"moe_act,norm,mla_up_proj", "mlp", "moe")
	}
	return list
}

// legalRecompute refuses modules that the network does not have, and recomputations that
// repeat no operation, or the same operations as another value.
func (s *Space) legalRecompute(p *Plan) bool {
	differs, known := s.distinctRecompute[p.Recompute]
	if !known {
		differs = s.noteRecompute(p.Recompute)
		s.distinctRecompute[p.Recompute] = differs
	}
	return differs
}

// noteRecompute reports whether a recomputation is possible and repeats other operations
// than all recomputations noted before.
func (s *Space) noteRecompute(recompute string) bool {
	t := s.config.Train.Options
	t.Recompute = recompute
	if t.Validate() != nil || t.Check(s.network) != nil {
		return false
	}
	var repeats strings.Builder
	for i, l := range s.network.Layers {
		if i > 0 && l.Shares(s.network.Layers[i-1]) {
			continue
		}
		fmt.Fprintf(&repeats, "layer %d:", i)
		for _, op := range t.Repeated(l) {
			fmt.Fprintf(&repeats, " %s", op.Name)
		}
	}
	seen := s.seenRepeats[repeats.String()]
	s.seenRepeats[repeats.String()] = true
	return !seen
}

func (s *Space) zeros(*Plan) []string { return numbers(0, 3) }

// legalZero requires replicas to shard over. psim models schedules with second copies of
// stages up to ZeRO 1, and ZeRO 3 only without pipelines. Groups of replicas that are given have to suit.
func (s *Space) legalZero(p *Plan) bool {
	sharing := s.config.Parallel
	sharing.Data, sharing.Zero, sharing.Context = p.Data, p.Zero, p.Context
	sharing.Tensor, sharing.Expert, sharing.ExpertTensor = p.Tensor, p.Expert, p.ExpertTensor
	switch {
	case p.Zero < 0 || p.Zero > 3 || sharing.CheckGroups() != nil:
		return false
	case p.Zero == 0:
		return true
	case p.Zero == 3 && p.Schedule != "ddp":
		return false
	}
	return p.Data*p.Context > 1 && (p.Zero == 1 || !s.placed(p).twice)
}

func (s *Space) sequences(*Plan) []string { return []string{"false", "true"} }

func (s *Space) legalSequence(p *Plan) bool {
	return (p.Tensor > 1 || !p.Sequence) && s.divides(p, p.Sequence)
}

// divides reports whether the network divides over the devices of a rank and of its expert
// group.
func (s *Space) divides(p *Plan, sequence bool) bool {
	group := group.Group{
		Devices: p.Tensor, Sequence: sequence, Context: p.Context, Method: s.config.Parallel.ContextMethod,
		Expert: p.Expert, ExpertTensor: p.ExpertTensor,
	}
	fits, known := s.divisible[group]
	if !known {
		fits = s.divider.Check(group) == nil
		s.divisible[group] = fits
	}
	return fits
}

// leastPart is the smallest number of tokens in a part of a sequence unless the query asks
// for less: context parallelism is for long sequences.
const leastPart = 4096

// ranks counts the ranks of all replicas.
func (s *Space) ranks(p *Plan) int { return s.Devices / p.Tensor / p.Context }

// contexts lists the numbers of parts of a sequence whose devices are in one node.
func (s *Space) contexts(p *Plan) []string {
	return slices.DeleteFunc(divisors(int64(s.Devices/p.Tensor)), func(text string) bool {
		n, _ := strconv.Atoi(text)
		acrossNodes := s.devicesPerNode > 0 && s.devicesPerNode%(p.Tensor*n) != 0
		return n > 1 && (acrossNodes || s.network.TokensPerSample/n < leastPart)
	})
}

// legalContext requires parts that divide sequences and devices, and fill nodes or divide
// them.
func (s *Space) legalContext(p *Plan) bool {
	devices := p.Tensor * p.Context
	return p.Context > 0 && s.Devices%devices == 0 && s.fillsNodes(devices) && s.legalGroup(p, p.Context)
}

// experts lists the sizes of expert groups: divisors of the experts.
func (s *Space) experts(*Plan) []string { return divisors(int64(max(1, s.layerExperts))) }

// expertTensors lists the numbers of devices that divide an expert: one, or those of a
// tensor-parallel group.
func (s *Space) expertTensors(p *Plan) []string {
	least, tensor := "0", strconv.Itoa(p.Tensor) // 0 is the default
	if s.config.Defined("parallel.expert_tensor") {
		least = "1"
	}
	switch {
	case p.Expert == 1 && least == "0":
		return []string{"0"}
	case p.Expert == 1 || p.Tensor == 1 && least == "1":
		return []string{tensor}
	case p.Tensor == 1:
		return []string{"0"}
	}
	return []string{least, tensor}
}

// legalExpert requires expert groups that lie within ranks or consist of whole ranks.
func (s *Space) legalExpert(p *Plan) bool {
	if p.Expert == 1 && p.ExpertTensor == 0 {
		return true
	}
	shape := parallel.Options{
		Tensor: p.Tensor, Context: p.Context, Data: p.Data,
		Expert: p.Expert, ExpertTensor: p.ExpertTensor, Sequence: p.Tensor > 1,
	}
	return p.Expert > 0 && s.layerExperts > 0 && !s.config.Train.TwoPass() &&
		shape.Validate() == nil && s.divides(p, p.Tensor > 1)
}
