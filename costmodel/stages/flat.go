package stages

import (
	"cmp"
	"fmt"
	"slices"

	"psim/costmodel/network"
)

// A Flat is a row of tensors, laid end to end and padded with zeros so that it divides into equal
// parts, one for each device that shares them. PyTorch calls it a flat parameter.
type Flat struct {
	Name       string
	Tensors    []network.Tensor
	Parameters int64
	Stored     int64 // Parameters and padding
	Narrow     int64 // those of Parameters that are gathered in fewer than 16 bits; 0 with PerTensor
	Frozen     int64 // bytes of frozen tensors, which are gathered with the others and have no gradients
}

// flats returns the flats of a stage, given the tensors that its layers hold: one flat, or with
// PerTensor one for each tensor.
func (staged *Staged) flats(stage int, held [][]network.Tensor) []Flat {
	all := slices.Concat(held...)
	if len(all) == 0 {
		return nil
	}
	each := len(all)
	if staged.PerTensor {
		each = 1
	}
	var flats []Flat
	for tensors := range slices.Chunk(all, each) {
		f := Flat{Name: fmt.Sprintf("unit %d.%d", stage, len(flats)), Tensors: tensors}
		for i := range tensors {
			f.Parameters += tensors[i].Shape.Elements()
		}
		f.Stored = roundUp(f.Parameters, int64(staged.sharers()))
		flats = append(flats, f)
	}
	return flats
}

// addStates adds what an optimizer keeps and computes for tensors that a layer brings, where that depends on
// their shapes.
func (w *Workload) addStates(st *Stage, l network.Layer, held []network.Tensor) {
	var parameters int64
	for _, t := range held {
		parameters += t.Shape.Elements()
		if w.Training.ByTensor() {
			st.States += w.Training.TensorState(l, t)
			flops, products := w.Training.UpdateFLOPs(l, t)
			st.UpdateFLOPs, st.UpdateProducts = st.UpdateFLOPs+flops, st.UpdateProducts+products
		}
	}
	st.Widest = max(st.Widest, parameters)
}

// StatesOf returns the bytes that a device holds of the optimizer's states that depend on shapes, if its
// memory has them.
func (staged *Staged) StatesOf(st *Stage) int64 {
	if staged.Training.Paged() {
		return 0
	}
	return staged.Share(st.States, 1)
}

// unpacked returns the bytes of the largest weight that a product makes of the one that is held. Each is freed after
// its product.
func unpacked(layers []network.Layer) (bytes int64) {
	for _, l := range layers {
		for _, o := range l.Ops {
			bytes = max(bytes, o.Format.Made(o.Weights()))
		}
	}
	return bytes
}

// addFrozen adds the frozen tensors of a stage: to its flat, or with PerTensor as flats of their own.
func (staged *Staged) addFrozen(flats []Flat, split Split, stage int) []Flat {
	element := staged.Training.ActivationElement()
	for i := range split.Stage(stage) {
		for _, t := range split.frozen(stage, i) {
			if staged.PerTensor || flats == nil {
				flats = append(flats, Flat{Name: fmt.Sprintf("unit %d.%d", stage, len(flats))})
			}
			flats[len(flats)-1].Frozen += t.Format.Bytes(t.Shape.Elements(), element)
		}
	}
	return flats
}

// GatheredFlats lists, under ZeRO 3, the flats of each collective that gathers parameters for a
// stage or scatters their gradients: the flats of all its Units in one collective, or with
// PerTensor one collective for each.
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
	slices.SortStableFunc(all, func(a, b Flat) int { // those with gradients first, as they are scattered
		return cmp.Compare(min(1, b.Parameters), min(1, a.Parameters))
	})
	var each [][]Flat
	for i := range all {
		each = append(each, all[i:i+1])
	}
	return each
}

// narrowWeights returns the number of weights of layers in products of fewer than 16 bits, and
// the number of them that belong to experts.
func narrowWeights(layers []network.Layer) (all, experts int64) {
	for _, l := range layers {
		for _, o := range l.Ops {
			if o.Bits == 0 || o.Frozen {
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

// HeldExtra returns the bytes that a stage's narrow weights take from step to step in addition to
// 16 bits each. ZeRO 3 keeps a share of the narrow copies, unless it shards fp32 weights.
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

// UnitBytes returns the bytes of a flat that has been gathered, with both copies of its narrow
// weights.
func (staged *Staged) UnitBytes(f Flat) int64 {
	return f.Parameters*staged.PerParameter.Parameter + staged.Training.HeldExtra(f.Narrow) + f.Frozen
}

// updatedBytes returns the bytes that replicas gather of updated parameters, given the number of
// narrow ones among them.
func (staged *Staged) updatedBytes(parameters, narrow int64) int64 {
	return parameters*staged.PerParameter.Parameter + staged.Training.GatheredExtra(narrow)
}
