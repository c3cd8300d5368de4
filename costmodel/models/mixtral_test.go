package models

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"psim/costmodel/network"
)

// Jiang et al. 2024: 47B parameters of which a token uses 13B; 46.7 and 12.9 on
// Mistral's page of the release.
func TestMixtralParameters(t *testing.T) {
	n := preset(t, "mixtral-8x7b")
	assert.InDelta(t, 46.7, float64(n.Parameters())/1e9, 0.05)
	assert.InDelta(t, 12.9, float64(activeParameters(n))/1e9, 0.05)
	dense := preset(t, "mistral-7b")
	assert.Equal(t, dense.Parameters(), activeParameters(dense))
}

// Products cost what those of the active experts do: two FLOPs per parameter and
// token, beside attention.
func TestMixtralFLOPs(t *testing.T) {
	n := build(t, Model{Preset: "mixtral-8x7b", SequenceLength: 512})
	const s, h, blocks, embedding = 512, 4096, 32, 32000 * 4096
	norms := int64((2*blocks + 1) * h)
	assert.Equal(t, 2*s*(activeParameters(n)-norms-embedding)+blocks*4*s*s*h, int64(n.FLOPs(network.Forward)))
	assert.Equal(t, int64(n.FLOPs(network.Forward))-blocks*4*s*s*h, int64(n.FLOPs(network.WeightGradient)))
}

// A mixture in which every token takes all of one expert is a Llama, but for the
// router; and the weights of all experts are read, however few tokens there are.
func TestOneExpertIsLlama(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, _ := drawDivided(t)
		m.Family, m.Dropout, m.Experts, m.ExpertsPerToken = FamilyLlama, 0, 0, 0
		m.KVHeads = m.Heads
		dense := build(t, m).Layers[1]
		m.Family, m.Experts, m.ExpertsPerToken = FamilyMixtral, 1, 1
		one := build(t, m).Layers[1]
		s, h := int64(m.SequenceLength), int64(m.Hidden)
		assert.Equal(t, dense.Parameters()+h, one.Parameters())
		assert.Equal(t, int64(dense.FLOPs(network.Forward))+2*s*h, int64(one.FLOPs(network.Forward)))

		m.Experts = 4
		four := build(t, m).Layers[1]
		f := int64(m.FFNHidden)
		assert.Equal(t, one.Parameters()+3*(3*h*f+h), four.Parameters())
		assert.Equal(t, int64(one.FLOPs(network.Forward))+3*2*s*h, int64(four.FLOPs(network.Forward)), "but for the router")
		grown := four.Traffic(network.Forward, 1) - one.Traffic(network.Forward, 1)
		assert.Equal(t, 3*(3*h*f)+3*(h+s)+3*2*s, grown, "weights, and what the router makes")
	})
}

// activeParameters counts what one token goes through: 2 of 8 experts.
func activeParameters(n network.Network) int64 {
	sum := n.Parameters()
	for _, l := range n.Layers {
		for _, t := range l.Params {
			if strings.Contains(t.Name, ".experts.") {
				size := t.Shape.Elements()
				sum -= size - size/8*2
			}
		}
	}
	return sum
}
