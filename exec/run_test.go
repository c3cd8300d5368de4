package exec_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"psim/exec"
	"psim/schedules"
	"psim/schedules/collective"
	"psim/schedules/graph"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pipeline builds the graph of a schedule.
func pipeline(t require.TestingT, name string, p, m, replicas int) *graph.Graph {
	return wired(t, name, graph.Shape{Ranks: p, Microbatches: m, Replicas: replicas})
}

// wired builds the graph of a schedule of any shape.
func wired(t require.TestingT, name string, shape graph.Shape) *graph.Graph {
	s, err := schedules.Find(name)
	require.NoError(t, err)
	whole, err := s.Pipeline(shape, nil)
	require.NoError(t, err)
	for range whole.Placement.First {
		whole.Sync.Buckets = append(whole.Sync.Buckets, []int64{8, 4})
	}
	whole.Optimizer = true
	g, err := whole.Graph()
	require.NoError(t, err)
	return g
}

// shuffleStreams puts a graph's streams, and so the goroutines that run them, in an
// order drawn from a seed.
func shuffleStreams(g *graph.Graph, seed uint64) {
	shuffled := *g
	shuffled.Streams, shuffled.Classes, shuffled.Columns = slices.Clone(g.Streams), nil, graph.Columns{}
	places := rand.New(rand.NewPCG(seed, seed)).Perm(len(g.Streams))
	for s, place := range places {
		shuffled.Streams[place] = g.Streams[s]
	}
	for i, task := range g.Tasks() {
		task.Stream = int32(places[task.Stream])
		shuffled.Add(task, g.Deps(i)...)
	}
	*g = shuffled
}

func nothing(context.Context, int32) error { return nil }

// checkRules holds a trace to the rules of a schedule: a task begins after
// what it depends on and after the task before it on its stream has ended,
// and a collective when all ranks of its group are ready.
func checkRules(t require.TestingT, trace *graph.Trace) {
	g := trace.Graph
	start, order := g.ByStream()
	for s := range g.Streams {
		for n := start[s]; n < start[s+1]; n++ {
			i := order[n]
			require.LessOrEqual(t, trace.Span(i).Start, trace.Span(i).End)
			if n > start[s] {
				require.LessOrEqual(t, trace.Span(order[n-1]).End, trace.Span(i).Start)
			}
			for _, d := range g.Deps(i) {
				require.LessOrEqual(t, trace.Span(d).End, trace.Span(i).Start, "%s before %s", g.Describe(i), g.Describe(d))
			}
		}
	}
}

// Every schedule runs to its end by its rules, whatever the order in which
// the goroutines start.
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
		g := wired(t, s.Name, shape)
		shuffleStreams(g, rapid.Uint64().Draw(t, "seed"))
		var ran atomic.Int64
		trace, err := exec.Run(context.Background(), g, func(context.Context, int32) error {
			ran.Add(1)
			return nil
		}, exec.RunOptions{})
		require.NoError(t, err)
		require.EqualValues(t, g.Len(), ran.Load())
		checkRules(t, trace)
	})
}

// All tasks are made and queued before the first runs, each with what it captured: a
// pipeline on numbers, whose stage s multiplies by s + 2 and adds the microbatch, has the
// same results however many tasks wait.
func TestQueuedBeforeAnyRuns(t *testing.T) {
	const ranks, microbatches = 4, 32
	g := pipeline(t, "gpipe", ranks, microbatches, 1)
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
	time.AfterFunc(20*time.Millisecond, func() { close(start) }) // meanwhile every stream takes its first task
	_, err := exec.Run(context.Background(), g, func(_ context.Context, i int32) error {
		<-start
		work[i]()
		return nil
	}, exec.RunOptions{})
	require.NoError(t, err)
	for m, got := range values {
		require.Equal(t, ((m*3+m)*4+m)*5+m, got, "microbatch %d", m)
	}
}

