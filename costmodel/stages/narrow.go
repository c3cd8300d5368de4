package stages

import "psim/costmodel/arch"

// narrowWeights counts the weights of layers that products have in fewer than 16 bits, and
// those of experts among them.
func narrowWeights(layers []arch.Layer) (all, experts int64) {
	for _, l := range layers {
		for _, o := range l.Ops {
			if o.Bits == 0 {
				continue
			}
			all += o.Weights()
			if o.Experts > 0 {
				experts += o.Weights()
			}
		}
	}
	return all, experts
}

// HeldBeside counts the bytes that a stage's narrow weights take from step to step beside
// what they would in 16 bits. Under ZeRO 3 they are made anew from what is gathered.
func (p *Plan) HeldBeside(s *Stage) int64 {
	if p.Gathers() {
		return 0
	}
	return p.Training.HeldBeside(s.Narrow)
}

// updated counts the bytes that the replicas gather of parameters that were updated, so many
// of them narrow.
func (p *Plan) updated(parameters, narrow int64) int64 {
	return parameters*p.PerParameter.Parameter + p.Training.GatheredBeside(narrow)
}
