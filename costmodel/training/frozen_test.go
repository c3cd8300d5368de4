package training_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/costmodel/frozen"
	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/costmodel/training"
)

// A drawn model of the llama family, with the numbers that closed forms need.
type drawnModel struct {
	models.Model
	s, h, f, q, kv, blocks int64
}

func drawModel(t *rapid.T) drawnModel {
	var d drawnModel
	heads, group := rapid.IntRange(1, 4).Draw(t, "kv heads"), rapid.IntRange(1, 4).Draw(t, "group")
	dim := 8 * rapid.IntRange(1, 4).Draw(t, "head")
	d.Model = models.Model{
		Family: "llama", Layers: rapid.IntRange(1, 3).Draw(t, "layers"), Hidden: dim * heads * group,
		Heads: heads * group, KVHeads: heads, FFNHidden: 16 * rapid.IntRange(2, 9).Draw(t, "ffn"), Vocab: 256,
		SequenceLength: 32 * rapid.IntRange(1, 4).Draw(t, "length"), Attention: "flash",
	}
	d.s, d.h, d.f, d.blocks = int64(d.SequenceLength), int64(d.Hidden), int64(d.FFNHidden), int64(d.Layers)
	d.q, d.kv = d.h, int64(heads*dim)
	return d
}

// widths returns the inputs and results of the linear layers of a block.
func (d drawnModel) widths() map[string][2]int64 {
	return map[string][2]int64{
		"q": {d.h, d.q}, "k": {d.h, d.kv}, "v": {d.h, d.kv}, "o": {d.q, d.h},
		"gate": {d.h, d.f}, "up": {d.h, d.f}, "down": {d.f, d.h},
	}
}

var blockTargets = []string{"q", "k", "v", "o", "gate", "up", "down"}

// drawTargets draws some targets in the order in which they are kept.
func drawTargets(t *rapid.T) []string {
	chosen := rapid.SliceOfNDistinct(rapid.SampledFrom(blockTargets), 1, -1, rapid.ID).Draw(t, "targets")
	return slices.DeleteFunc(slices.Clone(blockTargets), func(s string) bool { return !slices.Contains(chosen, s) })
}

func adapted(t require.TestingT, m models.Model, o training.Options) (plain, with network.Network) {
	plain, err := m.Network()
	require.NoError(t, err)
	require.NoError(t, o.Validate())
	require.NoError(t, o.CheckFrozen(plain))
	return plain, o.Adapted(plain)
}

// linear adds up the FLOPs of products with weights in a pass.
func linear(n network.Network, p network.Pass, keep func(network.Op) bool) (flops float64) {
	for _, l := range n.Layers {
		for _, o := range l.Ops {
			if o.Class == network.Product && o.Weight && keep(o) {
				flops += o.FLOPs(p)
			}
		}
	}
	return flops
}

// LoRA's FLOPs for a token: 4 for every frozen parameter of a product, 6 for those of adapters, if the
// gradient goes back to the embedding. Otherwise products that read what the first adapters read, and all
// before them, do without 2, and the first adapters' first halves as well.
func TestAdapterFLOPs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, targets := drawModel(t), drawTargets(t)
		o := training.Options{Precision: "bf16", Adapter: training.Adapter{
			Kind: "lora", Rank: rapid.IntRange(1, 8).Draw(t, "rank"), Targets: strings.Join(targets, ","),
			InputGradients: rapid.Bool().Draw(t, "input gradients"),
		}}
		_, n := adapted(t, d.Model, o)
		rank := int64(o.Adapter.Rank)
		var adapters, frozen, firstFrozen, firstAdapters int64
		group := map[string]int{"q": 0, "k": 0, "v": 0, "o": 1, "gate": 2, "up": 2, "down": 3}
		first := group[targets[0]]
		for name, w := range d.widths() {
			frozen += w[0] * w[1]
			if group[name] <= first {
				firstFrozen += w[0] * w[1]
			}
			if slices.Contains(targets, name) {
				adapters += rank * (w[0] + w[1])
				if group[name] == first {
					firstAdapters += rank * w[0]
				}
			}
		}
		frozen, adapters = frozen*d.blocks+d.h*int64(d.Vocab), adapters*d.blocks
		require.Equal(t, adapters, n.Trained())
		all := func(network.Op) bool { return true }
		require.Equal(t, float64(2*d.s*(frozen+adapters)), linear(n, network.Forward, all))
		require.Equal(t, float64(2*d.s*adapters), linear(n, network.WeightGradient, all))
		without := firstFrozen + firstAdapters
		if o.Adapter.InputGradients {
			without = 0
		}
		require.Equal(t, float64(2*d.s*(frozen+adapters-without)), linear(n, network.InputGradient, all))
		// By definition 2 × the forward for frozen products, else 3 ×, and one less where no gradient goes on.
		attention := 0.
		if first > 0 && !o.Adapter.InputGradients { // of the first block
			attention = (n.FLOPs(network.Forward) - linear(n, network.Forward, all)) / float64(d.blocks)
		}
		require.Equal(t, 3*n.FLOPs(network.Forward)-float64(2*d.s*(frozen+without))-2*attention, n.ModelFLOPs())
	})
}

