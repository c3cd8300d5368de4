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
	Experts    bool  // the tensors belong to experts that are divided differently from the rest
}

// flats returns the flats of a stage, given the tensors that its layers hold: one flat, or with
// PerTensor one for each tensor. Experts on other devices are a flat of their own.
func (staged *Staged) flats(stage int, held [][]network.Tensor) (flats []Flat) {
	all := slices.Concat(held...)
	rest := slices.DeleteFunc(slices.Clone(all), staged.dispatched)
	if experts := len(all) - len(rest); experts > 0 {
		all = slices.DeleteFunc(all, func(t network.Tensor) bool { return !staged.dispatched(t) })
		flats = append(flats, staged.flat(stage, 0, all))
	}
	each := max(1, len(rest))
	if staged.PerTensor {
		each = 1
	}
	for tensors := range slices.Chunk(rest, each) {
		flats = append(flats, staged.flat(stage, len(flats), tensors))
	}
	return flats
}

// flat lays tensors of a stage end to end.
func (staged *Staged) flat(stage, number int, tensors []network.Tensor) Flat {
	f := Flat{Name: flatName(stage, number), Tensors: tensors, Experts: staged.dispatched(tensors[0])}
	for i := range tensors {
		f.Parameters += tensors[i].Shape.Elements()
	}
	return f
}

// pad pads the flats of a stage, so that they divide into equal parts. Nothing else of them depends on the devices that
// share them.
func (staged *Staged) pad(st *Stage) {
	st.Stored = 0
	for i := range st.Flats {
		f := &st.Flats[i]
		f.Stored = roundUp(f.Parameters, staged.sharersOf(f))
		st.Stored += f.Stored
	}
}

func flatName(stage, number int) string { return fmt.Sprintf("unit %d.%d", stage, number) }

// sharersOf counts the devices that share a flat.
func (staged *Staged) sharersOf(f *Flat) int64 {
	if f.Experts {
		return int64(staged.expertReplicas())
	}
	return int64(staged.sharers())
}

// shareOfFlats returns the bytes that a device holds of what all flats of a stage take. Each share is rounded up.
func (staged *Staged) shareOfFlats(st *Stage, bytes func(*Flat) int64) (share int64) {
	for i := range st.Flats {
		f := &st.Flats[i]
		n := staged.sharersOf(f)
		share += roundUp(bytes(f), n) / n
	}
	return share
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
			experts := staged.dispatched(t)
			at := slices.IndexFunc(flats, func(f Flat) bool { return f.Experts == experts })
			if staged.PerTensor || at < 0 {
				at, flats = len(flats), append(flats, Flat{Name: flatName(stage, len(flats)), Experts: experts})
			}
			flats[at].Frozen += t.Format.Bytes(t.Shape.Elements(), element)
		}
	}
	return flats
}

// GatheredFlats lists, under ZeRO 3, the flats of each collective that gathers parameters for a
// stage or scatters their gradients: the flats of all its Units in one collective, or with
// PerTensor one collective for each. Experts on other devices have one before it, since a backward completes their
// gradients earlier.
func (staged *Staged) GatheredFlats(stage int) [][]Flat {
	var all []Flat
	for _, owner := range staged.Stages[stage].Units {
		all = append(all, staged.Stages[owner].Flats...)
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, func(a, b Flat) int { return cmp.Compare(kindOf(b.Experts), kindOf(a.Experts)) })
	together := [][]Flat{all}
	switch experts := slices.IndexFunc(all, func(f Flat) bool { return !f.Experts }); {
	case staged.PerTensor:
		together = slices.Collect(slices.Chunk(all, 1))
	case experts > 0:
		together = [][]Flat{all[:experts], all[experts:]}
	}
	slices.SortStableFunc(together, func(a, b []Flat) int { // those with gradients first, as they are scattered
		return cmp.Compare(min(1, parametersOf(b)), min(1, parametersOf(a)))
	})
	return together
}

// parametersOf counts the parameters of flats that are trained.
func parametersOf(flats []Flat) (n int64) {
	for i := range flats {
		n += flats[i].Parameters
	}
	return n
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
	return -staged.shareOfFlats(s, func(f *Flat) int64 { return -staged.Training.GatheredExtra(f.Narrow) })
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

// narrow counts, in the flats of a stage, the weights that are gathered in fewer than 16 bits. In flats of single
// tensors it counts no weights.
func (staged *Staged) narrow(st *Stage) {
	if staged.PerTensor && len(st.Flats) > 1 {
		return
	}
	for i := range st.Flats {
		switch f := &st.Flats[i]; {
		case !staged.Network.Group.Dispatches():
			f.Narrow = st.Narrow
		case f.Experts:
			f.Narrow = st.NarrowExperts
		default:
			f.Narrow = st.Narrow - st.NarrowExperts
		}
	}
}
