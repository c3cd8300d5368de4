package stages_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/costmodel/stages"
	"psim/costmodel/training"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/partition"
)

// wired is a plan and the graph of a schedule that was wired from it.
type wired struct {
	plan *stages.Staged
	g    *graph.Graph
}

func build(t *testing.T, m models.Model) network.Network {
	t.Helper()
	n, err := m.Network()
	require.NoError(t, err)
	return n
}

// networks have tied parameters, layers that hand on what they are given, and
// neither.
func networks(t *testing.T) []network.Network {
	return []network.Network{
		build(t, models.Model{Family: "gpt", Layers: 6, Hidden: 32, Heads: 4, Vocab: 50, SequenceLength: 16}),
		build(t, models.Model{Preset: "vgg16-pipeline"}), build(t, models.Model{Family: "mlp", Layers: 8, Hidden: 24}),
	}
}

// wire wires a schedule over two ranks; false where it has no such shape.
func wire(t *testing.T, s schedules.Schedule, w stages.Workload) (wired, bool) {
	t.Helper()
	if s.Stashing && w.Replicas > 1 || s.Pipelined && w.Zero == 3 {
		return wired{}, false // which is refused
	}
	shape := graph.Shape{Ranks: 2, Microbatches: 8, Replicas: w.Replicas}
	if !s.Pipelined {
		shape.Ranks = 1
	}
	if shape = s.Sized(shape); s.Check(shape) != nil {
		shape.Virtual = 2
	}
	require.NoError(t, s.Check(shape), s.Name)
	w.Samples, w.Placement = slices.Repeat([]int64{2}, shape.Microbatches), s.Placement(shape)
	if w.Zero > 0 && w.Placement.Second != nil {
		return wired{}, false // likewise
	}
	var err error
	if w.Layers, err = partition.Equal(len(w.Network.Layers), w.Placement.Stages()); w.Zero == 3 {
		w.Layers, w.Placement = slices.Repeat([]int{1}, len(w.Network.Layers)), graph.Placement{First: make([]int32, len(w.Network.Layers))}
	}
	require.NoError(t, err)
	p, err := s.Pipeline(shape, w.Placement.First)
	require.NoError(t, err)
	staged := w.Staged()
	if s.Stashing && len(staged.Tied) > 0 {
		return wired{}, false // likewise
	}
	staged.Fill(&p)
	p.Optimizer = true
	g, err := p.Graph()
	require.NoError(t, err)
	return wired{staged, g}, true
}

// perLayer trains with a backward for every layer.
var perLayer = training.Options{Backward: training.BackwardPerLayer}

// every wires every schedule of the catalog in every way of summing gradients.
func every(t *testing.T, check func(t *testing.T, w wired)) {
	for _, n := range networks(t) {
		for _, s := range schedules.Catalog() {
			for _, w := range []stages.Workload{
				{}, {Replicas: 2}, {Replicas: 2, Overlap: true}, {Replicas: 2, Bucket: 5000, Overlap: true}, {Replicas: 2, Bucket: 5000},
				{Replicas: 2, Zero: 1, Bucket: 5000, Overlap: true}, {Replicas: 2, Zero: 2, Overlap: true}, {Replicas: 2, Zero: 2, Bucket: 5000},
				{Replicas: 2, Zero: 2, Bucket: 5000, Overlap: true, NoReduceScatter: true}, {Replicas: 2, Zero: 3}, {Replicas: 2, Zero: 3, Overlap: true},
				{Replicas: 2, Zero: 1, Bucket: 5000, Overlap: true, OverlapGather: true}, {Replicas: 2, Zero: 2, OverlapGather: true},
				{Training: perLayer}, {Replicas: 2, Training: perLayer, Bucket: 5000, Overlap: true},
			} {
				w.Network = n
				name := fmt.Sprintf("%s/%s/zero %d/replicas %d/bucket %d/overlap %v %v/per layer %v", n.Name, s.Name, w.Zero, w.Replicas, w.Bucket, w.Overlap, w.OverlapGather, w.Training.PerLayer())
				if made, ok := wire(t, s, w); ok {
					t.Run(name, func(t *testing.T) { check(t, made) })
				}
			}
		}
	}
}

// What is planned is what the graph has: the bytes that the replicas sum, by stage
// and bucket, the parts of the backwards that complete them, and what the ranks of
// a replica sum.
func TestPlanIsTheGraphs(t *testing.T) {
	every(t, func(t *testing.T, w wired) {
		require.NoError(t, w.plan.Check(w.g))
		sums, parts := make([]map[uint16]int64, len(w.plan.Stages)), make([]int, len(w.plan.Stages))
		tied := make([][]int64, w.g.Ranks())
		for i := range int32(w.g.Len()) {
			task := new(w.g.Task(i))
			switch {
			case task.Kind.Compute() && task.Kind != graph.Forward:
				parts[task.Stage] = max(parts[task.Stage], int(task.Part)+1)
			case task.Kind != graph.AllReduce && task.Kind != graph.ReduceScatter:
			case task.Stage == graph.None:
				tied[task.Rank] = append(tied[task.Rank], task.Bytes)
			default:
				if sums[task.Stage] == nil {
					sums[task.Stage] = map[uint16]int64{}
				}
				sums[task.Stage][task.Part] = task.Bytes
			}
		}
		for s := range w.plan.Stages {
			st := &w.plan.Stages[s]
			require.Equal(t, parts[s], w.plan.Parts(st), "stage %d", s)
			if w.plan.Gathers() {
				continue // whole units, which TestUnits has
			}
			require.Len(t, sums[s], len(st.Buckets), "stage %d", s)
			for k, b := range st.Buckets {
				require.Equal(t, sums[s][uint16(k)], b.Bytes, "stage %d, bucket %d", s, k)
			}
		}
		for rank := range tied {
			var planned []int64
			for _, sum := range w.plan.Tied {
				if slices.ContainsFunc(sum.Stages, func(s int) bool {
					return w.g.Placement.Holds(int32(rank%w.g.Shape.Ranks), int32(s))
				}) {
					planned = append(planned, sum.Bytes)
				}
			}
			require.Equal(t, planned, tied[rank], "rank %d", rank)
		}
	})
}

