package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/exec/session"
	"psim/internal/fault"
	"psim/internal/files"
	"psim/schedules/collective"
	"psim/schedules/graph"
)

// A misfortune is a fault at one task of a graph.
type misfortune struct {
	Kind  string
	Graph string // name of the graph
	Task  int32
	Rank  int32 // of the task
	Skip  int64 // how often the task runs without the fault; of a slow rank, how many of its tasks
	Again bool  // whether the fault occurs every time from then on
	Alone bool  // whether the run has one process, in which no goroutine may be left
}

// hook makes the misfortune happen.
func (m misfortune) hook(interrupt func()) fault.Hook {
	var count atomic.Int64
	return func(ctx context.Context, name string, rank, task int32) (fault.Damage, error) {
		if name != m.Graph || rank != m.Rank || task != m.Task && m.Kind != "slow" {
			return fault.None, nil
		}
		if n := count.Add(1) - 1; n < m.Skip || n > m.Skip && !m.Again {
			return fault.None, nil
		}
		switch m.Kind {
		case "panic":
			panic("out of luck")
		case "error":
			return fault.None, errors.New("out of luck")
		case "stall":
			<-ctx.Done()
			return fault.None, ctx.Err()
		case "interrupt":
			interrupt()
			<-ctx.Done()
			return fault.None, ctx.Err()
		case "slow":
			time.Sleep(10 * time.Millisecond)
		case "lost":
			return fault.Lost, nil
		case "truncated":
			return fault.Truncated, nil
		case "nan":
			return fault.NaN, nil
		default:
			endProcess(m.Kind)
		}
		return fault.None, nil
	}
}

// A faulty run is a command in which one task goes wrong.
type faulty struct {
	misfortune
	command string
	graph   *graph.Graph // that has the task
}

func (f faulty) String() string {
	return fmt.Sprintf("%s: %s of %s in %s after %d, again %v", f.command, f.Kind, f.graph.Describe(f.Task), f.Graph, f.Skip, f.Again)
}

// faultyShapes are the executions to go wrong: their numbers of devices, and settings.
var faultyShapes = []struct {
	gpus int
	sets string
}{
	{2, "schedule.name=gpipe"}, {3, "schedule.name=1f1b"}, {2, "schedule.name=zbv schedule.microbatches=4 model.layers=6"},
	{3, "schedule.name=torchgpipe"}, {2, "schedule.name=pipedream"}, {2, "schedule.name=hanayo schedule.microbatches=2"},
	{4, "schedule.name=1f1b parallel.data=2 schedule.microbatches=2"},
	{3, "schedule.name=ddp schedule.stages=1 schedule.microbatches=2"},
	{2, "schedule.name=fsdp schedule.stages=1 schedule.microbatches=2"},
	{2, "schedule.name=interleaved-1f1b schedule.virtual_stages=2 schedule.synchronous=true"},
}

const (
	faultySteps   = 2
	faultyProfile = 3 // runs of the graph, task by task, before the steps; 2 on a single core
)

// drawFaulty draws a command, a task of its graph, and the fault of the task.
func drawFaulty(t *testing.T, u user, seed uint64, kinds ...string) faulty {
	random := rand.New(rand.NewPCG(seed, 18))
	if random.IntN(6) == 0 {
		return drawFaultyCollective(t, random, kinds...)
	}
	shape := faultyShapes[random.IntN(len(faultyShapes))]
	sets := strings.Fields(shape.sets)
	f := faulty{
		command: fmt.Sprintf("psim exec mlp.toml --gpus %d --oversubscribe --repeats 1 --warmup 1 --steps %d --stall 1s --quiet --set %s",
			shape.gpus, faultySteps, strings.Join(sets, " --set ")),
	}
	f.Skip, f.Again = int64(random.IntN(2+1+faultySteps)), random.IntN(2) == 0
	c, _, err := session.Load(u.path("mlp.toml"), shape.gpus, sets...)
	require.NoError(t, err)
	experiment, err := c.Build()
	require.NoError(t, err)
	f.graph = experiment.Graph
	f.draw(random, kinds...)
	return f
}

