package run_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"psim/exec/exectest"
	"psim/exec/run"
	"psim/schedules"
	"psim/schedules/collective"
	"psim/schedules/graph"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func nothing(context.Context, int32) error { return nil }

// Every schedule runs to its end by its rules, whatever the order in which the goroutines
// start.
func TestRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SampledFrom(schedules.Catalog()).Draw(t, "schedule")
		var shapes []graph.Shape
		for p := 1; p <= 4; p++ {
			for m := 1; m <= 8; m++ {
				for v := 1; v <= 4; v++ {
					if shape := s.Sized(graph.Shape{Ranks: p, Microbatches: m, Virtual: v}); s.Check(shape) == nil {
						shapes = append(shapes, shape)
					}
				}
			}
		}
		shape := rapid.SampledFrom(shapes).Draw(t, "shape")
		if shape.Replicas = rapid.IntRange(1, 3).Draw(t, "replicas"); s.Check(shape) != nil {
			shape.Replicas = 1
		}
		g := exectest.Wired(t, s.Name, shape)
		exectest.ShuffleStreams(g, rapid.Uint64().Draw(t, "seed"))
		var ran atomic.Int64
		trace, err := run.Graph(context.Background(), g, func(context.Context, int32) error {
			ran.Add(1)
			return nil
		}, run.Options{})
		require.NoError(t, err)
		require.EqualValues(t, g.Len(), ran.Load())
		exectest.CheckRules(t, trace)
	})
}

// All tasks are made and queued before the first one runs, each with what it captured. A
// pipeline on numbers, whose stage s multiplies by s + 2 and adds the microbatch, gives the
// same results however many tasks wait.
func TestQueuedBeforeAnyRuns(t *testing.T) {
	const ranks, microbatches = 4, 32
	g := exectest.Wired(t, "gpipe", graph.Shape{Ranks: ranks, Microbatches: microbatches})
	var values [microbatches]int
	work := make([]func(), g.Len())
	for i := range int32(g.Len()) {
		task := g.Task(i)
		work[i] = func() {
			if task.Kind == graph.Forward {
				values[task.Microbatch] = values[task.Microbatch]*int(task.Stage+2) + int(task.Microbatch)
			}
		}
	}
	start := make(chan struct{})
	time.AfterFunc(20*time.Millisecond, func() { close(start) }) // every stream has its first task by then
	_, err := run.Graph(context.Background(), g, func(_ context.Context, i int32) error {
		<-start
		work[i]()
		return nil
	}, run.Options{})
	require.NoError(t, err)
	for m, got := range values {
		require.Equal(t, ((m*3+m)*4+m)*5+m, got, "microbatch %d", m)
	}
}

// A ring that is run on numbers leaves the sum on every rank.
func TestRingOnNumbers(t *testing.T) {
	for seed := range uint64(20) {
		const n = 5
		g, err := collective.Call{Collective: collective.RingAllReduce, Ranks: n, Length: n, Convention: "gloo"}.Graph()
		require.NoError(t, err)
		exectest.ShuffleStreams(g, seed)
		var values [n][n]int // by rank and chunk
		for r := range values {
			for c := range values[r] {
				values[r][c] = 100*r + c
			}
		}
		sent := make([]int, g.Len())
		_, err = run.Graph(context.Background(), g, func(_ context.Context, i int32) error {
			task := g.Task(i)
			switch task.Kind {
			case graph.Send:
				sent[i] = values[task.Rank][task.Part]
			case graph.Reduce:
				values[task.Rank][task.Part] += sent[g.Deps(i)[0]]
			case graph.Copy:
				values[task.Rank][task.Part] = sent[g.Deps(i)[0]]
			}
			return nil
		}, run.Options{})
		require.NoError(t, err)
		for r := range values {
			for c := range values[r] {
				require.Equal(t, 100*(0+1+2+3+4)+5*c, values[r][c])
			}
		}
	}
}

// The first failure stops all streams and is reported with its task.
func TestFailure(t *testing.T) {
	g := exectest.Wired(t, "1f1b", graph.Shape{Ranks: 3, Microbatches: 4})
	broken := errors.New("broken")
	for i := range int32(g.Len()) {
		trace, err := run.Graph(context.Background(), g, func(_ context.Context, at int32) error {
			if at == int32(i) {
				return broken
			}
			return nil
		}, run.Options{})
		var failed *run.TaskError
		require.ErrorAs(t, err, &failed)
		require.EqualValues(t, i, failed.Task)
		require.ErrorIs(t, err, broken)
		require.EqualError(t, err, g.Describe(int32(i))+": broken")
		require.Equal(t, graph.Span{}, trace.Spans[i])
	}
}