// What a block keeps with adapters: what norms, attention and the gated MLP need in any case, an input for all
// products with adapters that read it, and rank numbers of every adapter; with dropout an input and a mask of
// every adapter's own instead.
func TestAdapterKeeps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, targets := drawModel(t), drawTargets(t)
		o := training.Options{Precision: "bf16", Adapter: training.Adapter{
			Kind: rapid.SampledFrom([]string{"lora", "qlora"}).Draw(t, "kind"), Rank: rapid.IntRange(1, 8).Draw(t, "rank"),
			Targets: strings.Join(targets, ","), InputGradients: true,
		}}
		dropout := rapid.Bool().Draw(t, "dropout")
		if dropout {
			o.Adapter.Dropout = 0.05
		}
		_, n := adapted(t, d.Model, o)
		// Two inputs of norms; q, k, v, the context and a statistic of a row and head; three inside the MLP.
		want := 2*d.s*(2*d.h+d.q+2*d.kv+d.q+3*d.f) + 4*d.s*int64(d.Heads)
		for _, name := range targets {
			in := d.widths()[name][0]
			want += 2 * d.s * int64(o.Adapter.Rank)
			if dropout {
				want += (2 + 1) * d.s * in
			}
		}
		has := func(names ...string) bool {
			return !dropout && slices.ContainsFunc(names, func(s string) bool { return slices.Contains(targets, s) })
		}
		if has("q", "k", "v") {
			want += 2 * d.s * d.h
		}
		if has("gate", "up") {
			want += 2 * d.s * d.h
		}
		if has("down") {
			want += 2 * d.s * d.f
		}
		kept := network.BufferBytes(o.Kept(n.Layers[1]), 2, 1)
		require.Equal(t, want, kept[network.ForwardToInput]+kept[network.ForwardToWeight])
	})
}

// Below the first part that is trained nothing is kept, and nothing goes backward.
func TestNothingBelow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawModel(t)
		d.Layers = rapid.IntRange(2, 6).Draw(t, "blocks")
		last := rapid.IntRange(0, d.Layers-1).Draw(t, "last")
		o := training.Options{Frozen: "embedding"}
		require.NoError(t, o.Frozen.UnmarshalTOML([]any{"embedding", "blocks.0-" + string(rune('0'+last))}))
		plain, n := adapted(t, d.Model, o)
		for i, l := range n.Layers {
			if i > last+1 {
				require.Equal(t, plain.Layers[i].Params, l.Params)
				continue
			}
			require.True(t, l.ForwardOnly)
			require.Empty(t, l.Buffers)
			require.Empty(t, l.Params)
			require.Equal(t, plain.Layers[i].Params, l.Frozen)
			require.Equal(t, plain.Layers[i].FLOPs(network.Forward), l.FLOPs(network.Forward))
			for _, p := range []network.Pass{network.InputGradient, network.WeightGradient} {
				require.Zero(t, l.FLOPs(p))
				require.Zero(t, l.Traffic(p, 3))
			}
			for _, recompute := range []string{"none", "selective", "full", "mlp"} {
				with := training.Options{Recompute: recompute, Frozen: o.Frozen}
				require.Empty(t, with.Repeated(l))
				require.Empty(t, with.Kept(l))
			}
		}
		require.Equal(t, plain.Parameters(), n.Parameters())
	})
}