func drawFaultyCollective(t *testing.T, random *rand.Rand, kinds ...string) faulty {
	names := collective.Names()
	name := names[random.IntN(len(names))]
	f := faulty{command: fmt.Sprintf("psim exec %s --gpus 4 --oversubscribe --sizes 64B --warmup 0 --repeats 1 --stall 1s --quiet", name)}
	var err error
	f.graph, err = collective.Call{Collective: name, Ranks: 4, Length: 16}.Graph()
	require.NoError(t, err)
	f.draw(random, slices.DeleteFunc(slices.Clone(kinds), func(kind string) bool { return kind == "slow" })...)
	f.Again = f.Again || f.Kind == "nan" || f.Kind == "truncated" // because some runs have no numbers
	return f
}

// draw draws a fault, and a task of any rank that can have it.
func (f *faulty) draw(random *rand.Rand, kinds ...string) {
	f.Kind, f.Graph = kinds[random.IntN(len(kinds))], f.graph.Name
	tasks := make([][]int32, f.graph.Ranks())
	for i, t := range f.graph.Tasks() {
		switch {
		case (f.Kind == "lost" || f.Kind == "truncated") && !t.Kind.Message(): // a message within a collective
		case f.Kind == "nan" && t.Stage == 0 && (t.Kind == graph.InputGradient || t.Kind == graph.AllGather): // no task uses its output
		default:
			tasks[t.Rank] = append(tasks[t.Rank], int32(i))
		}
	}
	tasks = slices.DeleteFunc(tasks, func(list []int32) bool { return len(list) == 0 })
	if len(tasks) == 0 {
		f.draw(random, "error")
		return
	}
	list := tasks[random.IntN(len(tasks))]
	f.Task = list[random.IntN(len(list))]
	f.Rank = f.graph.Task(f.Task).Rank
	if f.Kind == "slow" {
		f.Skip, f.Again = int64(faultyProfile*len(tasks[f.Rank])), true
	}
}

// check compares the output with the fault.
func (f faulty) check(t *testing.T, stdout, stderr string, code int) {
	if f.Kind == "slow" {
		require.Zero(t, code, "%v\n%s", f, stderr)
		if f.graph.Ranks() <= runtime.GOMAXPROCS(0) { // with more ranks than cores times mean nothing
			require.Regexp(t, fmt.Sprintf(`warning: (rank %d computed .* its device was slow|the machine was disturbed: )`, f.graph.Task(f.Task).Rank), stdout, f)
		}
		return
	}
	require.Equal(t, exitFailed, code, "%v\n%s", f, stderr)
	require.Equal(t, 1, strings.Count(stderr, "psim: "), "%v: one message\n%s", f, stderr)
	task := f.graph.Describe(f.Task)
	switch f.Kind {
	case "panic":
		require.Contains(t, stderr, task+": panic: out of luck\n", f)
	case "error":
		require.Contains(t, stderr, task+": out of luck\n", f)
	case "stall":
		require.Contains(t, stderr, "stuck: nothing has begun or ended for 1s", f)
		require.Contains(t, stderr, "\n  "+task+" ", f)
	case "interrupt":
		require.Equal(t, "psim: interrupted\n", stderr, f)
	case "lost":
		require.Contains(t, stderr, "stuck: nothing ", f)
		require.Contains(t, stderr, " waits for "+task, f)
	case "truncated":
		require.Contains(t, stderr, task, f)
		require.Regexp(t, `a message of \d+ bytes came with \d+`, stderr, f)
	case "nan":
		if _, ok := strings.CutPrefix(f.command, "psim exec mlp.toml"); !ok {
			require.Contains(t, stderr, "wrong", f)
		} else if f.Again {
			require.Contains(t, stderr, task+": it leaves numbers that are NaN", f)
		} else {
			require.Regexp(t, `^psim: step \d of \d: .*rank \d.*; run again task by task, everything is finite: something is wrong with this machine`, stderr, f)
		}
	}
}

