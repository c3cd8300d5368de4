package plans

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/configs"
	"psim/reports"
	"psim/results/rankings"
)

// cpu is the processor time that this process has taken: on a machine with other work a
// search takes longer by the clock.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// gpt175b is GPT-3's size on 1,024 A100s, in powers of two, with microbatches of at most 16
// samples and at most 8 stages per rank.
func gpt175b(b *testing.B) *Space {
	c, err := configs.Load("megatron-175b", "batch.global=1536")
	require.NoError(b, err)
	q := Query{Devices: 1024, Margin: 0.1, Trainer: Any, Vary: []rankings.Variation{
		{Key: "batch.micro", Values: []string{"1", "2", "4", "8", "16"}}, {Key: "schedule.virtual_stages", Values: []string{"1", "2", "4", "8"}},
	}}
	if testing.Short() {
		for key, value := range map[string]string{"parallel.tensor": "8", "schedule.stages": "8", "parallel.zero": "1"} {
			q.Vary = append(q.Vary, rankings.Variation{Key: key, Values: []string{value}})
		}
	}
	space, err := NewSpace(c, q)
	require.NoError(b, err)
	return space
}

// BenchmarkSearch decides all plans, and reports how many there are, how many were
// simulated, and how many were decided in a second of one processor.
func BenchmarkSearch(b *testing.B) {
	var plans, simulated int
	begin := cpu(b)
	for b.Loop() {
		space := gpt175b(b)
		found, err := decideAll(context.Background(), space.Plans, searchOptions{Rows: 20})
		require.NoError(b, err)
		require.Zero(b, found.Gap)
		plans, simulated = len(found.Points), found.Simulated
	}
	b.ReportMetric(float64(plans), "plans")
	b.ReportMetric(float64(simulated), "simulated")
	b.ReportMetric(float64(plans*b.N)/(cpu(b)-begin).Seconds(), "decided/cpu-s")
}

// BenchmarkManyDevices searches plans for 65,536 devices and explains the best, which takes no longer
// for having many replicas.
func BenchmarkManyDevices(b *testing.B) {
	c, err := configs.Load("llama3-70b", "batch.global=65536")
	require.NoError(b, err)
	q := Query{Devices: 65536, Margin: 0.13}
	if testing.Short() {
		q.Schedules = []string{"1f1b"}
	}
	b.ReportAllocs()
	begin := cpu(b)
	for b.Loop() {
		found, err := Search(context.Background(), c, q, nil)
		require.NoError(b, err)
		require.NoError(b, found.Explain(context.Background(), c, q))
	}
	b.ReportMetric((cpu(b)-begin).Seconds()/float64(b.N), "cpu-s/op")
}

// BenchmarkShards decides all plans in four shards, one after another, which share the steps of their best plans, and
// reports the processor time of all of them.
func BenchmarkShards(b *testing.B) {
	b.ReportAllocs()
	begin := cpu(b)
	for b.Loop() {
		space := gpt175b(b)
		folder := b.TempDir()
		for n := range 4 {
			shard := rankings.Shard{Number: n + 1, Of: 4}
			board, err := newBoard(space.config, Query{Shard: shard, Shared: Shared{Folder: folder}})
			require.NoError(b, err)
			_, err = decideAll(context.Background(), sharded(space, shard), searchOptions{Rows: 20, Board: board})
			require.NoError(b, err)
		}
	}
	b.ReportMetric((cpu(b)-begin).Seconds()/float64(b.N), "cpu-s/op")
}

// savedSearch searches a part of the plans of gpt175b's network and writes its files.
func savedSearch(b *testing.B, folder string, q Query) {
	c, err := configs.Load("megatron-175b")
	require.NoError(b, err)
	q.Devices, q.Margin, q.Points = 1024, 0.13, true
	if testing.Short() {
		q.Schedules = []string{"1f1b"}
	}
	found, err := Search(context.Background(), c, q, nil)
	require.NoError(b, err)
	s, err := found.Saved(c, q, "bench")
	require.NoError(b, err)
	_, err = Save(context.Background(), s, reports.PlansFolder(folder, 20), nil)
	require.NoError(b, err)
}

// BenchmarkSaved searches and writes the files, which cost little beside a search.
func BenchmarkSaved(b *testing.B) {
	b.ReportAllocs()
	begin := cpu(b)
	for b.Loop() {
		savedSearch(b, b.TempDir(), Query{})
	}
	b.ReportMetric((cpu(b)-begin).Seconds()/float64(b.N), "cpu-s/op")
}

// BenchmarkMerge merges four shards and writes the files, and reports the processor time of the shards, too.
func BenchmarkMerge(b *testing.B) {
	var parts []string
	begin, shared := cpu(b), Shared{Folder: b.TempDir()}
	for n := range 4 {
		parts = append(parts, b.TempDir())
		savedSearch(b, parts[n], Query{Shard: rankings.Shard{Number: n + 1, Of: 4}, Shared: shared, Unpredicted: true})
	}
	shards := cpu(b) - begin
	b.ReportAllocs()
	begin = cpu(b)
	for b.Loop() {
		s, err := Merge(context.Background(), parts...)
		require.NoError(b, err)
		_, err = Save(context.Background(), s, reports.PlansFolder(b.TempDir(), 20), nil)
		require.NoError(b, err)
	}
	b.ReportMetric((cpu(b)-begin).Seconds()/float64(b.N), "cpu-s/op")
	b.ReportMetric(shards.Seconds(), "cpu-s/shards")
}

// BenchmarkSimulate simulates the plans that a search of these simulates on one processor, in
// turn, one replica for all, and reports the tasks of a second: of that replica,
// and of all for which it stands. Bounds, which price what plans of a unit have in common,
// are found between times.
func BenchmarkSimulate(b *testing.B) {
	space := gpt175b(b)
	found, err := decideAll(context.Background(), space.Plans, searchOptions{Rows: 20, All: true})
	require.NoError(b, err)
	var e engine
	var took time.Duration
	var tasks, all int
	for b.Loop() {
		units := map[*stageGroup]*stageGroup{}
		for i := range found.Points {
			p := &found.Points[i]
			if p.Step == 0 {
				continue
			}
			if units[p.stages] == nil {
				units[p.stages] = newStageGroup(p.Plan)
			}
			begin := cpu(b)
			out, _, err := e.simulate(p.Plan, units[p.stages], 0)
			took += cpu(b) - begin
			require.NoError(b, err)
			require.Equal(b, p.outcome, out)
			tasks += out.Tasks
			all += out.Tasks * p.Data
		}
	}
	b.ReportMetric(float64(tasks)/took.Seconds()/1e6, "Mtasks/cpu-s")
	b.ReportMetric(float64(all)/took.Seconds()/1e6, "Mtasks-of-all-replicas/cpu-s")
}
