package training

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"psim/costmodel/network"
)

// The precisions that compute the linear layers of blocks in fewer than 16 bits, and everything
// else in bf16.
const (
	PrecisionFP8   = "fp8"
	PrecisionMXFP8 = "mxfp8" // with a scale for every 32 numbers
	PrecisionNVFP4 = "nvfp4" // 4 bits, with a scale for every 16
)

// The values of Options.FP8Recipe: how numbers are scaled to the range of 8 bits. They are
// recipes of Transformer Engine.
const (
	// RecipeDelayed has one scale for a tensor, from the largest values of earlier steps.
	RecipeDelayed = "delayed"
	// RecipeCurrent has one scale for a tensor, from its largest value, which is found first.
	RecipeCurrent = "current"
	// RecipeBlockwise has a scale for every 128 numbers, and for every 128 × 128 of a weight
	// (DeepSeek-V3, section 3.3.2).
	RecipeBlockwise = "blockwise"
)

// The values of Options.Weights: how weights of narrow products are held.
const (
	Weights8  = "8-bit"
	Weights16 = "16-bit"
)

// The parts of Options.BF16Parts.
const (
	partAttention  = "attention"
	partLatent     = "latent"
	partPredictors = "mtp"
)

// Precisions lists the values of Options.Precision.
func Precisions() []string {
	return []string{"fp32", "fp16", "bf16", PrecisionFP8, PrecisionMXFP8, PrecisionNVFP4}
}

// Narrow reports whether linear layers are computed in fewer than 16 bits.
func (t Options) Narrow() bool {
	return t.Precision == PrecisionFP8 || t.Precision == PrecisionMXFP8 || t.Precision == PrecisionNVFP4
}

// Bits counts the bits of the numbers that linear layers multiply.
func (t Options) Bits() int {
	switch {
	case t.Narrow():
		return int(t.scaling().bits)
	case t.Base() == "fp32":
		return 32
	}
	return 16
}

// Base is the precision of everything but narrow products.
func (t Options) Base() string {
	if t.Narrow() {
		return "bf16"
	}
	return t.defaults().Precision
}

// checkNarrow refuses keys about narrow numbers with a precision that they do not apply to.
func (t Options) checkNarrow() error {
	for _, key := range []struct {
		text  string
		wrong bool
	}{
		{fmt.Sprintf("fp8_recipe = %q", t.FP8Recipe), t.FP8Recipe != "" && t.Precision != PrecisionFP8},
		{fmt.Sprintf("weights = %q", t.Weights), t.Weights != "" && !t.Narrow()},
		{fmt.Sprintf("bf16_first = %d", t.BF16First), t.BF16First > 0 && !t.Narrow()},
		{fmt.Sprintf("bf16_last = %d", t.BF16Last), t.BF16Last > 0 && !t.Narrow()},
		{fmt.Sprintf("bf16_parts = %q", t.BF16Parts), t.BF16Parts != "" && t.BF16Parts != "none" && !t.Narrow()},
	} {
		switch {
		case key.wrong && t.Narrow():
			return fmt.Errorf("%s: goes with precision = \"fp8\"; %s has one recipe", key.text, t.Precision)
		case key.wrong:
			return fmt.Errorf("%s: has no effect with precision = %q; set precision to fp8, mxfp8 or nvfp4",
				key.text, t.defaults().Precision)
		}
	}
	if t.Precision == PrecisionNVFP4 && t.Weights == Weights8 {
		return errors.New(`weights = "8-bit": nvfp4 casts weights of 16 bits; remove weights`)
	}
	return nil
}

// A scaling is the way in which a recipe makes numbers narrow.
type scaling struct {
	bits         int64 // of a narrow number
	block, scale int64 // numbers that share a scale, and its bytes; 0 if a tensor has one scale
	reads        int64 // kernels that read the wide tensor; all but one find its largest value
	copies       int64 // narrow copies of a weight: along rows, and maybe along columns
}

// scaling returns the scaling of the recipe. A tensor with one scale needs no copy along columns
// if tensor cores read narrow numbers both ways.
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

// bytes returns the size of n narrow numbers with their scales.
func (s scaling) bytes(n int64) int64 {
	b := (n*s.bits + 7) / 8
	if s.block > 0 {
		b += (n + s.block - 1) / s.block * s.scale
	}
	return b
}

// weights8 reports whether weights are held only in 8 bits. That is the default, except with scales of
// 128 numbers and with 4 bits (Megatron-Bridge, training/mixed_precision.py).
func (t Options) weights8() bool {
	if t.Weights != "" || t.Precision == PrecisionNVFP4 {
		return t.Weights == Weights8
	}
	return t.FP8Recipe != RecipeBlockwise
}

// HeldExtra returns the bytes that n weights of narrow products take in addition to 16 bits
// each. It is negative if the narrow copies replace those of 16 bits.
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

// GatheredExtra returns the same for n weights that replicas gather after an update: 0, or
// negative if they are gathered in 8 bits. A weight with a scale for 32 numbers is gathered in
// 16 bits, since both of its copies are made from these.
func (t Options) GatheredExtra(n int64) int64 {
	if n == 0 || !t.weights8() || t.Precision == PrecisionMXFP8 {
		return 0
	}
	return t.scaling().bytes(n) - 2*n
}

