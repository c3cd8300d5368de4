package models

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"psim/internal/setting"
)

// defaults sets optional numbers that are missing. It leaves bad numbers to checkNumbers.
func (m Model) defaults() Model {
	switch m.Family {
	case FamilyGPT:
		m.KVHeads = cmp.Or(m.KVHeads, m.Heads)
		m.FFNHidden = cmp.Or(m.FFNHidden, 4*min(m.Hidden, maxSize))
	case FamilyLlama, FamilyMixtral:
		m.KVHeads = cmp.Or(m.KVHeads, m.Heads)
		m.ExpertGroups, m.Imbalance = cmp.Or(m.ExpertGroups, 1), cmp.Or(m.Imbalance, 1)
		m.GroupsPerToken = cmp.Or(m.GroupsPerToken, m.ExpertGroups)
	}
	if m.mambas() {
		m.MambaChunk = cmp.Or(m.MambaChunk, mambaChunk)
	}
	if m.latent() {
		m.HeadDim = m.QKNopeHeadDim + m.QKRopeHeadDim
	}
	if m.HeadDim == 0 && m.Heads > 0 && m.Hidden%m.Heads == 0 {
		m.HeadDim = m.Hidden / m.Heads
	}
	if m.transformer() {
		m = m.withForm()
	}
	if m.Tied == nil {
		tied := m.Family == FamilyGPT
		m.Tied = &tied
	}
	return m
}

// checkNumbers requires every number of the family to be in its range, and the numbers of heads to
// fit each other.
func (m Model) checkNumbers() error {
	if m.HeadDim == 0 && m.Heads > 0 && m.Hidden > 0 {
		return fmt.Errorf("heads = %d: must divide hidden = %d", m.Heads, m.Hidden)
	}
	if err := setting.ValidateWith(m, m.Family); err != nil {
		return err
	}
	if m.transformer() {
		if err := m.checkAttention(); err != nil {
			return err
		}
	}
	if size := m.estimate(); size > maxCount {
		return fmt.Errorf("hidden = %d, sequence_length = %d: %.0e bytes of parameters and of a sample are beyond "+
			"what can be counted (%.0e)", m.Hidden, m.SequenceLength, size, float64(maxCount))
	}
	return nil
}

// checkWindow refuses settings of a window or of norms if the model has none.
func (m Model) checkWindow() error {
	switch {
	case m.FullAttentionEvery > 0 && m.Window == 0 && !m.delta():
		return fmt.Errorf("full_attention_every = %d: has no meaning without window or gated delta nets",
			m.FullAttentionEvery)
	case m.Chunked && m.Window == 0:
		return errors.New("chunked = true: has no meaning without window")
	case m.ParallelNorms && !m.ParallelBlock:
		return errors.New("parallel_norms = true: has no meaning without parallel_block")
	case m.PlainQKNorm && !m.QKNorm:
		return errors.New("plain_qk_norm = true: has no meaning without qk_norm")
	case m.DenseBeside && (m.SharedExperts > 0 || m.Pattern != ""):
		return errors.New("dense_beside_experts = true: has no meaning with shared_experts or pattern")
	case m.HeadGate && (m.latent() || m.AttentionGate):
		return errors.New("head_gate = true: has no meaning with attention_gate or kv_lora_rank")
	case m.ValueNorm && m.latent():
		return errors.New("value_norm = true: has no meaning with kv_lora_rank, whose norms are of its own")
	case m.WholeQKNorm && !m.QKNorm:
		return errors.New("whole_qk_norm = true: has no meaning without qk_norm")
	case m.WholeQKNorm && m.PlainQKNorm:
		return errors.New("whole_qk_norm = true: has no meaning with plain_qk_norm, whose norms have no gains")
	case m.WholeQKNorm && m.latent():
		return errors.New("whole_qk_norm = true: has no meaning with latent attention, whose norms are of its own")
	}
	return nil
}