// Whatever goes wrong at any task of any rank, psim exec ends soon and reports the fault and its task.
// No goroutine and no temporary file is left, an earlier result is unchanged, and the measurements
// until then are saved completely or not at all. There is a case of every kind of fault; PSIM_FAULTS
// asks for another number of cases.
func TestFaults(t *testing.T) {
	t.Parallel()
	kinds := []string{"panic", "error", "stall", "interrupt", "nan", "lost", "truncated", "slow"}
	template := faultyUser(t)
	before := template.tree(t, ".")
	for seed, f := range drawFaulties(t, template, 540, kinds) {
		t.Run(fmt.Sprint(seed, " ", f.Kind), func(t *testing.T) {
			t.Parallel()
			f.Alone = true
			u, temporary := template.copied(t), t.TempDir()
			began := time.Now()
			stdout, stderr, code := f.start(t, u, temporary, append([]string{program}, strings.Fields(f.line())[1:]...)...)
			require.Less(t, time.Since(began), f.limit(), f)
			require.NotEqual(t, exitLeaked, code, "%v\n%s", f, stderr)
			f.check(t, stdout, stderr, code)
			u.requireAside(t, f.Kind != "slow")
			requireSame(t, before, u.tree(t, "."), f)
			requireEmpty(t, temporary, f)
		})
	}
}

// drawFaulties draws cases by their seeds, which are below the given number: one of every kind, or as
// many as PSIM_FAULTS says, spread evenly.
func drawFaulties(t *testing.T, u user, cases uint64, kinds []string) map[uint64]faulty {
	drawn := map[uint64]faulty{}
	if asked, err := strconv.ParseUint(os.Getenv("PSIM_FAULTS"), 10, 64); err == nil && asked > 0 {
		for seed := uint64(0); seed < cases; seed += max(1, cases/asked) {
			drawn[seed] = drawFaulty(t, u, seed, kinds...)
		}
		return drawn
	}
	seen := map[string]bool{}
	for seed := uint64(0); seed < cases && len(seen) < len(kinds); seed++ {
		if f := drawFaulty(t, u, seed, kinds...); !seen[f.Kind] {
			seen[f.Kind], drawn[seed] = true, f
		}
	}
	require.Len(t, drawn, len(kinds))
	return drawn
}

// faultyUser returns a user with mlp.toml and a result in o, and nothing else.
func faultyUser(t *testing.T) user {
	u := mlpUser(t)
	_, stderr, code := u.psim(t, "psim exec mlp.toml --gpus 2"+untimed+" --steps 1 --repeats 1 --quiet --out o")
	require.Zero(t, code, stderr)
	return u
}

// copied returns a user with a copy of the folder.
func (u user) copied(t *testing.T) user {
	other := user{folder: t.TempDir()}
	require.NoError(t, os.CopyFS(other.folder, os.DirFS(u.folder)))
	return other
}

// requireEmpty checks that nothing is in a folder.
func requireEmpty(t *testing.T, folder string, f faulty) {
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, left, f)
}

// requireSame compares folders without printing the content of their files.
func requireSame(t *testing.T, before, after map[string]string, f faulty) {
	for name := range after {
		require.True(t, before[name] == after[name], "%s is changed or new: %v", name, f)
	}
	require.Len(t, after, len(before), f)
}

// line returns the command with the folder that it writes to.
func (f faulty) line() string {
	switch {
	case !strings.Contains(f.command, "mlp.toml"):
		return f.command
	case f.Kind == "slow":
		return f.command + " --out o.partial" // a slow run succeeds, and would replace the result in o
	}
	return f.command + " --out o"
}

// requireAside checks that the result in o.partial, next to the earlier one, is complete, and removes
// it.
func (u user) requireAside(t *testing.T, partial bool) {
	if _, err := os.Stat(u.path("o.partial")); err != nil {
		return
	}
	saved := u.tree(t, "o.partial")
	require.Equal(t, partial, strings.Contains(saved["o.partial/result.json"], `"partial": true`))
	for name, text := range saved {
		if base, inside := strings.CutPrefix(name, "o.partial/"); inside && text != aFolder && base != files.Manifest {
			require.NoError(t, files.Verify(u.path("o.partial"), base))
		}
	}
	require.NoError(t, os.RemoveAll(u.path("o.partial")))
}