// Buckets hold every tensor of a stage once, in the order in which a backward
// completes them, and segments every layer. The gradients of a bucket are complete
// when the part of its number has run.
func TestSegmentsCompleteBuckets(t *testing.T) {
	every(t, func(t *testing.T, w wired) {
		for s, st := range w.plan.Stages {
			bucketOf, tensors := map[string]int{}, []string(nil)
			for k, b := range st.Buckets {
				for _, name := range b.Tensors {
					bucketOf[name] = k
				}
				tensors = append(tensors, b.Tensors...)
			}
			if len(st.Buckets) > 0 {
				for i, x := range st.Tensors {
					require.Equal(t, x.Name, tensors[i], "stage %d", s)
				}
			}
			layer, before := 0, w.plan.Parts(&st)
			for _, g := range st.Segments {
				require.LessOrEqual(t, int(g.Part), before, "the backward goes from the last segment to the first")
				before = int(g.Part)
				for _, l := range g.Layers {
					require.Equal(t, st.Layers[layer].Name, l.Name)
					for _, x := range st.Held[layer] {
						if k, ok := bucketOf[x.Name]; ok && w.plan.Parts(&st) > 1 {
							require.LessOrEqual(t, int(g.Part), k, "stage %d, %s", s, x.Name)
						}
					}
					layer++
				}
			}
			require.Equal(t, len(st.Layers), layer)
		}
	})
}

// A layer that hands on what it is given runs with the one before it, whose result
// that is.
func TestIdleLayersJoin(t *testing.T) {
	n := build(t, models.Model{Preset: "vgg16-pipeline"})
	w := stages.Workload{Network: n, Layers: []int{len(n.Layers)}, Placement: graph.InOrder(1), Samples: []int64{1}, Training: perLayer}
	var names []string
	for _, g := range w.Staged().Stages[0].Segments {
		names = append(names, g.Layers[0].Name)
	}
	require.Equal(t, []string{"conv1", "conv2", "conv3", "conv4", "conv5", "flatten", "fc1", "relu1", "fc2", "relu2", "fc3"}, names)
}

// A graph that was wired from another plan is told apart.
func TestCheck(t *testing.T) {
	gpipe, err := schedules.Find("gpipe")
	require.NoError(t, err)
	made, _ := wire(t, gpipe, stages.Workload{Network: networks(t)[0], Replicas: 2, Bucket: 5000, Overlap: true})
	for _, c := range []struct {
		change func(*stages.Workload)
		want   string
	}{
		{func(w *stages.Workload) { w.Layers = []int{9} }, "a split into 1 stages for a graph of 2"},
		{func(w *stages.Workload) { w.Layers = []int{1, 2} }, "a split of 3 layers for a network of 9"},
		{func(w *stages.Workload) { w.Samples = w.Samples[1:] }, "7 sizes for 8 microbatches"},
		{func(w *stages.Workload) { w.Replicas = 3 }, "a plan for 3 replicas and a graph of 2"},
		{func(w *stages.Workload) { w.Placement = graph.Placement{First: []int32{1, 0}} }, "stages on ranks [1 0], in the graph on [0 1]"},
		{func(w *stages.Workload) { w.Bucket = 20_000 }, "which is not a planned bucket"},
		{func(w *stages.Workload) { w.Layers = []int{4, 5} }, "which is not a planned bucket"},
		{func(w *stages.Workload) { w.Overlap = false }, "planned are 1"},
		{func(w *stages.Workload) { w.Broadcast = true }, "does not broadcast bucket 0 of its tensors"},
	} {
		w := made.plan.Workload
		c.change(&w)
		require.ErrorContains(t, w.Staged().Check(made.g), c.want)
	}
	alone, _ := wire(t, gpipe, stages.Workload{Network: networks(t)[0], Replicas: 2})
	alone.g.Classes = slices.DeleteFunc(alone.g.Classes, func(task graph.Task) bool { return task.Kind == graph.AllReduce && task.Stage == 1 })
	require.ErrorContains(t, alone.plan.Check(alone.g), "stage 1: the graph does not sum bucket 0 of its tensors")
}

// A step whose bytes do not fit in 63 bits is refused.
func TestWorkloadValidate(t *testing.T) {
	n := build(t, models.Model{Preset: "gpt2"})
	w := stages.Workload{Network: n, Layers: []int{len(n.Layers)}, Placement: graph.InOrder(1), Samples: []int64{1 << 20}, Replicas: 1}
	require.NoError(t, w.Validate(stages.BytesPerSample(w.Network)))
	for _, samples := range [][]int64{{1 << 40}, {1 << 31, 1 << 31}, {math.MaxInt64, math.MaxInt64}} {
		w.Samples = samples
		require.ErrorContains(t, w.Validate(stages.BytesPerSample(w.Network)), "more than can be counted in bytes")
	}
	w.Samples, w.Replicas = []int64{1 << 20}, 1<<20
	require.ErrorContains(t, w.Validate(stages.BytesPerSample(w.Network)), "1099511627776 samples per step of gpt2")
}
