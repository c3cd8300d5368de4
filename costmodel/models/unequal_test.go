package models

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel/group"
	"psim/costmodel/network"
)

// Blocks of unequal width make the products that their sizes say, for 1,024 tokens summed by hand over the 80 blocks of
// Nemotron Super 49B: products with weights, and the square of attention where a block has it. Equal blocks share work.
func TestUnequalBlocks(t *testing.T) {
	m := Model{Preset: "nemotron-super-49b", SequenceLength: 1024}
	n := build(t, m)
	require.EqualValues(t, 49_867_145_216, n.Parameters())
	require.EqualValues(t, 101_657_580_929_024, n.FLOPs(network.Forward))
	different := map[*network.Op]bool{}
	for _, l := range n.Layers[1:81] {
		require.True(t, l.IsBlock(), l.Name)
		different[&l.Ops[0]] = true
	}
	require.Len(t, different, 8, "kinds of blocks in the file")
	_, err := m.On(group.Group{Devices: 8})
	require.NoError(t, err)
	_, err = m.On(group.Group{Devices: 16})
	require.ErrorContains(t, err, "block_sizes has 8:14336 for block 0: 16 devices that share every block must divide 8")
}
