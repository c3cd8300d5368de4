package stages

import "psim/costmodel/network"

// narrowWeights counts the weights of layers that products have in fewer than 16 bits, and
// those of experts among them.
func narrowWeights(layers []network.Layer) (all, experts int64) {
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
// what they would in 16 bits. ZeRO 3 keeps a share of what it gathers, fp32 shards none.
func (staged *Staged) HeldBeside(s *Stage) int64 {
	switch {
	case !staged.Gathers():
		return staged.Training.HeldExtra(s.Narrow)
	case staged.Process.FP32Shards:
		return 0
	}
	var narrow int64
	for _, f := range s.Flats {
		narrow += f.Narrow
	}
	return -staged.Share(-staged.Training.GatheredExtra(narrow), 3)
}

// Unit counts the bytes of a flat that was gathered, with both copies of its narrow weights.
func (staged *Staged) Unit(f Flat) int64 {
	return f.Parameters*staged.PerParameter.Parameter + staged.Training.HeldExtra(f.Narrow)
}

// updated counts the bytes that the replicas gather of parameters that were updated, so many
// of them narrow.
func (staged *Staged) updated(parameters, narrow int64) int64 {
	return parameters*staged.PerParameter.Parameter + staged.Training.GatheredExtra(narrow)
}