// Blocks that are frozen above something that is trained pass gradients on: I as before, W nothing.
func TestFrozenAbove(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawModel(t)
		d.Layers = 3
		plain, n := adapted(t, d.Model, training.Options{Frozen: "blocks.1-2,head"})
		for _, i := range []int{2, 3, 5} {
			a, b := plain.Layers[i], n.Layers[i]
			require.Equal(t, a.FLOPs(network.InputGradient), b.FLOPs(network.InputGradient), a.Name)
			require.Zero(t, b.FLOPs(network.WeightGradient), a.Name)
			require.False(t, b.ForwardOnly)
		}
		require.True(t, n.Layers[2].Shares(n.Layers[3]), "equal blocks are priced once")
		require.Equal(t, plain.Layers[1], n.Layers[1])
	})
}

// 4.5 bits a weight, or 4 + 8/64 + 32/(64·256) = 4.127 with double quantisation (Dettmers et al. 2023).
func TestNF4Bytes(t *testing.T) {
	const n = 64 * 256
	require.EqualValues(t, n*4.5/8, frozen.NF4.Bytes(n, 2))
	require.EqualValues(t, n*(4+8./64+32./(64*256))/8, frozen.NF4Double.Bytes(n, 2))
	rapid.Check(t, func(t *rapid.T) {
		n, element := rapid.Int64Range(128, 1<<40).Draw(t, "n"), rapid.Int64Range(2, 4).Draw(t, "element")
		require.LessOrEqual(t, frozen.NF4Double.Bytes(n, element), frozen.NF4.Bytes(n, element))
		require.InDelta(t, 4.5/8*float64(n), float64(frozen.NF4.Bytes(n, element)), 5)
		require.Equal(t, 4*n, frozen.FP32.Bytes(n, element))
		require.Equal(t, n*element, frozen.AsTrained.Bytes(n, element))
	})
}

// A 4-bit weight is dequantised in F and in I: its bytes are read, 16 bits are written. W needs none.
func TestUnpacked(t *testing.T) {
	const in, out = 128, 256
	o := network.Op{Class: network.Product, Weight: true, Frozen: true, Count: 1, Rows: 8, Inner: in, Cols: out}
	for format, want := range map[frozen.Format]int64{
		frozen.AsTrained: 0, frozen.NF4: in*out*9/16 + 2*in*out,
		frozen.NF4Double: frozen.NF4Double.Bytes(in*out, 2) + 2*in*out + 8*in*out/64,
		frozen.NF4Cast:   in*out*9/16 + (2+2+2)*in*out, frozen.NF4DoubleCast: frozen.NF4Double.Bytes(in*out, 2) + (2+2+2)*in*out + 8*in*out/64,
	} {
		o.Format = format
		for _, p := range []network.Pass{network.Forward, network.InputGradient} {
			bytes, kernels := o.Unpacked(p)
			require.Equal(t, want, bytes)
			require.Equal(t, o.Kernels(p, 1), 1+kernels)
		}
		bytes, _ := o.Unpacked(network.WeightGradient)
		require.Zero(t, bytes)
	}
}

func TestFrozenErrors(t *testing.T) {
	m := models.Model{Preset: "gpt2", SequenceLength: 128}
	n, err := m.Network()
	require.NoError(t, err)
	lora := func(rank int, targets string) training.Options {
		return training.Options{Precision: "bf16", Adapter: training.Adapter{Kind: "lora", Rank: rank, Targets: targets}}
	}
	for _, c := range []struct {
		o    training.Options
		want string
	}{
		{lora(8, "q"), `adapter.targets = "q": the network has no linear layer "q" for an adapter; it has qkv, o, up, down, head`},
		{lora(769, "o"), "adapter.rank = 769: is more than the width of attn.c_proj, 768"},
		{
			training.Options{Precision: "bf16", Adapter: training.Adapter{Kind: "qlora", Rank: 8, PackedHead: true}},
			"adapter.packed_head = true: the head of the network is tied to the embedding, which is read row by row; set packed_head = false",
		},
		{training.Options{Frozen: "blocks.3-12"}, `frozen = "blocks.3-12": gpt2 has blocks 0 to 11`},
		{training.Options{Frozen: "head"}, `frozen = "head": the head is tied to the embedding; freeze "embedding", which freezes both`},
		{training.Options{Frozen: "embedding,blocks.0-11,norm"}, `frozen = "embedding,blocks.0-11,norm": leaves nothing to train`},
	} {
		require.NoError(t, c.o.Validate())
		require.EqualError(t, c.o.CheckFrozen(n), c.want)
	}
	mixture, err := models.Model{Preset: "mixtral-8x7b"}.Network()
	require.NoError(t, err)
	require.NoError(t, lora(8, "all").CheckFrozen(mixture))
	require.NoError(t, lora(8, "q,v").CheckFrozen(mixture))
	require.Equal(t, []string{"q_proj", "v_proj"}, lora(8, "q,v").Targeted(lora(8, "q,v").Adapted(mixture)))
	for _, o := range []training.Options{
		{Precision: "bf16", Frozen: "embedding", Adapter: training.Adapter{Kind: "lora", Rank: 1}},
		{Precision: "fp8", Adapter: training.Adapter{Kind: "qlora", Rank: 1}},
		{Precision: "fp8", Weights: "16-bit", Adapter: training.Adapter{Kind: "lora", Rank: 1}},
		{Adapter: training.Adapter{Kind: "qlora", Rank: 1}},
		{Frozen: "embedding", Backward: "two-pass"},
	} {
		require.Error(t, o.Validate(), "%+v", o)
	}
	for _, bad := range []any{"block.3", "blocks.x", "blocks.5-3", []any{3}, 7, ""} {
		require.Error(t, new(training.FrozenParts).UnmarshalTOML(bad), "%v", bad)
	}
}

