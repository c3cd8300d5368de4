package stages

import (
	"fmt"

	"psim/costmodel/network"
)

// A Flat is tensors laid end to end and filled up with zeros, of which every replica
// holds an equal part: PyTorch's flat parameter.
type Flat struct {
	Name       string
	Tensors    []network.Tensor
	Parameters int64
	Stored     int64 // Parameters and zeros
	Narrow     int64 // of Parameters, weights that travel in fewer than 16 bits; with PerTensor none
}

// flats lays the tensors that a stage's layers hold end to end, in the order in which
// these list them: all, or with PerTensor each by itself.
func (staged *Staged) flats(stage int, held [][]network.Tensor) []Flat {
	var flats []Flat
	for _, tensors := range held {
		for _, t := range tensors {
			if staged.PerTensor || flats == nil {
				flats = append(flats, Flat{Name: fmt.Sprintf("unit %d.%d", stage, len(flats))})
			}
			f := &flats[len(flats)-1]
			f.Tensors, f.Parameters = append(f.Tensors, t), f.Parameters+t.Shape.Elements()
			f.Stored = roundUp(f.Parameters, int64(staged.holders()))
		}
	}
	return flats
}

// GatheredFlats lists, under ZeRO 3, what is gathered for a stage, and what its gradients
// are scattered as, by collective: the flats of all its Units together, or with
// PerTensor each by itself.
func (staged *Staged) GatheredFlats(stage int) [][]Flat {
	var all []Flat
	for _, owner := range staged.Stages[stage].Units {
		all = append(all, staged.Stages[owner].Flats...)
	}
	if len(all) == 0 {
		return nil
	}
	if !staged.PerTensor {
		return [][]Flat{all}
	}
	var each [][]Flat
	for i := range all {
		each = append(each, all[i:i+1])
	}
	return each
}

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

// HeldExtra counts the bytes that a stage's narrow weights take from step to step beside
// what they would in 16 bits. ZeRO 3 keeps a share of what it gathers, fp32 shards none.
func (staged *Staged) HeldExtra(s *Stage) int64 {
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

// UnitBytes counts the bytes of a flat that was gathered, with both copies of its narrow weights.
func (staged *Staged) UnitBytes(f Flat) int64 {
	return f.Parameters*staged.PerParameter.Parameter + staged.Training.HeldExtra(f.Narrow)
}

// updated counts the bytes that the replicas gather of parameters that were updated, so many
// of them narrow.
func (staged *Staged) updatedBytes(parameters, narrow int64) int64 {
	return parameters*staged.PerParameter.Parameter + staged.Training.GatheredExtra(narrow)
}
