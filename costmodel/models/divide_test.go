package models

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/costmodel/group"
	"psim/costmodel/network"
	"psim/costmodel/training"
)

// on builds a model as one device of a group has it.
func on(t require.TestingT, m Model, g group.Group) network.Network {
	n, err := m.On(g)
	require.NoError(t, err)
	return n
}

// keptBytes is what F keeps of a layer, in fp16.
func keptBytes(recompute string, l network.Layer) float64 {
	sharded, whole := fp16Bytes(training.Options{Recompute: recompute}.Kept(l))
	return float64(sharded + whole)
}

// drawDivided draws a model and a group that divides it.
func drawDivided(t *rapid.T) (Model, group.Group) {
	devices := rapid.SampledFrom([]int{2, 4, 8}).Draw(t, "devices")
	heads := devices * rapid.IntRange(1, 4).Draw(t, "heads")
	kv := heads
	family := rapid.SampledFrom([]string{FamilyGPT, FamilyLlama, FamilyMixtral}).Draw(t, "family")
	m := Model{
		Family: family, Layers: rapid.IntRange(1, 3).Draw(t, "layers"),
		Heads: heads, Hidden: heads * rapid.IntRange(1, 32).Draw(t, "head_dim"),
		FFNHidden: devices * rapid.IntRange(1, 200).Draw(t, "ffn"), Vocab: devices * rapid.IntRange(1, 100).Draw(t, "vocab"),
		SequenceLength: devices * rapid.IntRange(1, 40).Draw(t, "sequence"),
	}
	if family == FamilyMixtral {
		m.Experts = rapid.IntRange(1, 4).Draw(t, "experts")
		m.ExpertsPerToken = rapid.IntRange(1, m.Experts).Draw(t, "experts_per_token")
	}
	if family != FamilyGPT {
		if heads%(2*devices) == 0 && rapid.Bool().Draw(t, "grouped") {
			kv = heads / 2
		}
		m.KVHeads = kv
	} else if rapid.Bool().Draw(t, "dropout") {
		m.Dropout = 0.1
	}
	return m, group.Group{Devices: devices, Sequence: rapid.Bool().Draw(t, "sequence_parallel")}
}

// Equations 1 to 6 of Korthikanti et al. 2022 (table 2), to the byte.
func TestKorthikantiTable2(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, g := drawDivided(t)
		m.Family, m.KVHeads, m.FFNHidden, m.Experts, m.ExpertsPerToken, m.Dropout = FamilyGPT, 0, 0, 0, 0, 0.1
		s, h, a, d := float64(m.SequenceLength), float64(m.Hidden), float64(m.Heads), float64(g.Devices)
		for _, e := range []struct {
			sequence  bool
			recompute string
			bytes     float64
		}{
			{false, "none", s * h * (10 + 24/d + 5*a*s/(h*d))},
			{true, "none", s * h * (34/d + 5*a*s/(h*d))},
			{false, "selective", s * h * (10 + 24/d)},
			{true, "selective", s * h * 34 / d},
			{false, "full", 2 * s * h},
			{true, "full", 2 * s * h / d}, // the input lies divided
		} {
			g.Sequence = e.sequence
			block := on(t, m, g).Layers[1]
			assert.InDelta(t, e.bytes, keptBytes(e.recompute, block), 1e-6, "%+v", e)
		}
	})
}

// published is the memory of Korthikanti et al. 2022, figures 1 and 7.
type published struct {
	Models []struct {
		Name, Preset                         string
		MicroBatch                           float64 `json:"micro_batch"`
		Pipeline, Interleaving, Microbatches int
		Figure1                              struct {
			Activations          float64 `json:"activations"`
			SelectiveSequence    float64 `json:"activations_selective_sequence"`
			ParametersAndOptimer float64 `json:"parameters_and_optimizer"`
		}
		Figure7 map[string]float64
	}
}