// Bytes that a layer of Llama 3 8B with PEFT's adapters of rank 16 in bf16 keeps for 2,048 tokens, by
// torch.autograd.graph.saved_tensors_hooks (PyTorch 2.15.0, transformers 5.24.0, PEFT 0.21.2, on the meta
// device, with a function that keeps what a flash kernel keeps in place of attention, and native_dropout). The two
// norms of transformers keep their inputs in fp32, where one kernel keeps 16 bits.
func TestKeptByAutograd(t *testing.T) {
	for _, c := range []struct {
		targets string
		dropout float64
		bytes   int64
		fp32    bool // as with autocast_adapter_dtype
	}{
		{"q,v", 0, 302_399_488, false},
		{"q,v", 0.05, 335_953_920, false},
		{"q,k,v,o", 0, 302_530_560, false},
		{"q,k,v,o", 0.05, 386_416_640, false},
		{"all", 0, 378_224_640, false},
		{"all", 0.05, 525_025_280, false},
		{"down", 0, 344_276_992, false},
		{"down", 0.05, 373_637_120, false},
		{"q,v", 0, 352_862_208, true},
		{"q,k,v,o", 0, 420_233_216, true},
		{"gate,up,down", 0, 470_433_792, true},
		{"all", 0, 605_175_808, true},
	} {
		m := models.Model{Preset: "llama3-8b", SequenceLength: 2048, Attention: "flash", Kernels: "eager"}
		o := training.Options{Precision: "bf16", Adapter: training.Adapter{
			Kind: "lora", Rank: 16, Targets: c.targets, Dropout: c.dropout, FP32: c.fp32, InputGradients: true,
		}}
		_, n := adapted(t, m, o)
		kept := network.BufferBytes(o.Kept(n.Layers[1]), 2, 1)
		require.InEpsilon(t, c.bytes, kept[network.ForwardToInput]+kept[network.ForwardToWeight], 0.005, c.targets)
	}
}

// Products of 4-bit weights that hold their inputs do so twice when a forward ends: those of their own graph, and
// of the graph before. The context of attention is kept in any case.
func TestHeldInputs(t *testing.T) {
	m := models.Model{Preset: "llama2-7b", SequenceLength: 512, Attention: "flash", Kernels: "eager"}
	of := func(kind string, held bool, dropout float64) int64 {
		o := training.Options{Precision: "bf16", Adapter: training.Adapter{
			Kind: kind, Rank: 16, Targets: "q,v", Dropout: dropout, HeldInputs: held, InputGradients: true,
		}}
		_, n := adapted(t, m, o)
		sum := network.BufferBytes(o.Kept(n.Layers[1]), 2, 1)
		return sum[network.ForwardToInput] + sum[network.ForwardToWeight]
	}
	kept := func(held bool, dropout float64) int64 { return of("qlora", held, dropout) }
	const one = 2 * 512 * 4096 // bytes
	require.Equal(t, of("lora", false, 0.05), of("lora", true, 0.05), "weights in 16 bits hold nothing")
	require.EqualValues(t, (2+1+2)*one+2*2*512*11008, kept(true, 0.05)-kept(false, 0.05))
	require.EqualValues(t, (1+1+2)*one+2*2*512*11008, kept(true, 0)-kept(false, 0), "an adapter keeps one of q, k and v")
}

