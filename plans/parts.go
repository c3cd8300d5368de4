package plans

import (
	"slices"
	"strconv"

	"psim/configs/parallel"
)

// leastPart counts the tokens that a part of a sequence keeps where nobody asks for
// less: long sequences are what context parallelism is for.
const leastPart = 4096

// ranks counts the ranks of all replicas.
func (s *Space) ranks(p *Plan) int { return s.Devices / p.Tensor / p.Context }

// contexts lists the parts of a sequence whose devices are in one node.
func (s *Space) contexts(p *Plan) []string {
	return slices.DeleteFunc(divisors(int64(s.Devices/p.Tensor)), func(text string) bool {
		n, _ := strconv.Atoi(text)
		return n > 1 && (s.perNode > 0 && s.perNode%(p.Tensor*n) != 0 || s.network.TokensPerSample/n < leastPart)
	})
}

// legalContext wants parts that divide sequences, devices and nodes.
func (s *Space) legalContext(p *Plan) bool {
	devices := p.Tensor * p.Context
	whole := s.perNode == 0 || s.perNode%devices == 0 || devices%s.perNode == 0
	return p.Context > 0 && s.Devices%devices == 0 && whole && !(s.config.Train.TwoPass() && p.Context > 1) && (s.divides(p, false) || s.divides(p, true))
}

// experts lists the sizes of expert groups: divisors of the experts.
func (s *Space) experts(*Plan) []string { return divisors(int64(max(1, s.mixed))) }

// expertTensors lists how many devices divide an expert: one, or those of a
// tensor-parallel group.
func (s *Space) expertTensors(p *Plan) []string {
	least, tensor := "0", strconv.Itoa(p.Tensor) // 0 leaves it open
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

// legalExpert wants groups that lie within ranks, or are whole ones.
func (s *Space) legalExpert(p *Plan) bool {
	if p.Expert == 1 && p.ExpertTensor == 0 {
		return true
	}
	shape := parallel.Options{Tensor: p.Tensor, Context: p.Context, Data: p.Data, Expert: p.Expert, ExpertTensor: p.ExpertTensor, Sequence: p.Tensor > 1}
	return p.Expert > 0 && s.mixed > 0 && !s.config.Train.TwoPass() && shape.Validate() == nil && s.divides(p, p.Tensor > 1)
}
