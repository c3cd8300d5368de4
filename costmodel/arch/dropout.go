package arch

// Dropout as GPT-2 has it, all at one rate: after the sum of the embeddings,
// on the attention's probabilities, and after both projections of a block.

// dropout zeroes elements at random and scales the others, unless the model has
// none. F writes a mask, which I reads: a byte beside each element, counted as
// a quarter of one.
func (m Model) dropout(name string, shape ...int) []Op {
	if m.Dropout == 0 {
		return nil
	}
	n := elements(shape...)
	op := elementwise(name, n, 2, 2)
	op.Moved[Forward] += n / 4
	op.Moved[InputGradient] += n / 4
	return []Op{op}
}

// dropoutMask lists what a dropout keeps; it is not needed for its own output.
func (m Model) dropoutMask(name string, shape ...int) []Buffer {
	if m.Dropout == 0 {
		return nil
	}
	return []Buffer{{Name: name + ".mask", Shape: shape, ElementBytes: 1}}
}

// attentionDropout keeps its output as well, for the gradient of v.
func (m Model) attentionDropout(prefix string) []Buffer {
	name := prefix + "attn_dropout"
	buffers := m.dropoutMask(name, m.Heads, m.SequenceLength, m.SequenceLength)
	for _, mask := range buffers {
		buffers = append(buffers, Buffer{Name: name + ".output", Shape: mask.Shape})
	}
	for i := range buffers {
		buffers[i].AttentionCore, buffers[i].Sharded = true, true
	}
	return buffers
}