// Blocks that are frozen up to the first that is trained are forward alone, their attention too.
func TestModelFLOPsOfFrozenBlocks(t *testing.T) {
	m := models.Model{Family: "llama", Layers: 4, Hidden: 64, Heads: 4, FFNHidden: 128, Vocab: 96, SequenceLength: 32}
	o := training.Options{Precision: "bf16", Frozen: "embedding,blocks.0-2"}
	_, n := adapted(t, m, o)
	want := 0.
	for i, l := range n.Layers {
		times := 3.
		if i < 4 { // embedding and three blocks
			times = 1
		}
		want += times * l.FLOPs(network.Forward)
	}
	require.Equal(t, want, n.ModelFLOPs())
}

// The products before and after scans have adapters of their own names: a rank times both widths of each.
func TestAdaptersOfScans(t *testing.T) {
	for preset, want := range map[string]int64{
		"qwen3-next-80b-a3b":     36 * ((2048 + 12288) + (2048 + 64) + (4096 + 2048)),
		"nemotron3-nano-30b-a3b": 23 * ((2688 + 10304) + (4096 + 2688)),
	} {
		_, with := adapted(t, models.Model{Preset: preset, SequenceLength: 64}, training.Options{
			Precision: "bf16", Adapter: training.Adapter{Kind: "lora", Rank: 4, Targets: "in,out"},
		})
		require.Equal(t, 4*want, with.Trained(), preset)
	}
}

// Narrow frozen products keep nothing and hold their weights narrow. Their operands are made narrow once, along rows;
// adapters stay in 16 bits and keep what they keep without.
func TestNarrowFrozen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawModel(t)
		targets := drawTargets(t)
		o := training.Options{Precision: "bf16", Adapter: training.Adapter{
			Kind: "lora", Rank: rapid.IntRange(1, 8).Draw(t, "rank"), Targets: strings.Join(targets, ","),
			Dropout: rapid.SampledFrom([]float64{0, 0.1}).Draw(t, "dropout"),
		}}
		_, wide := adapted(t, d.Model, o)
		o.BothWays = rapid.Bool().Draw(t, "both ways")
		o.Precision = rapid.SampledFrom([]string{"fp8", "mxfp8", "nvfp4"}).Draw(t, "precision")
		if o.Precision == "fp8" {
			o.FP8Recipe = rapid.SampledFrom([]string{"delayed", "current", "blockwise"}).Draw(t, "recipe")
		}
		_, n := adapted(t, d.Model, o)
		narrow := o.Trained(n)
		require.Equal(t, wide.ModelFLOPs(), narrow.ModelFLOPs())

		var perBlock, linears, turned int64
		for _, w := range d.widths() {
			linears += w[0] * w[1]
		}
		numbers := map[string]float64{"fp8": 1, "mxfp8": 2 * 33. / 32, "nvfp4": 2 * 9. / 16}[o.Precision]
		reads := map[string]int64{"mxfp8": 1, "nvfp4": 3, "delayed": 1, "current": 2, "blockwise": 1}
		one := map[string]float64{"fp8": 1, "mxfp8": 33. / 32, "nvfp4": 9. / 16}[o.Precision]
		if o.FP8Recipe == "blockwise" {
			one += 4. / 128
		}
		for i, l := range narrow.Layers {
			require.Equal(t, wide.Layers[i].Buffers, l.Buffers, l.Name)
			require.Equal(t, wide.Layers[i].Params, l.Params, l.Name)
			var held, cast int64
			for _, f := range l.Frozen {
				if f.Format != frozen.AsTrained {
					held += f.Format.Bytes(f.Shape.Elements(), 2)
				}
			}
			for _, op := range l.Ops {
				switch {
				case strings.HasSuffix(op.Name, ".cast"):
					cast += op.Moved[network.Forward]
				case op.Bits > 0:
					require.True(t, op.Frozen, op.Name)
					bytes, _ := op.Unpacked(network.InputGradient)
					turned += bytes
					bytes, _ = op.Unpacked(network.Forward)
					require.Zero(t, bytes)
				}
			}
			if !l.IsBlock() {
				require.Zero(t, held)
				continue
			}
			perBlock++
			require.InEpsilon(t, numbers*float64(linears), float64(held), 0.001)
			r := reads[o.Precision]
			if o.Precision == "fp8" {
				r = reads[o.FP8Recipe]
			}
			// The inputs of q, k, v, of o, of gate and up, and of down; numbers of 16 bits are counted.
			operands := float64(d.s * (d.h + d.q + d.h + d.f))
			require.InEpsilon(t, operands*(float64(r)+one/2), float64(cast), 0.001, o)
		}
		if o.Precision == "fp8" && (!o.BothWays || o.FP8Recipe == "blockwise") {
			require.LessOrEqual(t, turned, 2*perBlock*linears)
			require.Positive(t, turned)
		} else {
			require.Zero(t, turned)
		}
	})
}

