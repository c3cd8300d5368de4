package models

import (
	"encoding/json"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/costmodel/network"
)

// Shapes at the cuts of 1 to 6 workers; the source is named in the file.
func TestVGG16SplitShapes(t *testing.T) {
	data, err := os.ReadFile("testdata/communication_shapes.json")
	require.NoError(t, err)
	var want struct{ Partitions map[string][][2]network.Dims }
	require.NoError(t, json.Unmarshal(data, &want))
	require.Len(t, want.Partitions, 6)
	layers := preset(t, "vgg16-pipeline").Layers
	for workers, partitions := range want.Partitions {
		w, err := strconv.Atoi(workers)
		require.NoError(t, err)
		split, err := VGG16Split(w)
		require.NoError(t, err)
		require.Len(t, split, w)
		first := 0
		for i, count := range split {
			assert.Equal(t, partitions[i][0], layers[first].Input, "%d workers, partition %d", w, i)
			first += count
			assert.Equal(t, partitions[i][1], layers[first-1].Output, "%d workers, partition %d", w, i)
		}
		assert.Equal(t, len(layers), first)
	}
	for _, w := range []int{-1, 0, 7} {
		_, err := VGG16Split(w)
		assert.ErrorContains(t, err, "must be 1 to 6")
	}
}

// 13 convolutions and 3 linear layers, counted by hand: side² · in · out · 9.
func TestVGG16FLOPs(t *testing.T) {
	convolutions := int64(0)
	for _, c := range [][3]int64{{32, 3, 64}, {32, 64, 64}, {16, 64, 128}, {16, 128, 128}, {8, 128, 256}, {8, 256, 256}, {8, 256, 256},
		{4, 256, 512}, {4, 512, 512}, {4, 512, 512}, {2, 512, 512}, {2, 512, 512}, {2, 512, 512}} {
		convolutions += 2 * c[0] * c[0] * c[1] * c[2] * 9
	}
	for name, wide := range map[string]int64{"vgg16": 25088, "vgg16-pipeline": 512} {
		n := preset(t, name)
		forward := convolutions + 2*(wide*4096+4096*4096+4096*10)
		assert.EqualValues(t, forward, n.FLOPs(network.Forward), name)
		assert.EqualValues(t, forward, n.FLOPs(network.WeightGradient), name)
		assert.EqualValues(t, forward-2*32*32*3*64*9, n.FLOPs(network.InputGradient), "the image needs no gradient")
	}
}

func TestVGG16TensorNames(t *testing.T) {
	var names []string
	for _, tensor := range preset(t, "vgg16").ParameterTensors() {
		if len(tensor.Shape) > 1 {
			names = append(names, tensor.Name)
		}
	}
	assert.Equal(t, []string{
		"features.0.weight", "features.2.weight", "features.5.weight", "features.7.weight",
		"features.10.weight", "features.12.weight", "features.14.weight",
		"features.17.weight", "features.19.weight", "features.21.weight",
		"features.24.weight", "features.26.weight", "features.28.weight",
		"classifier.0.weight", "classifier.3.weight", "classifier.6.weight",
	}, names, "torchvision's indices")
}

func TestGPT2Placement(t *testing.T) {
	n := preset(t, "gpt2")
	for _, c := range []struct {
		ranks  int
		layers []int
		rankOf []int32
	}{
		{1, []int{15}, []int32{0}},
		{2, []int{7, 7, 1}, []int32{0, 1, 0}},
		{3, []int{5, 4, 5, 1}, []int32{0, 1, 2, 0}},
		{4, []int{4, 3, 3, 4, 1}, []int32{0, 1, 2, 3, 0}},
		{12, []int{2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 1}, []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0}},
	} {
		layers, rankOf, err := GPT2Placement(n, c.ranks)
		require.NoError(t, err)
		assert.Equal(t, c.layers, layers)
		assert.Equal(t, c.rankOf, rankOf)
	}
	for ranks, want := range map[int]string{0: "must be 1 to 12", 13: "must be 1 to 12", 5: "leave rank 4 without one"} {
		_, _, err := GPT2Placement(n, ranks)
		assert.ErrorContains(t, err, want)
	}
	_, _, err := GPT2Placement(preset(t, "llama2-7b"), 2)
	assert.ErrorContains(t, err, `"llama2-7b" is not a GPT`)
}

func TestPlacementCoversTheNetwork(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := build(t, drawGPT(t))
		ranks := rapid.IntRange(1, 8).Draw(t, "ranks")
		layers, rankOf, err := GPT2Placement(n, ranks)
		if err != nil {
			return
		}
		sum := 0
		for _, count := range layers {
			assert.Positive(t, count)
			sum += count
		}
		assert.Equal(t, len(n.Layers), sum)
		assert.Len(t, rankOf, len(layers))
	})
}