// The first pipeline rank of figure 1 holds the activations of L layers, and
// with v chunks (p−1)/(pv) more (section 4.2.3); parameters of embeddings are
// not in the figure. Percentages of figure 7, which were read off a chart, are of
// a block without sequence parallelism and recomputation.
func TestKorthikantiFigures(t *testing.T) {
	var data published
	text, err := os.ReadFile("testdata/korthikanti2022_memory.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &data))
	errs := map[string][]float64{}
	compare := func(figure string, published, predicted float64) {
		errs[figure] = append(errs[figure], math.Abs(predicted/published-1))
	}
	for _, e := range data.Models {
		block := func(recompute string, sequence bool) float64 {
			return e.MicroBatch * keptBytes(recompute, on(t, Model{Preset: e.Preset}, group.Group{Devices: 8, Sequence: sequence}).Layers[1])
		}
		n := on(t, Model{Preset: e.Preset}, group.Group{Devices: 8})
		held := float64(len(n.Layers) - 3)
		if p, v := float64(e.Pipeline), float64(e.Interleaving); v > 1 {
			held *= 1 + (p-1)/(p*v)
		}
		const gib = 1 << 30
		compare("figure 1", e.Figure1.Activations, held*block("none", false)/gib)
		compare("figure 1", e.Figure1.SelectiveSequence, held*block("selective", true)/gib)
		state := training.Options{Precision: "fp16", Gradients: "fp32"}.State()
		perLayer := float64(n.Layers[1].Parameters() * (state.Parameter + state.Gradient + state.Optimizer))
		compare("figure 1", e.Figure1.ParametersAndOptimer, perLayer*float64(len(n.Layers)-3)/float64(e.Pipeline)/gib)
		baseline := block("none", false) / 100
		compare("figure 7", e.Figure7["sequence"], block("none", true)/baseline)
		compare("figure 7", e.Figure7["selective"], block("selective", false)/baseline)
		compare("figure 7", e.Figure7["selective_sequence"], block("selective", true)/baseline)
		compare("figure 7", e.Figure7["full"], block("full", false)/baseline)
	}
	for figure, most := range map[string]float64{"figure 1": 0.001, "figure 7": 0.02} {
		var sum float64
		for _, e := range errs[figure] {
			sum += e
		}
		mean := sum / float64(len(errs[figure]))
		t.Logf("%s: %d values, mean error %.3f %%, worst %.3f %%", figure, len(errs[figure]), 100*mean, 100*slices.Max(errs[figure]))
		assert.Less(t, mean, most, figure)
	}
}

// The devices of a group together do what one device did: FLOPs, sharded
// parameters and buffers add up; norms and biases of row-parallel layers are
// held by all.
func TestGroupAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, g := drawDivided(t)
		whole, part := build(t, m), on(t, m, g)
		d := int64(g.Devices)
		for i, l := range whole.Layers {
			p := part.Layers[i]
			for _, pass := range []network.Pass{network.Forward, network.InputGradient, network.WeightGradient} {
				assert.Equal(t, int64(l.FLOPs(pass))+(d-1)*replicatedFLOPs(l, pass), d*int64(p.FLOPs(pass)), "%s %s", l.Name, pass)
				assert.LessOrEqual(t, p.Traffic(pass, 3), l.Traffic(pass, 3))
				rounding := 3 * d * int64(len(l.Ops))
				assert.GreaterOrEqual(t, d*p.Traffic(pass, 3)+rounding, l.Traffic(pass, 3))
			}
			var sharded, replicated int64
			for _, tensor := range l.Params {
				if tensor.Sharded {
					sharded += tensor.Shape.Elements()
				} else {
					replicated += tensor.Shape.Elements()
				}
			}
			assert.Equal(t, sharded/d+replicated, p.Parameters())
			for k, b := range l.Buffers {
				most := b.Bytes(2)
				if b.Sharded {
					most /= d
				}
				assert.LessOrEqual(t, p.Buffers[k].Bytes(2), most)
				assert.GreaterOrEqual(t, d*p.Buffers[k].Bytes(2), b.Bytes(2))
			}
			if i > 0 {
				assert.Equal(t, part.Layers[i-1].Output, p.Input)
			}
		}
	})
}

// replicatedFLOPs are those of products that every device makes: of a router.
func replicatedFLOPs(l network.Layer, p network.Pass) int64 {
	var n int64
	for _, op := range l.Ops {
		if !op.Sharded {
			n += int64(op.FLOPs(p))
		}
	}
	return n
}

// exchanged counts, for the blocks and all, the elements that go round the ring:
// an all-reduce is a reduce-scatter and an all-gather.
func exchanged(l network.Layer, p network.Pass) int64 {
	var n int64
	for _, op := range l.Ops {
		times := map[group.Pattern]int64{group.AllReduce: 2, group.AllGather: 1, group.ReduceScatter: 1}
		n += times[op.Exchanges[p].Collective] * op.Exchanges[p].Elements
	}
	return n
}

// A block all-reduces sh elements twice in F and twice in I (Shoeybi et al.
// 2019, figure 4); sequence parallelism sends as much (Korthikanti et al. 2022,
// section 4.2.2), and gathers two inputs again for W. Full recomputation sends
// what F does once more, selective nothing.
func TestBlockExchanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, g := drawDivided(t)
		block := on(t, m, g).Layers[1]
		sh := int64(m.SequenceLength) * int64(m.Hidden)
		assert.Equal(t, 4*sh, exchanged(block, network.Forward))
		assert.Equal(t, 4*sh, exchanged(block, network.InputGradient))
		assert.Equal(t, map[bool]int64{false: 0, true: 2 * sh}[g.Sequence], exchanged(block, network.WeightGradient))
		again := func(recompute string) int64 {
			return exchanged(network.Layer{Ops: training.Options{Recompute: recompute}.Repeated(block)}, network.Forward)
		}
		assert.Equal(t, 4*sh, again("full"))
		assert.Zero(t, again("selective"))
	})
}

