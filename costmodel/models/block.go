package models

import (
	"psim/costmodel/network"
)

// The blocks of one network may differ: some have a mixture of experts and others one MLP, some
// attend to a window and others to all earlier tokens.

// block returns the model with only the parts of its i-th block. Blocks with equal models share their
// operations and buffers.
func (m Model) block(i int) Model {
	if i < m.DenseLayers || (i+1)%max(1, m.MoEEvery) != 0 {
		m.Experts, m.ExpertsPerToken, m.SharedExperts = 0, 0, 0
	}
	if m.FullAttentionEvery > 0 && (i+1)%m.FullAttentionEvery == 0 {
		m.Window, m.DeltaValueHeads = 0, 0
		m.QKNorm = m.QKNorm && !m.PlainQKNorm // plain norms follow rotary positions, which these blocks lack
	}
	return m.withIndexer(i)
}

// A work holds the operations and buffers of a layer.
type work struct {
	ops     []network.Op
	buffers []network.Buffer
}

// works holds the work of blocks. Equal blocks share one.
type works map[Model]work

func (w works) of(m Model) work {
	made, ok := w[m]
	if !ok {
		made = work{llamaBlockOps(m), llamaBlockBuffers(m)}
		w[m] = made
	}
	return made
}

// valueDim returns the features of a head of values. They differ from those of queries and keys only
// in latent attention.
func (m Model) valueDim() int {
	if m.latent() {
		return m.VHeadDim
	}
	return m.HeadDim
}

// expertHidden returns the features inside an expert.
func (m Model) expertHidden() int {
	if m.ExpertHidden > 0 {
		return m.ExpertHidden
	}
	return m.FFNHidden
}

// expertKey names the setting with the features inside an expert.
func (m Model) expertKey() string {
	if m.ExpertHidden > 0 {
		return "expert_hidden"
	}
	return "ffn_hidden"
}
