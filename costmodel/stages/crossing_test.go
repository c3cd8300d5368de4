package stages_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel/group"
	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/costmodel/stages"
	"psim/costmodel/training"
	"psim/schedules"
	"psim/schedules/graph"
)

func ExampleStaged_Crossings() {
	network, err := models.Model{Family: "gpt", Layers: 2, Hidden: 128, Heads: 4, Vocab: 500, SequenceLength: 64}.Network()
	if err != nil {
		panic(err)
	}
	w := stages.Workload{Network: network, Layers: []int{2, 3}, Placement: graph.InOrder(2), Samples: []int64{2, 2, 1}}
	for _, c := range w.Staged().Crossings() {
		fmt.Printf("stage %d to %d: %v, %d bytes, %d microbatches\n", c.From, c.To, c.Shape, c.Bytes, len(c.Microbatches))
	}
	// Output:
	// stage 0 to 1: [2 64 128], 65536 bytes, 2 microbatches
	// stage 0 to 1: [1 64 128], 32768 bytes, 1 microbatches
	// stage 1 to 0: [2 64 128], 65536 bytes, 2 microbatches
	// stage 1 to 0: [1 64 128], 32768 bytes, 1 microbatches
}

// message is one of a graph, or one that a crossing announces.
type message struct {
	backward          bool
	stage, rank, peer int32
	microbatch        int32
	bytes             int64
}

// What crosses is what the graph sends, in every schedule, and of the shape that it
// says.
func TestCrossingsAreTheGraphs(t *testing.T) {
	check := func(t *testing.T, w wired) {
		var sent, said []message
		for i := range int32(w.g.Len()) {
			if task := new(w.g.Task(i)); int(task.Rank) < w.g.Shape.Ranks && (task.Kind == graph.SendForward || task.Kind == graph.SendBackward) {
				sent = append(sent, message{task.Kind == graph.SendBackward, task.Stage, task.Rank, task.Peer, task.Microbatch, task.Bytes})
			}
		}
		for _, c := range w.plan.Crossings() {
			if c.FromRank == c.ToRank {
				require.Zero(t, c.Bytes)
				continue
			}
			whole := c.Shape.Elements() * w.plan.Training.ActivationElement()
			require.GreaterOrEqual(t, int64(c.Parts)*c.Bytes, whole)
			require.Less(t, (int64(c.Parts)*c.Bytes-whole)/int64(c.Shape[0]), int64(c.Parts), "filled up by sample")
			for _, m := range c.Microbatches {
				require.Equal(t, w.plan.Samples[m], int64(c.Shape[0]))
				said = append(said, message{c.Backward(), int32(c.From), c.FromRank, c.ToRank, m, c.Bytes})
			}
		}
		require.ElementsMatch(t, sent, said)
	}
	every(t, check)
	llama := models.Model{Family: "llama", Layers: 6, Hidden: 32, Heads: 4, KVHeads: 4, FFNHidden: 64, Vocab: 64, SequenceLength: 16}
	gpt := models.Model{Family: "gpt", Layers: 6, Hidden: 30, Heads: 2, Vocab: 64, SequenceLength: 15}
	for _, g := range []struct {
		model models.Model
		group group.Group
		want  network.Dims // of one sample, at every boundary between blocks
		parts int
	}{
		{llama, group.Group{Devices: 4}, network.Dims{16, 32}, 1},
		{llama, group.Group{Devices: 4, Sequence: true}, network.Dims{4, 32}, 1},
		{llama, group.Group{Devices: 4, Scatter: true}, network.Dims{16, 32}, 4},
		{llama, group.Group{Devices: 4, Scatter: true, Sequence: true}, network.Dims{4, 32}, 1},
		{gpt, group.Group{Devices: 2, Scatter: true}, network.Dims{15, 30}, 2},
	} {
		n, err := g.model.On(g.group)
		require.NoError(t, err)
		for _, s := range schedules.Catalog() {
			made, ok := wire(t, s, stages.Workload{Network: n, Training: training.Options{Precision: "bf16"}})
			if !ok {
				continue // pipedream, of tied parameters
			}
			t.Run(fmt.Sprintf("%v/%s", g.group, s.Name), func(t *testing.T) {
				check(t, made)
				for _, c := range made.plan.Crossings() {
					require.True(t, slices.Equal(g.want, c.Shape[1:]), "%v", c.Shape)
					require.True(t, c.Parts == g.parts || c.FromRank == c.ToRank)
				}
			})
		}
	}
}

// What every worker receives, for the splits of VGG16 into 1 to 6 partitions and five
// batches; the source is named in the file.
func TestCrossingsOfVGG16(t *testing.T) {
	data, err := os.ReadFile("../models/testdata/communication_shapes.json")
	require.NoError(t, err)
	var want struct{ Partitions map[string][][2]network.Dims }
	require.NoError(t, json.Unmarshal(data, &want))
	n := build(t, models.Model{Preset: "vgg16-pipeline"})
	for workers := 1; workers <= 6; workers++ {
		partitions := want.Partitions[strconv.Itoa(workers)]
		require.Len(t, partitions, workers)
		layers, err := models.VGG16Split(workers)
		require.NoError(t, err)
		for _, batch := range []int64{1, 3, 32, 41, 64} {
			w := stages.Workload{Network: n, Layers: layers, Placement: graph.InOrder(workers), Samples: []int64{batch}}
			crossings := w.Staged().Crossings()
			require.Len(t, crossings, 2*(workers-1))
			for _, c := range crossings {
				received := partitions[c.To][0]
				if c.Backward() {
					received = partitions[c.To][1]
				}
				require.Equal(t, append(network.Dims{int(batch)}, received...), c.Shape)
				require.Equal(t, 4*c.Shape.Elements(), c.Bytes)
			}
		}
	}
}