func TestPanicIsAnError(t *testing.T) {
	g := exectest.Wired(t, "gpipe", graph.Shape{Ranks: 2, Microbatches: 2})
	_, err := run.Graph(context.Background(), g, func(context.Context, int32) error { panic("shapes do not match") },
		run.Options{})
	require.ErrorContains(t, err, "0F0 (forward, stage 0, microbatch 0; rank 0, stream \"compute\"): panic: shapes do not match")
}

// A run that is cancelled returns what it has measured.
func TestCancelled(t *testing.T) {
	g := exectest.Wired(t, "model-parallel", graph.Shape{Ranks: 2, Microbatches: 3})
	ctx, cancel := context.WithCancel(context.Background())
	ended := 0
	var once sync.Mutex
	trace, err := run.Graph(ctx, g, func(ctx context.Context, _ int32) error {
		once.Lock()
		defer once.Unlock()
		if ended++; ended == 4 {
			cancel()
			return ctx.Err()
		}
		return nil
	}, run.Options{})
	require.ErrorIs(t, err, context.Canceled)
	measured := 0
	for _, s := range trace.Spans {
		if s.End > 0 {
			measured++
		}
	}
	require.Equal(t, 3, measured)
}

// A deadlock is detected, and the error shows the head of every stream.
func TestDeadlock(t *testing.T) {
	g := &graph.Graph{Shape: graph.Shape{Ranks: 2, Virtual: 1, Microbatches: 2, Replicas: 1},
		Placement: graph.Placement{First: []int32{0, 1}}}
	a, b := g.AddStream(0, "compute"), g.AddStream(1, "compute")
	task := func(k graph.Kind, rank, stream, microbatch int32) graph.Task {
		return graph.Task{Kind: k, Rank: rank, Stream: stream, Stage: rank, Microbatch: microbatch, Peer: graph.None}
	}
	g.Add(task(graph.Forward, 0, a, 0), 3) // waits for 1F1, which waits for 0F1
	g.Add(task(graph.Forward, 0, a, 1))
	g.Add(task(graph.Forward, 1, b, 0))
	g.Add(task(graph.Forward, 1, b, 1), 1)
	require.NoError(t, g.Validate())
	_, err := run.Graph(context.Background(), g, nothing, run.Options{Stall: 20 * time.Millisecond})
	var stuck *run.StuckError
	require.ErrorAs(t, err, &stuck)
	require.EqualError(t, err, `stuck: nothing has begun or ended for 20ms
  0F0 (forward, stage 0, microbatch 0; rank 0, stream "compute") waits for 1F1 (forward, stage 1, microbatch 1; rank 1, stream "compute")
  1F1 (forward, stage 1, microbatch 1; rank 1, stream "compute") waits for 0F1 (forward, stage 0, microbatch 1; rank 0, stream "compute")`)
}

// So is a task that never returns, if it watches its context.
func TestTaskThatHangs(t *testing.T) {
	g := exectest.Wired(t, "ddp", graph.Shape{Ranks: 1, Microbatches: 1, Replicas: 2})
	_, err := run.Graph(context.Background(), g, func(ctx context.Context, i int32) error {
		if g.Class(i).Kind == graph.Backward && g.Class(i).Rank == 1 {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}, run.Options{Stall: 20 * time.Millisecond})
	require.ErrorContains(t, err, `0B0 (backward, stage 0, microbatch 0; rank 1, stream "compute") has begun and does not end`)
	require.ErrorContains(t, err, `0ALL_REDUCE (all-reduce, stage 0; rank 0, stream "gradients") is at its collective or waits for the other ranks of group [0 1]`)
}

// A slow run does not count as stuck.
func TestSlowIsNotStuck(t *testing.T) {
	g := exectest.Wired(t, "gpipe", graph.Shape{Ranks: 1, Microbatches: 5})
	_, err := run.Graph(context.Background(), g, func(context.Context, int32) error {
		time.Sleep(100 * time.Millisecond)
		return nil
	}, run.Options{Stall: 400 * time.Millisecond})
	require.NoError(t, err)
}

func BenchmarkRun(b *testing.B) {
	g := exectest.Wired(b, "1f1b", graph.Shape{Ranks: 4, Microbatches: 64})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := run.Graph(context.Background(), g, nothing, run.Options{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(b.N)/float64(g.Len()), "ns/task")
}
