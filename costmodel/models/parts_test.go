package models

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"psim/costmodel/network"
)

// Modules that predict with one set of parameters compute as much as modules with several, and have no more parameters
// than one. With a pattern they have attention and experts.
func TestSharedPredictors(t *testing.T) {
	made := func(modules int, shared bool) network.Network {
		n, err := Model{Preset: "nemotron3-super-120b-a12b", MTPLayers: modules, MTPShared: shared}.Network()
		require.NoError(t, err)
		return n
	}
	none, one, two, shared := made(0, false), made(1, false), made(2, false), made(2, true)
	assert.Equal(t, one.Parameters(), shared.Parameters())
	assert.Equal(t, one.ActiveParameters(), shared.ActiveParameters())
	assert.Greater(t, one.Parameters(), none.Parameters())
	for _, p := range []network.Pass{network.Forward, network.InputGradient, network.WeightGradient} {
		assert.InEpsilon(t, two.FLOPs(p), shared.FLOPs(p), 1e-12)
	}
	module := two.Layers[len(two.Layers)-2]
	assert.Equal(t, "mtp.1", module.Name)
	assert.Equal(t, 512, module.Experts)
	for _, op := range module.Ops {
		assert.NotEqual(t, network.Scan, op.Class)
	}
}

// A mixer beside attention has the products and tensors of both, and one norm and one input.
func TestMixerBesideAttention(t *testing.T) {
	made := func(pattern string) network.Network {
		m := patternModel()
		m.Family, m.Pattern, m.Layers = FamilyLlama, pattern, len(pattern)
		m.Experts, m.ExpertsPerToken, m.SharedExperts, m.ExpertLatent, m.ExpertHidden = 0, 0, 0, 0, 0
		if pattern == "*-" || pattern == "--" {
			m.MambaHeads, m.MambaHeadDim, m.MambaStates, m.MambaGroups, m.MambaConvolution, m.MambaChunk = 0, 0, 0, 0, 0, 0
		}
		n, err := m.Network()
		require.NoError(t, err)
		return n
	}
	beside, mixer, attention, neither := made("H-"), made("M-"), made("*-"), made("--")
	for _, p := range []network.Pass{network.Forward, network.InputGradient, network.WeightGradient} {
		mlp := neither.Layers[1]
		assert.InEpsilon(t, mixer.FLOPs(p)+attention.FLOPs(p), beside.FLOPs(p)+neither.FLOPs(p)-mlp.FLOPs(p), 1e-12)
	}
	block := beside.Layers[1]
	norm := int64(beside.Layers[1].Params[0].Shape.Elements())
	assert.Equal(t, mixer.Layers[1].Parameters()+attention.Layers[1].Parameters(), block.Parameters()+norm)
	inputs := 0
	for _, b := range block.Buffers {
		if b.Modules == network.Norms {
			inputs++
		}
	}
	assert.Equal(t, 1, inputs)
}
