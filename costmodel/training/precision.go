package training

import (
	"errors"
	"fmt"
	"slices"

	"psim/costmodel/network"
)

// The precisions of Training that compute the linear layers of blocks in fewer than 16
// bits, and all else as bf16 does.
const (
	PrecisionFP8   = "fp8"
	PrecisionMXFP8 = "mxfp8" // with a scale for every 32 numbers
	PrecisionNVFP4 = "nvfp4" // 4 bits, with a scale for every 16
)

// The legal values of Training.FP8Recipe: how numbers are scaled to what 8 bits hold, as
// Transformer Engine's recipes do.
const (
	// RecipeDelayed has a scale for a tensor, which follows from the largest values of
	// earlier steps.
	RecipeDelayed = "delayed"
	// RecipeCurrent finds the largest value of every tensor first.
	RecipeCurrent = "current"
	// RecipeBlockwise has a scale for every 128 numbers, and for every 128 × 128 of a weight
	// (DeepSeek-V3, section 3.3.2).
	RecipeBlockwise = "blockwise"
)

// The legal values of Training.Weights: what the weights of such products are held in.
const (
	Weights8  = "8-bit"
	Weights16 = "16-bit"
)

// Precisions lists what Training.Precision may be.
func Precisions() []string {
	return []string{"fp32", "fp16", "bf16", PrecisionFP8, PrecisionMXFP8, PrecisionNVFP4}
}

// Narrow reports whether linear layers are computed in fewer than 16 bits.
func (t Options) Narrow() bool {
	return t.Precision == PrecisionFP8 || t.Precision == PrecisionMXFP8 || t.Precision == PrecisionNVFP4
}

// Base is the precision of all else.
func (t Options) Base() string {
	if t.Narrow() {
		return "bf16"
	}
	return t.defaults().Precision
}

// checkNarrow wants a precision below 16 bits for what says how that is done.
func (t Options) checkNarrow() error {
	for _, given := range []struct {
		key string
		is  bool
	}{
		{fmt.Sprintf("fp8_recipe = %q", t.FP8Recipe), t.FP8Recipe != "" && t.Precision != PrecisionFP8},
		{fmt.Sprintf("weights = %q", t.Weights), t.Weights != "" && !t.Narrow()},
		{fmt.Sprintf("bf16_first = %d", t.BF16First), t.BF16First > 0 && !t.Narrow()},
		{fmt.Sprintf("bf16_last = %d", t.BF16Last), t.BF16Last > 0 && !t.Narrow()},
	} {
		switch {
		case given.is && t.Narrow():
			return fmt.Errorf("%s: goes with precision = \"fp8\"; %s has one recipe", given.key, t.Precision)
		case given.is:
			return fmt.Errorf("%s: has no effect with precision = %q; set precision to fp8, mxfp8 or nvfp4", given.key, t.defaults().Precision)
		}
	}
	if t.Precision == PrecisionNVFP4 && t.Weights == Weights8 {
		return errors.New(`weights = "8-bit": nvfp4 casts weights of 16 bits; remove weights`)
	}
	return nil
}

// A scaling is how numbers are made narrow.
type scaling struct {
	bits         int64 // of a number
	block, scale int64 // numbers that share a scale, and bytes of that; 0: one for a tensor
	reads        int64 // of the wide tensor, each a kernel: one finds the largest value
	copies       int64 // that are kept of a weight: one along rows, one along columns
}

// scaling finds that of the recipe. A tensor with one scale needs no copy along columns where
// tensor cores read narrow numbers both ways.
func (t Options) scaling() scaling {
	s := scaling{bits: 8, reads: 1, copies: 2}
	switch {
	case t.Precision == PrecisionMXFP8:
		s.block, s.scale = 32, 1
	case t.Precision == PrecisionNVFP4:
		s.bits, s.block, s.scale, s.reads = 4, 16, 1, 3
	case t.FP8Recipe == RecipeBlockwise:
		s.block, s.scale = 128, 4
	default:
		if t.FP8Recipe != RecipeDelayed {
			s.reads = 2
		}
		if t.BothWays {
			s.copies = 1
		}
	}
	return s
}

// bytes counts those of n numbers and their scales.
func (s scaling) bytes(n int64) int64 {
	b := (n*s.bits + 7) / 8
	if s.block > 0 {
		b += (n + s.block - 1) / s.block * s.scale
	}
	return b
}

// weights8 reports whether weights are held in 8 bits alone. Megatron's recipes do that but
// for scales of 128 numbers and for 4 bits (Megatron-Bridge, training/mixed_precision.py).
func (t Options) weights8() bool {
	if t.Weights != "" || t.Precision == PrecisionNVFP4 {
		return t.Weights == Weights8
	}
	return t.FP8Recipe != RecipeBlockwise
}

// HeldBeside counts the bytes that n weights of narrow products take beside 16 bits each;
// less than 0 where they come in the place of these.
func (t Options) HeldExtra(n int64) int64 {
	if n == 0 {
		return 0
	}
	s := t.scaling()
	held := s.copies * s.bytes(n)
	if t.weights8() {
		held -= 2 * n
	}
	return held
}