// checkLatent requires all keys of latent attention, or none of them. It runs before defaults.
func (m Model) checkLatent() error {
	needed := []string{"qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"}
	given := 0
	for s, value := range setting.Given(m) {
		isNeeded := slices.Contains(needed, s.Key)
		if s.Key == "v_head_dim" && !m.latent() {
			continue
		}
		switch {
		case isNeeded:
			given++
		case m.latent() && slices.Contains([]string{"head_dim", "kv_heads", "qkv_bias", "qk_norm"}, s.Key):
			return fmt.Errorf("%s = %v: has no meaning with kv_lora_rank, which makes keys and values of every head "+
				"from few features", s.Key, value)
		}
		if (isNeeded || s.Key == "q_lora_rank") && !m.latent() {
			return fmt.Errorf("%s = %v: has no meaning without kv_lora_rank", s.Key, value)
		}
	}
	if m.latent() && given < len(needed) {
		return fmt.Errorf("kv_lora_rank = %d: needs %s", m.KVLoraRank, strings.Join(needed, ", "))
	}
	return nil
}

func (m Model) checkAttention() error {
	if m.Heads%m.KVHeads != 0 {
		return fmt.Errorf("kv_heads = %d: must divide heads = %d", m.KVHeads, m.Heads)
	}
	if err := m.checkRouting(); err != nil {
		return err
	}
	if m.PostNorms && m.ParallelBlock {
		return errors.New("post_norms = true: has no meaning with parallel_block = true, whose halves have one result")
	}
	if err := m.checkWindow(); err != nil {
		return err
	}
	if every := max(1, m.MoEEvery); m.Experts > 0 && m.Layers/every*every <= m.DenseLayers {
		return fmt.Errorf("dense_layers = %d, moe_every = %d: leave none of %d blocks with experts",
			m.DenseLayers, every, m.Layers)
	}
	if err := cmp.Or(m.checkForm(), m.checkSparse(), m.checkDelta(), m.checkMamba(), m.checkPattern(),
		m.checkWindows(), m.checkSizes(),
		m.checkEncoder()); err != nil {
		return err
	}
	if m.learned() && m.SequenceLength > m.Positions {
		return fmt.Errorf("sequence_length = %d: must be at most positions = %d", m.SequenceLength, m.Positions)
	}
	return nil
}

// estimate returns an upper bound of the bytes that a pass over one sample moves or keeps, and of
// those of the parameters with gradients and optimizer state. It is in floating point so that it
// cannot overflow.
func (m Model) estimate() float64 {
	s, h, f := float64(m.SequenceLength), float64(m.Hidden), float64(m.FFNHidden)
	head := math.Max(float64(max(m.HeadDim, m.VHeadDim)), float64(m.WindowHeadDim))
	q, kv := float64(max(m.Heads, m.WindowHeads))*head, float64(max(m.KVHeads, m.WindowKVHeads))*head
	v, positions, blocks := float64(m.Vocab), float64(m.Positions), float64(m.Layers)
	if m.Family == familyMLP {
		return 20 * blocks * (h*h + h)
	}
	experts, width := float64(m.Experts+m.SharedExperts), math.Max(f, float64(m.ExpertHidden))
	block := 2*h*(q+kv) + math.Max(1, experts)*(3*h*width+3*h+2*width) + 3*h*f + q + 2*kv + f + 10*h
	if m.latent() {
		ranks := float64(m.QLoraRank) + float64(m.KVLoraRank)
		values := float64(m.Heads) * float64(m.VHeadDim)
		block += (h+q+kv+values)*(ranks+float64(m.QKRopeHeadDim)) + h*values
	}
	block += float64(m.IndexHeads) * float64(m.IndexHeadDim) * (float64(m.QLoraRank) + h)
	keys, values := m.deltaSizes()
	block += h * (q + 2*float64(keys) + 4*float64(values))
	inner, shared := m.mambaSizes()
	block += h * (3*float64(inner) + float64(shared) + float64(m.MambaHeads) + 2*float64(m.ExpertLatent))
	modules := 1 + float64(m.MTPLayers)
	blocks += float64(m.MTPLayers)
	parameters := blocks*block + modules*(2*v*h+2*h*h) + (positions+float64(m.TokenTypes)+h)*h
	perToken := block/h + m.deltaEstimate() + m.mambaEstimate()
	activations := modules*s*(blocks*perToken+v+2*h) + blocks*s*s*float64(max(m.Heads, m.WindowHeads)+m.IndexHeads)
	return 16*activations + 20*parameters
}