// The embedding sums the rows that the devices have; the head makes input
// gradients and three sums of a number per token, in fp32.
func TestEndsExchange(t *testing.T) {
	n := on(t, Model{Preset: "llama2-7b", SequenceLength: 128}, group.Group{Devices: 4})
	const sh = 128 * 4096
	assert.EqualValues(t, 2*sh, exchanged(n.Layers[0], network.Forward))
	assert.Zero(t, exchanged(n.Layers[0], network.InputGradient))
	head := n.Layers[len(n.Layers)-1]
	assert.EqualValues(t, 2*3*128, exchanged(head, network.Forward))
	assert.EqualValues(t, 2*sh, exchanged(head, network.InputGradient))
	assert.EqualValues(t, 4*128*7, head.Ops[len(head.Ops)-1].Exchanges[network.Forward].Bytes(2, 7))
	assert.Equal(t, network.Dims{128, 8000}, head.Output)
}

// The smaller product is the one that is seen: attention by heads, the first
// of two linear layers by columns, the second by what it sums over.
func TestProductsAreCut(t *testing.T) {
	n := on(t, Model{Preset: "megatron-22b"}, group.Group{Devices: 8})
	got := map[string][4]int64{}
	for _, op := range n.Layers[1].Ops {
		if op.Class == network.Product {
			got[op.Name] = [4]int64{op.Count, op.Rows, op.Inner, op.Cols}
		}
	}
	assert.Equal(t, map[string][4]int64{
		"attn.c_attn": {1, 2048, 6144, 3 * 768}, "attn.scores": {8, 2048, 96, 2048}, "attn.context": {8, 2048, 2048, 96},
		"attn.c_proj": {1, 2048, 768, 6144}, "mlp.c_fc": {1, 2048, 6144, 3072}, "mlp.c_proj": {1, 2048, 3072, 6144},
	}, got)
}

func TestGroupErrors(t *testing.T) {
	for _, c := range []struct {
		model Model
		group group.Group
		want  string
	}{
		{Model{Preset: "gpt2"}, group.Group{Devices: 2}, "vocab = 50257: parallel.tensor = 2 must divide it; set vocab = 50432, to which Megatron pads it (a multiple of 128 × tensor)"},
		{Model{Preset: "gpt2"}, group.Group{Devices: 8}, "heads = 12: parallel.tensor = 8 must divide it"},
		{Model{Preset: "gpt2", Vocab: 51200}, group.Group{Devices: 8}, "heads = 12: parallel.tensor = 8 must divide it"},
		{Model{Preset: "llama3-8b"}, group.Group{Devices: 16}, "kv_heads = 8: parallel.tensor = 16 must divide it"},
		{Model{Preset: "llama3-8b", FFNHidden: 1001}, group.Group{Devices: 2}, "ffn_hidden = 1001"},
		{Model{Preset: "llama3-8b", SequenceLength: 9}, group.Group{Devices: 2, Sequence: true}, "sequence_length = 9"},
		{Model{Preset: "mlp"}, group.Group{Devices: 2}, "tensor parallelism divides transformers alone"},
		{Model{Preset: "vgg16"}, group.Group{Devices: 2}, "tensor parallelism divides transformers alone"},
		{mixersAlone(), group.Group{Devices: 16}, "mamba_groups = 8: parallel.tensor = 16 must divide it"},
		{Model{Preset: "nothing"}, group.Group{Devices: 2}, "preset"},
	} {
		_, err := c.model.On(c.group)
		assert.ErrorContains(t, err, c.want)
	}
	on(t, mixersAlone(), group.Group{Devices: 8}) // it has one head of attention, which no block has
	on(t, mixersAlone(), group.Group{Devices: 1, Context: 8, Method: group.ContextUlysses})
	n := on(t, Model{Preset: "gpt2"}, group.Group{Devices: 1, Sequence: true})
	assert.Equal(t, build(t, Model{Preset: "gpt2"}), n)
}

// mixersAlone is a network of Mamba-2 mixers without attention.
func mixersAlone() Model {
	return Model{
		Family: FamilyLlama, Layers: 2, Hidden: 512, Heads: 1, HeadDim: 1, FFNHidden: 1, Vocab: 64, SequenceLength: 64,
		PositionEmbedding: PositionsNone, Pattern: "MM", MambaHeads: 16, MambaHeadDim: 64, MambaStates: 16,
		MambaGroups: 8, MambaConvolution: 4, MambaChunk: 16, Attention: AttentionFlash,
	}
}
