package train_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/exec/backend"
	"psim/exec/cluster"
	"psim/exec/data"
	"psim/exec/exectest"
	"psim/exec/kernels"
	"psim/exec/run"
	"psim/exec/train"
	"psim/schedules"
	"psim/schedules/graph"
)

// trained is what several processes have trained.
type trained struct {
	held   []map[string][]float32 // by rank
	losses []float64
	traces []*graph.Trace
}

// trainAmong trains some batches in several processes; with 0 in one process without a World.
func trainAmong(t require.TestingT, n int, build func() train.Job, all []data.StepBatch) (result trained) {
	list := []*cluster.World{nil}
	if n > 0 {
		list = exectest.Worlds(t, n, cluster.Options{})
	}
	parts, errs := make([]trained, len(list)), make([]error, len(list))
	jobs := make([]train.Job, len(list))
	for k := range jobs {
		jobs[k] = build()
	}
	exectest.Each(len(list), func(k int) {
		parts[k], errs[k] = trainPart(list[k], jobs[k], all)
		if errs[k] != nil && list[k] != nil {
			list[k].Abort(errs[k])
		}
	})
	exectest.Each(n, func(k int) { list[k].Close() })
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

func trainPart(w *cluster.World, j train.Job, all []data.StepBatch) (result trained, err error) {
	ctx := context.Background()
	if w != nil {
		var cancel func()
		ctx, cancel = w.Context(ctx)
		defer cancel()
	}
	opened, err := backend.OpenRanks(ctx, j.Graph.Ranks(), exectest.Options(), w)
	if err != nil {
		return result, err
	}
	devices := opened.Devices
	defer backend.Close(devices)
	trainer, err := train.NewTrainer(j, devices)
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
		trace, loss, err := trainer.Step(ctx, b, run.Options{World: w})
		if err != nil {
			return result, err
		}
		result.traces, result.losses = append(result.traces, trace), append(result.losses, loss)
	}
	result.held, err = trainer.Held()
	return result, err
}

// sameAmong checks that training in one process and in several gives the same, to the bit.
func sameAmong(t *testing.T, m exectest.Spread, j func() train.Job, all []data.StepBatch, counts ...int) {
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
				exectest.CheckRules(t, trace)
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
	n := exectest.TiedGPT(t)
	all := exectest.Batches(t, n, samples, 2)
	for _, m := range []exectest.Spread{
		{Schedule: "gpipe", Ranks: 4, Replicas: 1}, {Schedule: "1f1b", Ranks: 4, Replicas: 1},
		{Schedule: "zbv", Ranks: 2, Replicas: 1},
		{Schedule: "ddp", Ranks: 1, Replicas: 4, Bucket: 3000, Overlap: true},
		{Schedule: "1f1b", Ranks: 2, Replicas: 2, Broadcast: true},
		{Schedule: "ddp", Ranks: 1, Replicas: 4, Sharded: true},
		{Schedule: "ddp", Ranks: 1, Replicas: 4, Sharded: true, Group: 2},
		{Schedule: "ddp", Ranks: 1, Replicas: 3, Sharded: true, Gloo: true},
		{Schedule: "ddp", Ranks: 1, Replicas: 2, Sharded: true, Simplified: true},
		{Schedule: "gpipe", Ranks: 2, Replicas: 1, Synchronous: true},
	} {
		counts := []int{2, 3, 4}
		sizes := slices.Repeat([]int{samples / m.Replicas / 3}, 3)
		if testing.Short() {
			counts = counts[:1]
		}
		sameAmong(t, m, func() train.Job { return m.Job(t, n, sizes) }, all,
			counts[:min(len(counts), m.Ranks*m.Replicas-1)]...)
	}
}

// So does every schedule of the catalog on two processes.
func TestEveryScheduleAmongProcesses(t *testing.T) {
	const samples = 24
	if testing.Short() {
		t.Skip("the schedules that differ most are in the test above")
	}
	for _, s := range schedules.Catalog() {
		n := exectest.TiedGPT(t)
		modes := modesOf(s, 2, len(n.Layers))
		if s.Stashing {
			n = exectest.MiniMLP(t) // without parameters on both ranks
			modes = []exectest.Spread{{Schedule: s.Name, Ranks: 2, Replicas: 1, Microbatches: 4}}
		}
		all := exectest.Batches(t, n, samples, 1)
		for _, m := range modes {
			sizes := slices.Repeat([]int{samples / m.Replicas / m.Microbatches}, m.Microbatches)
			sameAmong(t, m, func() train.Job { return m.Job(t, n, sizes) }, all, 2)
		}
	}
}

// Any way to spread a small network over any number of processes trains the same.
func TestAnyProcessesTrainAsOne(t *testing.T) {
	n := exectest.TiedGPT(t)
	rapid.Check(t, func(r *rapid.T) {
		ranks, replicas := rapid.IntRange(1, 3).Draw(r, "ranks"), rapid.IntRange(1, 3).Draw(r, "replicas")
		if ranks*replicas < 2 {
			ranks = 2
		}
		m := exectest.Spread{
			Schedule:  rapid.SampledFrom([]string{"gpipe", "1f1b", "zb-h1", "model-parallel"}).Draw(r, "schedule"),
			Ranks:     ranks,
			Replicas:  replicas,
			Bucket:    rapid.SampledFrom([]int64{0, 3000, 1 << 30}).Draw(r, "bucket"),
			Overlap:   rapid.Bool().Draw(r, "overlap"),
			Broadcast: replicas > 1 && rapid.Bool().Draw(r, "broadcast"),
		}
		if m.Recompute = kernels.SaveAll; rapid.Bool().Draw(r, "recompute") {
			m.Recompute = kernels.RepeatLayer
		}
		if ranks == 1 && rapid.Bool().Draw(r, "sharded") {
			m.Schedule, m.Sharded, m.Broadcast, m.Gloo = "ddp", true, false, rapid.Bool().Draw(r, "gloo")
		}
		sizes := slices.Repeat([]int{rapid.IntRange(1, 2).Draw(r, "samples")},
			max(ranks, rapid.IntRange(1, 4).Draw(r, "microbatches")))
		count := rapid.IntRange(2, min(4, ranks*replicas)).Draw(r, "processes")
		build := func() train.Job { return m.Job(t, n, sizes) }
		all := exectest.Batches(t, n, int(build().Total()), 1)
		want, got := trainAmong(r, 0, build, all), trainAmong(r, count, build, all)
		require.Equal(r, want.losses, got.losses)
		require.Equal(r, want.held, got.held)
		exectest.CheckRules(r, got.traces[0])
	})
}
