package models

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"psim/costmodel/group"
	"psim/internal/setting"
)

// Blocks that a search chose one by one (Puzzle, Bercovich et al. 2024; Nemotron NAS) have MLPs of unequal width and
// unequal heads of keys and values. A block may lack its attention or its MLP, with the norm before it.

// absentPart is what Model.BlockSizes has for a part that a block lacks.
const absentPart = "-"

// maxUnequal is the most blocks whose sizes can be listed.
const maxUnequal = 1000

// withSizes returns the model with the sizes of its i-th block.
func (m Model) withSizes(i int) Model {
	if m.BlockSizes == "" {
		return m
	}
	heads, width, _ := strings.Cut(strings.Fields(m.BlockSizes)[i], ":")
	m.BlockSizes = ""
	switch {
	case heads == absentPart:
		m.only, m.KVHeads = onlyMLP, m.Heads
	case width == absentPart:
		m.only = onlyAttention
	}
	if n, err := strconv.Atoi(heads); err == nil {
		m.KVHeads = n
	}
	if n, err := strconv.Atoi(width); err == nil {
		m.FFNHidden = n
	}
	return m
}

// checkSizes requires sizes of every block, and no other key that says how blocks differ.
func (m Model) checkSizes() error {
	if m.BlockSizes == "" {
		return nil
	}
	words := strings.Fields(m.BlockSizes)
	switch {
	case len(words) != m.Layers:
		return fmt.Errorf("block_sizes has %d blocks: must have layers = %d", len(words), m.Layers)
	case len(words) > maxUnequal:
		return fmt.Errorf("block_sizes has %d blocks: must have at most %d", len(words), maxUnequal)
	case m.Pattern != "" || m.Windows != "" || m.FullAttentionEvery > 0 || m.latent() || m.delta() || m.ParallelBlock ||
		m.PostNorms:
		return errors.New("block_sizes: has no meaning with pattern, windows, full_attention_every, kv_lora_rank, " +
			"gated delta nets, parallel_block or post_norms")
	case m.MTPLayers > 0:
		return fmt.Errorf("mtp_layers = %d: psim does not model modules that predict with block_sizes; set it to 0",
			m.MTPLayers)
	}
	for i, word := range words {
		if err := m.checkBlock(word); err != nil {
			return fmt.Errorf("block_sizes has %.40q for block %d: %w", word, i, err)
		}
	}
	return nil
}

// checkBlock requires a word such as 8:28672, with a dash for one of the two parts at most.
func (m Model) checkBlock(word string) error {
	heads, width, both := strings.Cut(word, ":")
	if !both || heads == absentPart && width == absentPart {
		return errors.New("must be kv_heads:ffn_hidden, with a dash for a part that the block lacks")
	}
	for _, part := range []struct {
		name, word string
		most       int
	}{{"kv_heads", heads, m.Heads}, {"ffn_hidden", width, m.FFNHidden}} {
		if part.word == absentPart {
			continue
		}
		if n, err := strconv.Atoi(part.word); err != nil || n < 1 || n > part.most {
			return fmt.Errorf("%s must be a dash or 1 to %d", part.name, part.most)
		}
	}
	if n, err := strconv.Atoi(heads); err == nil && m.Heads%n != 0 {
		return fmt.Errorf("kv_heads must divide heads = %d", m.Heads)
	}
	return nil
}

// checkSizesOn requires that a group divides every block.
func (m Model) checkSizesOn(g group.Group) error {
	parts := g.TensorParts()
	if g.ContextParts() > 1 && g.Method == group.ContextUlysses {
		parts = g.All()
	}
	for i, word := range strings.Fields(m.BlockSizes) {
		for size := range strings.SplitSeq(word, ":") {
			if n, err := strconv.Atoi(size); err == nil && n%parts != 0 {
				return fmt.Errorf("block_sizes has %s for block %d: %d devices that share every block must divide %d",
					word, i, parts, n)
			}
		}
	}
	return nil
}

// sizeListSettings describes the key of blocks of unequal width.
func sizeListSettings() []setting.Setting {
	return []setting.Setting{{
		Key: "block_sizes", Example: `"8:28672 -:14336"`, With: []string{FamilyLlama}, Unset: "all blocks are equal",
		Text: "kv_heads:ffn_hidden of each block, with a dash for a part that the block lacks, as in Nemotron NAS; " +
			"ffn_hidden is the widest",
	}}
}
