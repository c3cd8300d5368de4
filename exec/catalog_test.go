package exec_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/exec"
	"psim/schedules"
	"psim/schedules/graph"
)

// modesOf are the ways to run a schedule on so many devices: with one stage per
// rank and with two where it may hold several, or as many copies if it does not
// split the network. None where it refuses that number of ranks, or the network has
// too few layers.
func modesOf(s schedules.Schedule, devices, layers int) []mode {
	if s.Stashing {
		return nil // it trains something else: see TestPipedreamIsItsReplay
	}
	if !s.Pipelined {
		return []mode{{schedule: s.Name, ranks: 1, replicas: devices, microbatches: 2}}
	}
	chunks := []int{1}
	if s.Virtual {
		chunks = []int{1, 2, 4} // some need an even number
	}
	var modes []mode
	for _, v := range chunks {
		for _, m := range []int{2 * devices, 12, 24} { // divisors of the batch
			shape := s.Sized(graph.Shape{Ranks: devices, Virtual: v, Microbatches: m})
			if s.Check(shape) == nil && shape.Stages() <= layers {
				modes = append(modes, mode{schedule: s.Name, ranks: devices, replicas: 1, virtual: shape.Virtual, microbatches: m})
				break
			}
		}
	}
	return modes
}

// Every schedule of the catalog, on two, three and four devices where it
// serves them, trains to the weights of the unsplit run, and all copies of a parameter
// stay equal to the bit.
func TestEveryScheduleTrainsAsUnsplit(t *testing.T) {
	const samples, steps = 24, 3
	n := tiedGPT(t)
	all := batches(t, n, samples, steps)
	want, wantLosses := train(t, job(t, n, "gpipe", 1, []int{samples}, false), all, 0)
	counts := []int{2, 3, 4}
	if testing.Short() {
		counts = counts[:1]
	}
	for _, s := range schedules.Catalog() {
		require.True(t, s.Stashing || len(modesOf(s, 2, len(n.Layers))) > 0, "%s runs on no two devices", s.Name)
		for _, devices := range counts {
			for _, m := range modesOf(s, devices, len(n.Layers)) {
				t.Run(m.String(), func(t *testing.T) {
					sizes := slices.Repeat([]int{samples / m.replicas / m.microbatches}, m.microbatches)
					got, losses := trainCopies(t, m.job(t, n, sizes), all)
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
func trainCopies(t *testing.T, j exec.Job, batches []exec.Batch) (copies map[string][][]float32, losses []float64) {
	shuffleStreams(j.Graph, 7)
	devices, err := exec.OpenDevices(j.Graph.Ranks(), exec.DeviceOptions{Oversubscribe: true})
	require.NoError(t, err)
	defer exec.CloseDevices(devices)
	trainer, err := exec.NewTrainer(j, devices)
	require.NoError(t, err)
	defer trainer.Close()
	for _, b := range batches {
		trace, loss, err := trainer.Step(context.Background(), b, exec.RunOptions{})
		require.NoError(t, err)
		checkRules(t, trace)
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
