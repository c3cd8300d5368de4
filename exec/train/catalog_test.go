package train_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/exec/backend"
	"psim/exec/data"
	"psim/exec/exectest"
	"psim/exec/run"
	"psim/exec/train"
	"psim/schedules"
	"psim/schedules/graph"
)

// modesOf returns the ways to run a schedule on a number of devices: with one stage per rank,
// and with two if it may hold several, or as many copies if it does not split the network.
// It returns nothing if the schedule refuses that number of ranks, or the network has too few layers.
func modesOf(s schedules.Schedule, devices, layers int) []exectest.Spread {
	if s.Stashing {
		return nil // they train something else: see TestPipedreamIsItsReplay
	}
	if !s.Pipelined {
		return []exectest.Spread{{Schedule: s.Name, Ranks: 1, Replicas: devices, Microbatches: 2}}
	}
	chunks := []int{1}
	if s.Virtual {
		chunks = []int{1, 2, 4} // some need an even number
	}
	var modes []exectest.Spread
	for _, v := range chunks {
		for _, m := range []int{2 * devices, 12, 24} { // divisors of the batch
			shape := s.Sized(graph.Shape{Ranks: devices, Virtual: v, Microbatches: m})
			if s.Check(shape) == nil && shape.Stages() <= layers {
				modes = append(modes, exectest.Spread{Schedule: s.Name, Ranks: devices, Replicas: 1,
					Virtual: shape.Virtual, Microbatches: m})
				break
			}
		}
	}
	return modes
}

// Every schedule of the catalog, on two, three and four devices if it supports them, trains to
// the weights of the unsplit run, and all copies of a parameter stay equal to the bit.
func TestEveryScheduleTrainsAsUnsplit(t *testing.T) {
	const samples, steps = 24, 3
	n := exectest.TiedGPT(t)
	all := exectest.Batches(t, n, samples, steps)
	want, wantLosses := trainSteps(t, exectest.Unsplit(t, n, samples), all, 0)
	counts := []int{2, 3, 4}
	if testing.Short() {
		counts = counts[:1]
	}
	for _, s := range schedules.Catalog() {
		require.True(t, s.Stashing || len(modesOf(s, 2, len(n.Layers))) > 0, "%s runs on no two devices", s.Name)
		for _, devices := range counts {
			for _, m := range modesOf(s, devices, len(n.Layers)) {
				t.Run(m.String(), func(t *testing.T) {
					sizes := slices.Repeat([]int{samples / m.Replicas / m.Microbatches}, m.Microbatches)
					got, losses := trainCopies(t, m.Job(t, n, sizes), all)
					require.InDeltaSlice(t, wantLosses, losses, 1e-4)
					for name, copies := range got {
						for _, c := range copies {
							require.Equal(t, copies[0], c, "%s differs between its %d copies", name, len(copies))
						}
					}
					require.Less(t, difference(t, want, firstOf(got)), 1e-5)
				})
			}
		}
	}
}

// trainCopies runs the batches and returns every copy of the parameters.
func trainCopies(t *testing.T, j train.Job, batches []data.StepBatch) (
	copies map[string][][]float32, losses []float64) {
	exectest.ShuffleStreams(j.Graph, 7)
	devices, err := backend.Open(j.Graph.Ranks(), exectest.Options())
	require.NoError(t, err)
	defer backend.Close(devices)
	trainer, err := train.NewTrainer(j, devices)
	require.NoError(t, err)
	defer trainer.Close()
	for _, b := range batches {
		trace, loss, err := trainer.Step(context.Background(), b, run.Options{})
		require.NoError(t, err)
		exectest.CheckRules(t, trace)
		losses = append(losses, loss)
	}
	copies, err = trainer.Copies()
	require.NoError(t, err)
	return copies, losses
}

func firstOf(copies map[string][][]float32) map[string][]float32 {
	first := map[string][]float32{}
	for name, values := range copies {
		first[name] = values[0]
	}
	return first
}