// A spelled-out ring that is run on numbers leaves the sum on every rank.
func TestRingOnNumbers(t *testing.T) {
	for seed := range uint64(20) {
		const n = 5
		g, err := collective.Call{Collective: collective.RingAllReduce, Ranks: n, Length: n, Convention: "gloo"}.Graph()
		require.NoError(t, err)
		shuffleStreams(g, seed)
		var values [n][n]int // by rank and chunk
		for r := range values {
			for c := range values[r] {
				values[r][c] = 100*r + c
			}
		}
		sent := make([]int, g.Len())
		_, err = exec.Run(context.Background(), g, func(_ context.Context, i int32) error {
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
		}, exec.RunOptions{})
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
	g := pipeline(t, "1f1b", 3, 4, 1)
	broken := errors.New("broken")
	for i := range int32(g.Len()) {
		trace, err := exec.Run(context.Background(), g, func(_ context.Context, at int32) error {
			if at == int32(i) {
				return broken
			}
			return nil
		}, exec.RunOptions{})
		var failed *exec.TaskError
		require.ErrorAs(t, err, &failed)
		require.EqualValues(t, i, failed.Task)
		require.ErrorIs(t, err, broken)
		require.EqualError(t, err, g.Describe(int32(i))+": broken")
		require.Equal(t, graph.Span{}, trace.Span(i))
	}
}

func TestPanicIsAnError(t *testing.T) {
	g := pipeline(t, "gpipe", 2, 2, 1)
	_, err := exec.Run(context.Background(), g, func(context.Context, int32) error { panic("shapes do not match") }, exec.RunOptions{})
	require.ErrorContains(t, err, "0F0 (forward, stage 0, microbatch 0; rank 0, stream \"compute\"): panic: shapes do not match")
}

// A run that is cancelled returns what it has measured.
func TestCancelled(t *testing.T) {
	g := pipeline(t, "model-parallel", 2, 3, 1)
	ctx, cancel := context.WithCancel(context.Background())
	ended := 0
	var once sync.Mutex
	trace, err := exec.Run(ctx, g, func(ctx context.Context, _ int32) error {
		once.Lock()
		defer once.Unlock()
		if ended++; ended == 4 {
			cancel()
			return ctx.Err()
		}
		return nil
	}, exec.RunOptions{})
	require.ErrorIs(t, err, context.Canceled)
	measured := 0
	for _, s := range trace.Spans {
		if s.End > 0 {
			measured++
		}
	}
	require.Equal(t, 3, measured)
}

// A deadlock is found and shows the head of every stream.
func TestDeadlock(t *testing.T) {
	g := &graph.Graph{Shape: graph.Shape{Ranks: 2, Virtual: 1, Microbatches: 2, Replicas: 1}, Placement: graph.Placement{First: []int32{0, 1}}}
	a, b := g.AddStream(0, "compute"), g.AddStream(1, "compute")
	task := func(k graph.Kind, rank, stream, microbatch int32) graph.Task {
		return graph.Task{Kind: k, Rank: rank, Stream: stream, Stage: rank, Microbatch: microbatch, Peer: graph.None}
	}
	g.Add(task(graph.Forward, 0, a, 0), 3) // waits for 1F1, which waits for 0F1
	g.Add(task(graph.Forward, 0, a, 1))
	g.Add(task(graph.Forward, 1, b, 0))
	g.Add(task(graph.Forward, 1, b, 1), 1)
	require.NoError(t, g.Validate())
	_, err := exec.Run(context.Background(), g, nothing, exec.RunOptions{Stall: 20 * time.Millisecond})
	var stuck *exec.StuckError
	require.ErrorAs(t, err, &stuck)
	require.EqualError(t, err, `stuck: nothing has begun or ended for 20ms
  0F0 (forward, stage 0, microbatch 0; rank 0, stream "compute") waits for 1F1 (forward, stage 1, microbatch 1; rank 1, stream "compute")
  1F1 (forward, stage 1, microbatch 1; rank 1, stream "compute") waits for 0F1 (forward, stage 0, microbatch 1; rank 0, stream "compute")`)
}

// So is a task that never comes back, if it heeds the end of its context.
func TestTaskThatHangs(t *testing.T) {
	g := pipeline(t, "ddp", 1, 1, 2)
	_, err := exec.Run(context.Background(), g, func(ctx context.Context, i int32) error {
		if g.Task(i).Kind == graph.Backward && g.Task(i).Rank == 1 {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}, exec.RunOptions{Stall: 20 * time.Millisecond})
	require.ErrorContains(t, err, `0B0 (backward, stage 0, microbatch 0; rank 1, stream "compute") has begun and does not end`)
	require.ErrorContains(t, err, `0ALL_REDUCE (all-reduce, stage 0; rank 0, stream "gradients") is at its collective or waits for the other ranks of group [0 1]`)
}

// A slow run is not a stuck one.
func TestSlowIsNotStuck(t *testing.T) {
	g := pipeline(t, "gpipe", 1, 5, 1)
	_, err := exec.Run(context.Background(), g, func(context.Context, int32) error {
		time.Sleep(100 * time.Millisecond)
		return nil
	}, exec.RunOptions{Stall: 400 * time.Millisecond})
	require.NoError(t, err)
}

func BenchmarkRun(b *testing.B) {
	g := pipeline(b, "1f1b", 4, 64, 1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := exec.Run(context.Background(), g, nothing, exec.RunOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(b.N)/float64(g.Len()), "ns/task")
}
