package memory

import (
	"psim/costmodel/stages"
)

// Persistent is the memory of every rank that lasts from step to step:
// parameters, gradients and optimizer state, sharded over the replicas as
// Zero says (Rajbhandari et al. 2020, figure 1). A share is rounded up: to a
// byte, or with ZeRO 3 to a parameter of every stage.
func Persistent(p *stages.Plan, ranks int) []int64 {
	perReplica := make([]int64, ranks/max(1, p.Replicas))
	per := p.PerParameter
	for _, s := range p.Stages {
		for _, r := range s.Ranks {
			perReplica[r] += p.Share(s.Stored*per.Parameter, 3) + p.Share(s.Stored*per.Gradient, 2) + p.Share(s.Stored*per.Optimizer, 1)
		}
	}
	persistent := make([]int64, ranks)
	for r := range persistent {
		persistent[r] = perReplica[r%len(perReplica)]
	}
	return persistent
}
