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

// Travels lists, under ZeRO 3, what is gathered for a stage, and what its gradients
// are scattered as, by collective: the flats of all its Units together, or with
// PerTensor each by itself.
func (staged *Staged) Travels(stage int) [][]Flat {
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
