package exec_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/exec"
	"psim/exec/processes"
	"psim/schedules"
	"psim/schedules/graph"
)

// worlds joins n processes, which are goroutines here, over sockets.
func worlds(t require.TestingT, n int, o processes.Options) []*processes.World {
	invitation, err := processes.Invite(n)
	require.NoError(t, err)
	list, errs := make([]*processes.World, n), make([]error, n)
	each(n, func(k int) { list[k], errs[k] = invitation.Join(context.Background(), k, o) })
	require.Equal(t, make([]error, n), errs)
	return list
}

// each calls what n times side by side.
func each(n int, what func(k int)) {
	var all sync.WaitGroup
	for k := range n {
		all.Go(func() { what(k) })
	}
	all.Wait()
}

// trained is what several processes have trained.
type trained struct {
	held   []map[string][]float32 // by rank
	losses []float64
	traces []*graph.Trace
}

// trainAmong trains some batches in several processes; 0 is one that knows of no others.
func trainAmong(t require.TestingT, n int, build func() exec.Job, all []exec.Batch) (result trained) {
	list := []*processes.World{nil}
	if n > 0 {
		list = worlds(t, n, processes.Options{})
	}
	parts, errs := make([]trained, len(list)), make([]error, len(list))
	jobs := make([]exec.Job, len(list))
	for k := range jobs {
		jobs[k] = build()
	}
	each(len(list), func(k int) {
		parts[k], errs[k] = trainPart(list[k], jobs[k], all)
		if errs[k] != nil && list[k] != nil {
			list[k].Abort(errs[k])
		}
	})
	each(n, func(k int) { list[k].Close() })
	require.Equal(t, make([]error, len(list)), errs)
	result = parts[0]
	for _, p := range parts[1:] {
		for rank, own := range p.held {
			if len(own) > 0 {
				require.Empty(t, result.held[rank], "rank %d is there twice", rank)
				result.held[rank] = own
			}
		}
	}
	return result
}

func trainPart(w *processes.World, j exec.Job, all []exec.Batch) (result trained, err error) {
	ctx := context.Background()
	if w != nil {
		var cancel func()
		ctx, cancel = w.Context(ctx)
		defer cancel()
	}
	devices, _, err := exec.OpenRanks(ctx, j.Graph.Ranks(), exec.DeviceOptions{Oversubscribe: true}, w)
	if err != nil {
		return result, err
	}
	defer exec.CloseDevices(devices)
	trainer, err := exec.NewTrainer(j, devices)
	if err != nil {
		return result, err
	}
	defer func() {
		trainer.Close()
		for _, d := range devices {
			if err == nil && d != nil && d.Bytes() != 0 {
				err = fmt.Errorf("%d bytes of tensors are left", d.Bytes())
			}
		}
	}()
	for _, b := range all {
		trace, loss, err := trainer.Step(ctx, b, exec.RunOptions{World: w})
		if err != nil {
			return result, err
		}
		result.traces, result.losses = append(result.traces, trace), append(result.losses, loss)
	}
	result.held, err = trainer.Held()
	return result, err
}

// sameAmong trains in one process and in several, and wants the same, to the bit.
func sameAmong(t *testing.T, m mode, j func() exec.Job, all []exec.Batch, counts ...int) {
	want := trainAmong(t, 0, j, all)
	for _, n := range counts {
		t.Run(fmt.Sprint(m, " on ", n), func(t *testing.T) {
			got := trainAmong(t, n, j, all)
			require.Equal(t, want.losses, got.losses)
			for rank := range want.held {
				require.Equal(t, slices.Sorted(maps.Keys(want.held[rank])), slices.Sorted(maps.Keys(got.held[rank])))
				for name, values := range want.held[rank] {
					require.Equal(t, values, got.held[rank][name], "%s of rank %d", name, rank)
				}
			}
			for k, trace := range got.traces {
				checkRules(t, trace)
				for i := range trace.Spans {
					require.LessOrEqual(t, trace.Ready[i], trace.Spans[i].Start)
				}
				require.Equal(t, want.traces[k].Persistent, trace.Persistent)
			}
		})
	}
}

// Several processes train what one does, to the bit.
func TestProcessesTrainAsOne(t *testing.T) {
	const samples = 36
	n := tiedGPT(t)
	all := batches(t, n, samples, 2)
	for _, m := range []mode{
		{schedule: "gpipe", ranks: 4, replicas: 1}, {schedule: "1f1b", ranks: 4, replicas: 1}, {schedule: "zbv", ranks: 2, replicas: 1},
		{schedule: "ddp", ranks: 1, replicas: 4, bucket: 3000, overlap: true}, {schedule: "1f1b", ranks: 2, replicas: 2, broadcast: true},
		{schedule: "ddp", ranks: 1, replicas: 4, sharded: true}, {schedule: "ddp", ranks: 1, replicas: 3, sharded: true, gloo: true},
		{schedule: "ddp", ranks: 1, replicas: 2, sharded: true, simplified: true}, {schedule: "gpipe", ranks: 2, replicas: 1, synchronous: true},
	} {
		counts := []int{2, 3, 4}
		sizes := slices.Repeat([]int{samples / m.replicas / 3}, 3)
		if testing.Short() {
			counts = counts[:1]
		}
		sameAmong(t, m, func() exec.Job { return m.job(t, n, sizes) }, all, counts[:min(len(counts), m.ranks*m.replicas-1)]...)
	}
}

// So does every schedule of the catalog on two.
func TestEveryScheduleAmongProcesses(t *testing.T) {
	const samples = 24
	if testing.Short() {
		t.Skip("the schedules that differ most are in the test above")
	}
	for _, s := range schedules.Catalog() {
		n := tiedGPT(t)
		modes := modesOf(s, 2, len(n.Layers))
		if s.Stashing {
			n = miniMLP(t) // without parameters on both ranks
			modes = []mode{{schedule: s.Name, ranks: 2, replicas: 1, microbatches: 4}}
		}
		all := batches(t, n, samples, 1)
		for _, m := range modes {
			sizes := slices.Repeat([]int{samples / m.replicas / m.microbatches}, m.microbatches)
			sameAmong(t, m, func() exec.Job { return m.job(t, n, sizes) }, all, 2)
		}
	}
}