// GatheredBeside counts the bytes that n of them take less than 16 bits each, as a negative
// number, when replicas gather what they have updated. A weight with scales of 32 numbers
// is gathered in 16 bits, since both of its copies are made of these.
func (t Options) GatheredExtra(n int64) int64 {
	if n == 0 || !t.weights8() || t.Precision == PrecisionMXFP8 {
		return 0
	}
	return t.scaling().bytes(n) - 2*n
}

// CastBytes counts what a device moves once a step to make n weights narrow: each read in 16
// bits and its copies written, or where they were gathered narrow, the second copy made of
// the first.
func (t Options) CastBytes(n int64) int64 {
	s := t.scaling()
	if t.GatheredExtra(n) != 0 {
		return (s.copies - 1) * 2 * s.bytes(n)
	}
	return s.reads*2*n + s.copies*s.bytes(n)
}

// narrowed returns a network whose blocks have their products in the bits of the recipe, the
// casts before these, and the narrow operands among their buffers.
func (t Options) narrowed(n network.Network) network.Network {
	if !t.Narrow() {
		return n
	}
	whole := n.Layers
	n.Layers = slices.Clone(whole)
	first, last := t.narrowBlocks(whole)
	made := map[*network.Op]int{} // by the first operation, where it was made
	for i := first; i < last; i++ {
		l := &n.Layers[i]
		if !l.Repeatable || len(l.Ops) == 0 {
			continue
		}
		if at, ok := made[&l.Ops[0]]; ok && whole[i].Shares(whole[at]) {
			l.Ops, l.Buffers = n.Layers[at].Ops, n.Layers[at].Buffers
		} else {
			made[&l.Ops[0]] = i
			w := narrowing{scaling: t.scaling(), devices: int64(n.Group.TensorParts()), again: t.modules()}
			w.layer(l)
		}
		l.KeepsGradient = false // W needs a narrow one
	}
	return n
}

// CheckBlocks wants blocks in a network that the precision is of.
func (t Options) CheckBlocks(n network.Network) error {
	blocks := 0
	for _, l := range n.Layers {
		if l.IsBlock() {
			blocks++
		}
	}
	switch wide := t.BF16First + t.BF16Last; {
	case !t.Narrow():
		return nil
	case blocks == 0:
		return fmt.Errorf("precision = %q: is of the blocks of transformers, and %s has none; use bf16", t.Precision, n.Name)
	case t.BF16First >= blocks:
		return fmt.Errorf("bf16_first = %d: leaves none of the %d blocks of %s in %s", t.BF16First, blocks, n.Name, t.Precision)
	case wide >= blocks:
		return fmt.Errorf("bf16_last = %d: with bf16_first = %d leaves none of the %d blocks of %s in %s", t.BF16Last, t.BF16First, blocks, n.Name, t.Precision)
	}
	return nil
}

// narrowBlocks finds the layers from the first to before the last that are narrow.
func (t Options) narrowBlocks(layers []network.Layer) (first, end int) {
	var blocks []int
	for i, l := range layers {
		if l.Repeatable {
			blocks = append(blocks, i)
		}
	}
	if t.BF16First+t.BF16Last >= len(blocks) {
		return 0, 0
	}
	return blocks[t.BF16First], blocks[len(blocks)-1-t.BF16Last] + 1
}

// A Recipe is a way to compute products in fewer than 16 bits, in kernels and bytes.
type Recipe struct {
	Name    string
	Kernels int64 // that make a tensor narrow
	// Cast is what these move for a number, and Kept what stays of one that a product's W
	// needs.
	Cast, Kept float64
	// Held, Gathered and Step are of a weight: what it takes beside fp32 and its gradient,
	// what ZeRO 1 gathers of it, and what making it narrow moves once a step.
	Held, Gathered, Step float64
}

// Recipes lists them, as tensor cores need them that read narrow numbers along rows alone.
func Recipes() (list []Recipe) {
	for _, t := range []Options{
		{Precision: PrecisionFP8, FP8Recipe: RecipeDelayed}, {Precision: PrecisionFP8, FP8Recipe: RecipeCurrent},
		{Precision: PrecisionFP8, FP8Recipe: RecipeBlockwise}, {Precision: PrecisionMXFP8}, {Precision: PrecisionNVFP4},
	} {
		const n = 128 // whole blocks
		s, name := t.scaling(), t.Precision
		if t.FP8Recipe != "" {
			name += ", " + t.FP8Recipe
		}
		per := func(bytes int64) float64 { return float64(bytes) / n }
		list = append(list, Recipe{
			Name: name, Kernels: s.reads, Cast: per(s.reads*2*n + s.copies*s.bytes(n)), Kept: per(s.bytes(n)),
			Held: per(2*n + t.HeldExtra(n)), Gathered: per(2*n + t.GatheredExtra(n)), Step: per(t.CastBytes(n)),
		})
	}
	return list
}