// CastBytes returns the bytes that a device moves once a step to make n weights narrow: it reads
// 16 bits and writes the copies, or makes the second copy from the first if weights were
// gathered narrow.
func (t Options) CastBytes(n int64) int64 {
	s := t.scaling()
	if t.GatheredExtra(n) != 0 {
		return (s.copies - 1) * 2 * s.bytes(n)
	}
	return s.reads*2*n + s.copies*s.bytes(n)
}

// narrowed returns a network with narrow products in its blocks, casts before them, and narrow
// operands among the buffers.
func (t Options) narrowed(n network.Network) network.Network {
	if !t.Narrow() {
		return n
	}
	whole := n.Layers
	n.Layers = slices.Clone(whole)
	narrow := t.narrowBlocks(whole)
	made := map[*network.Op]int{} // index of the layer that was rewritten, by its first operation
	for i := range n.Layers {
		l := &n.Layers[i]
		w := narrowing{
			scaling: t.scaling(), devices: int64(n.Group.TensorParts()), repeated: t.modules(),
			frozen: t.frozenFormat(),
		}
		if !narrow(i) || len(l.Ops) == 0 {
			continue
		}
		if at, ok := made[&l.Ops[0]]; ok && whole[i].Shares(whole[at]) {
			l.Ops, l.Buffers = n.Layers[at].Ops, n.Layers[at].Buffers
		} else {
			made[&l.Ops[0]] = i
			l.Ops = t.widened(l.Ops)
			w.layer(l)
		}
		if len(l.Frozen) > 0 {
			w.holdFrozen(l)
		} else {
			l.KeepsGradient = false // W needs a narrow copy
		}
	}
	return n
}

// CheckBlocks reports a precision that no block of a network would have.
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
		return fmt.Errorf("precision = %q: applies to the blocks of a transformer, and %s has no blocks; use bf16",
			t.Precision, n.Name)
	case t.BF16First >= blocks:
		return fmt.Errorf("bf16_first = %d: leaves none of the %d blocks of %s in %s",
			t.BF16First, blocks, n.Name, t.Precision)
	case wide >= blocks:
		return fmt.Errorf("bf16_last = %d: with bf16_first = %d leaves none of the %d blocks of %s in %s",
			t.BF16Last, t.BF16First, blocks, n.Name, t.Precision)
	}
	return nil
}

// narrowBlocks returns a function that reports whether a layer is a narrow block. Modules that predict follow the
// blocks, and do not count as the last of these.
func (t Options) narrowBlocks(layers []network.Layer) func(i int) bool {
	var blocks []int
	for i, l := range layers {
		if l.Repeatable && !predicts(l) {
			blocks = append(blocks, i)
		}
	}
	if t.BF16First+t.BF16Last >= len(blocks) {
		return func(int) bool { return false }
	}
	first, last := blocks[t.BF16First], blocks[len(blocks)-1-t.BF16Last]
	return func(i int) bool {
		if predicts(layers[i]) {
			return !t.keepsWide(partPredictors)
		}
		return layers[i].Repeatable && first <= i && i <= last
	}
}

// predicts reports whether a layer is a module that predicts a further token.
func predicts(l network.Layer) bool { return strings.HasPrefix(l.Name, "mtp.") }

// keepsWide reports whether a part of blocks stays in bf16.
func (t Options) keepsWide(part string) bool {
	return slices.Contains(strings.Split(t.BF16Parts, ","), part)
}

// widened returns the operations of a narrow block with those products marked that stay in bf16.
func (t Options) widened(ops []network.Op) []network.Op {
	wide := func(o network.Op) bool {
		return t.keepsWide(partAttention) && strings.HasPrefix(o.Name, "self_attn.") ||
			t.keepsWide(partLatent) && strings.HasSuffix(o.Name, "_latent_proj")
	}
	if !slices.ContainsFunc(ops, wide) {
		return ops
	}
	ops = slices.Clone(ops)
	for i, o := range ops {
		if wide(o) && narrows(o) {
			ops[i].Wide = true
		}
	}
	return ops
}

// A Recipe is a way to compute products in fewer than 16 bits, in kernels and in bytes per
// number.
type Recipe struct {
	Name    string
	Kernels int64   // that make a tensor narrow
	Cast    float64 // moved by these kernels
	Kept    float64 // kept of an operand that W needs
	// Of a weight: Held in addition to fp32 and the gradient, Gathered by ZeRO 1, and moved
	// once a Step to make it narrow.
	Held, Gathered, Step float64
}

// Recipes lists the recipes for tensor cores that read narrow numbers only along rows.
func Recipes() (list []Recipe) {
	for _, t := range []Options{
		{Precision: PrecisionFP8, FP8Recipe: RecipeDelayed},
		{Precision: PrecisionFP8, FP8Recipe: RecipeCurrent},
		{Precision: PrecisionFP8, FP8Recipe: RecipeBlockwise},
		{Precision: PrecisionMXFP8},
		{Precision: PrecisionNVFP4},
	} {
		const n = 128 // numbers: whole blocks of every recipe
		s, name := t.scaling(), t.Precision
		if t.FP8Recipe != "" {
			name += ", " + t.FP8Recipe
		}
		per := func(bytes int64) float64 { return float64(bytes) / n }
		list = append(list, Recipe{
			Name: name, Kernels: s.reads,
			Cast: per(s.reads*2*n + s.copies*s.bytes(n)), Kept: per(s.bytes(n)),
			Held: per(2*n + t.HeldExtra(n)), Gathered: per(2*n + t.GatheredExtra(n)), Step: per(t.CastBytes(n)),
		})
	}
	return list
}