// Every expert has adapters of its own, whose products have the rows that are routed to it, and which keep the input of
// the group once and, with dropout, one of each product's own.
func TestAdaptersOfExperts(t *testing.T) {
	const layers, h, f, kv, experts, active, rank, tokens = 32, 4096, 14336, 1024, 8, 2, 16, 2048
	mixture, err := models.Model{Preset: "mixtral-8x7b", SequenceLength: tokens}.Network()
	require.NoError(t, err)
	products := map[string][]int64{
		"q": {h, h}, "k": {h, kv}, "v": {h, kv}, "o": {h, h}, "gate": {h, f}, "up": {h, f}, "down": {f, h},
	}
	for _, targets := range []string{"all", "gate", "down", "q,up"} {
		names := strings.Split(targets, ",")
		if targets == "all" {
			names = slices.Collect(maps.Keys(products))
		}
		var parameters int64
		var flops float64
		for _, name := range names {
			n, rows := int64(1), int64(tokens)
			if name == "gate" || name == "up" || name == "down" {
				n, rows = experts, tokens*active
			}
			size := rank * (products[name][0] + products[name][1])
			parameters += layers * n * size
			flops += float64(layers * 2 * rows * size)
		}
		o := training.Options{Precision: "bf16", Adapter: training.Adapter{Kind: "lora", Rank: rank, Targets: targets}}
		require.NoError(t, o.CheckFrozen(mixture))
		adapted := o.Adapted(mixture)
		var have int64
		names = nil
		for _, l := range adapted.Layers {
			for _, p := range l.Params {
				have += p.Shape.Elements()
				names = append(names, p.Name)
			}
		}
		require.Equal(t, parameters, have, targets)
		require.Len(t, slices.Compact(slices.Sorted(slices.Values(names))), len(names), targets)
		for _, pass := range []network.Pass{network.Forward, network.WeightGradient} {
			var made float64
			for _, l := range adapted.Layers {
				for _, op := range l.Ops {
					if strings.Contains(op.Name, ".lora_") && op.Class == network.Product {
						made += op.FLOPs(pass)
					}
				}
			}
			require.InEpsilon(t, flops, made, 1e-12, "%s %v", targets, pass)
		}
	}
}

// A head in 4 bits takes 4.5 bits a weight instead of 16, and every forward and backward makes it wide.
func TestPackedHead(t *testing.T) {
	const h, vocab = 256, 1024
	n, err := models.Model{
		Family: "llama", Layers: 2, Hidden: h, Heads: 8, KVHeads: 2, FFNHidden: 768, Vocab: vocab, SequenceLength: 64,
	}.Network()
	require.NoError(t, err)
	frozenBytes := func(a training.Adapter) (bytes int64, format frozen.Format) {
		a.Kind, a.Rank = "qlora", 8
		o := training.Options{Precision: "bf16", Adapter: a}
		require.NoError(t, o.Validate())
		require.NoError(t, o.CheckFrozen(n))
		layers := o.Adapted(n).Layers
		for _, l := range layers {
			for _, p := range l.Frozen {
				bytes += p.Format.Bytes(p.Shape.Elements(), 2)
			}
		}
		for _, op := range layers[len(layers)-1].Ops {
			if op.Class == network.Product && op.Weight {
				format = op.Format
			}
		}
		return bytes, format
	}
	wide, as := frozenBytes(training.Adapter{})
	require.Equal(t, frozen.AsTrained, as)
	narrow, as := frozenBytes(training.Adapter{PackedHead: true})
	require.Equal(t, frozen.NF4, as)
	require.EqualValues(t, h*vocab*(16-4.5)/8, wide-narrow)
	same, as := frozenBytes(training.Adapter{PackedHead: true, FP16Unpacked: true})
	require.Equal(t, frozen.NF4Cast, as)
	require.Equal(t, narrow, same)
	require.EqualValues(t, 2*frozen.NF4.Made(h*vocab), as.Made(h*vocab))
}
