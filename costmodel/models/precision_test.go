package models

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel/group"
	"psim/costmodel/network"
	"psim/costmodel/training"
)

// recipes are all ways to be narrow.
func recipes() []training.Options {
	return []training.Options{
		{Precision: training.PrecisionFP8, FP8Recipe: training.RecipeDelayed}, {Precision: training.PrecisionFP8}, {Precision: training.PrecisionFP8, BothWays: true},
		{Precision: training.PrecisionFP8, FP8Recipe: training.RecipeBlockwise}, {Precision: training.PrecisionMXFP8}, {Precision: training.PrecisionNVFP4},
		{Precision: training.PrecisionFP8, Weights: training.Weights16}, {Precision: training.PrecisionFP8, BF16First: 1, BF16Last: 1},
	}
}

// Whatever the network and its group, narrow products do what they did, all weights of blocks
// but routers are theirs, and all that they keep is narrow.
func TestNarrowed(t *testing.T) {
	for _, model := range []string{"gpt2", "llama2-7b", "llama3-8b", "mixtral-8x7b", "deepseek-v3", "gpt-oss-20b", "qwen3-30b-a3b"} {
		for _, g := range []group.Group{{}, {Devices: 4}, {Devices: 4, Sequence: true}, {Devices: 2, Sequence: true, Expert: 4, EightBits: true}, {Expert: 8, ExpertTensor: 2}, {Devices: 2, Sequence: true, Context: 2}, {Devices: 2, Sequence: true, Context: 2, Method: group.ContextGather}} {
			for _, attention := range []string{AttentionFlash, AttentionUnfused} {
				m := Model{Preset: model, Attention: attention}
				if r, err := m.resolve(); err != nil || r.Experts == 0 && g.Expert > 1 || g.Context > 1 && attention == AttentionUnfused {
					continue
				}
				if model == "gpt2" {
					m.Vocab = 50304
				}
				n, err := m.On(g)
				require.NoError(t, err)
				for _, train := range recipes() {
					t.Run(fmt.Sprint(model, g, attention, train), func(t *testing.T) { narrowed(t, n, train) })
				}
			}
		}
	}
}

// narrowed checks one.
func narrowed(t *testing.T, n network.Network, train training.Options) {
	before := n.Layers[1].Ops[0]
	made := train.Trained(n)
	require.Equal(t, before, n.Layers[1].Ops[0], "the network itself stays")
	require.Equal(t, n.Parameters(), made.Parameters())
	for i, l := range made.Layers {
		require.Equal(t, n.Layers[i].FLOPs(network.Forward), l.FLOPs(network.Forward))
		require.Equal(t, n.Layers[i].FLOPs(network.InputGradient), l.FLOPs(network.InputGradient))
		if !l.Repeatable || train.BF16First > 0 && (i == 1 || i == len(n.Layers)-3) {
			require.Equal(t, n.Layers[i], l, "heads, tables, and blocks left as they are")
			continue
		}
		var weights, narrow int64
		for _, p := range l.Params {
			if len(p.Shape) == 2 && !strings.HasSuffix(p.Name, "moe.gate.weight") {
				weights += p.Shape.Elements()
			}
		}
		for _, o := range l.Ops {
			if o.Bits > 0 {
				narrow += o.Weights()
			}
		}
		require.Equal(t, weights, narrow)
		for _, b := range l.Buffers {
			router := strings.Contains(b.Name, "router") || b.Name == "mlp.input" && l.Experts > 0
			require.True(t, b.Lifetime == network.ForwardToInput || b.ElementBytes == 1 || router, "%s is wide", b.Name)
		}
		more := 0 // an operand is kept wide as well for fused attention and a router
		for _, o := range n.Layers[i].Ops {
			if o.Class == network.Attention || o.Name == sharedExperts+"gate_proj" {
				more++
			}
		}
		require.Len(t, l.Buffers, len(n.Layers[i].Buffers)+more)
		if i > 1 && train.BF16First == 0 {
			require.Equal(t, n.Layers[i].Shares(n.Layers[i-1]), l.Shares(made.Layers[i-1]))
		}
	}
}

// What a block of Llama keeps, moves and exchanges in 8 bits, in closed form.
func TestNarrowBlock(t *testing.T) {
	const devices = 4
	m := Model{Preset: "llama3-8b", Attention: AttentionFlash}
	n, err := m.On(group.Group{Devices: devices, Sequence: true})
	require.NoError(t, err)
	const s, h, q, kv, f = 8192, 4096, 4096, 1024, 14336
	wide, narrow := n.Layers[1], training.Options{Precision: training.PrecisionFP8}.Trained(n).Layers[1]
	kept := func(l network.Layer) [3]int64 { return network.BufferBytes(l.Buffers, 2, 1) }
	for lifetime, less := range [3]int64{
		network.ForwardToInput:  -2 * s * q / devices,                                              // the context
		network.ForwardToWeight: (2*s*h + 2*s*h + s*q*2 + s*f*2 - s*h - s*h - s*q - s*f) / devices, // what two norms, attention and the gate made
		network.InputToWeight:   (s*(q+2*kv)+s*2*f)/devices + 2*s*h,
	} {
		require.Equal(t, kept(wide)[lifetime]-less, kept(narrow)[lifetime], "lifetime %d", lifetime)
	}
	var casts [3]int64
	bytes := map[group.Pattern]int64{}
	for _, o := range narrow.Ops {
		if strings.HasSuffix(o.Name, ".cast") {
			for p := range casts {
				casts[p] += 2 * o.Moved[p]
			}
		}
		for _, x := range o.Exchanges {
			bytes[x.Collective] += x.Bytes(2, 1)
		}
	}
	// Each is read twice in 16 bits, and written along rows and columns.
	require.Equal(t, [3]int64{6 * s * (2*h + q + f) / devices, 6 * s * (q + 2*kv + 2*h + 2*f) / devices, 0}, casts)
	// Gathered are two inputs in F and W and two gradients in I, scattered the same in 16 bits.
	require.Equal(t, map[group.Pattern]int64{group.NoCollective: 0, group.AllGather: 6 * s * h, group.ReduceScatter: 4 * 2 * s * h}, bytes)
}
