package models

import (
	"psim/costmodel/network"
)

// The blocks of one network may differ: some have a mixture of experts and others one MLP,
// some attend to a window and others to all tokens before.

// block returns the model as its i-th block has it, without what that block has not. Blocks
// with equal models share their operations and buffers.
func (m Model) block(i int) Model {
	if i < m.DenseLayers || (i+1)%max(1, m.MoEEvery) != 0 {
		m.Experts, m.ExpertsPerToken, m.SharedExperts = 0, 0, 0
	}
	if m.FullAttentionEvery > 0 && (i+1)%m.FullAttentionEvery == 0 {
		m.Window = 0
		m.QKNorm = m.QKNorm && !m.PlainQKNorm // which follow rotary positions, and these blocks have none
	}
	return m
}

// A work is what a layer does and keeps.
type work struct {
	ops     []network.Op
	buffers []network.Buffer
}

// works makes those of blocks, equal ones once.
type works map[Model]work

func (w works) of(m Model) work {
	made, ok := w[m]
	if !ok {
		made = work{llamaBlockOps(m), llamaBlockBuffers(m)}
		w[m] = made
	}
	return made
}

// valueDim returns the features of a head of values, which are those of queries and keys but in
// latent attention.
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

// expertKey names the setting that says them.
func (m Model) expertKey() string {
	if m.ExpertHidden > 0 {
		return "expert_hidden"
	}
	return "ffn_hidden"
}
