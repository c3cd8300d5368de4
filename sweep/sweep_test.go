package sweep_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim"
	"psim/advise"
	"psim/configs"
	"psim/reports"
	"psim/results/rankings"
	"psim/sweep"
)

// varied is a sweep of pipelines, in which some combinations cannot be.
func varied() []rankings.Variation {
	return []rankings.Variation{
		{Key: "schedule.name", Values: []string{"gpipe", "1f1b", "zb-h1"}},
		{Key: "schedule.stages", Values: []string{"2", "4", "20"}},
		{Key: "schedule.partition", Values: []string{"balanced", "equal"}},
		{Key: "batch.global", Values: []string{"8", "16", "32", "64", "96"}},
	}
}

// sweepInto runs the sweep of varied into a folder.
func sweepInto(t *testing.T, folder string, o sweep.Options, sets ...string) *sweep.Outcome {
	t.Helper()
	c, err := psim.Load("gpipe", sets...)
	require.NoError(t, err)
	o.Folder = folder
	if o.Vary == nil {
		o.Vary = varied()
	}
	s, err := sweep.Run(context.Background(), c, o)
	require.NoError(t, err)
	require.NoError(t, s.Unsaved)
	for _, p := range s.Points {
		require.True(t, (p.Error == "") == (p.Result.Kind != ""), "a point has a result or says why not")
	}
	return s
}

// sweepFiles reads the files of a folder.
func sweepFiles(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := map[string]string{}
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	for _, e := range entries {
		if !e.IsDir() {
			data, err := os.ReadFile(filepath.Join(folder, e.Name()))
			require.NoError(t, err)
			all[e.Name()] = string(data)
		}
	}
	return all
}

// requireSameSweep compares two folders, byte by byte.
func requireSameSweep(t *testing.T, want, got string) {
	t.Helper()
	a, b := sweepFiles(t, want), sweepFiles(t, got)
	require.Equal(t, slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(b)))
	for name := range a {
		require.True(t, a[name] == b[name], "%s differs", name)
	}
}

// The first key changes slowest, a point says the same as a prediction by itself, and
// what cannot be says why.
func TestSweepPoints(t *testing.T) {
	t.Parallel()
	s := sweepInto(t, "", sweep.Options{})
	require.Len(t, s.Points, 3*3*2*5)
	require.Equal(t, []string{"schedule.name=gpipe", "schedule.stages=2", "schedule.partition=balanced", "batch.global=16"}, s.Points[1].Set)
	for _, i := range []int{7, 41} {
		c, err := psim.Load("gpipe", s.Points[i].Set...)
		require.NoError(t, err)
		p, err := psim.Predict(context.Background(), c)
		require.NoError(t, err)
		advise.Fit(context.Background(), p)
		require.Equal(t, p.Result, s.Points[i].Result)
	}
	for i, p := range s.Points {
		require.Equal(t, i, p.Index)
		require.Equal(t, slices.Contains(p.Set, "schedule.stages=20"), p.Error != "")
		if p.Error != "" {
			require.Contains(t, p.Error, "has 15 layers")
		}
	}
}

// Files are the same whatever the number of cores, and a second call computes nothing.
func TestSweepAgain(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	one, many := filepath.Join(folder, "one"), filepath.Join(folder, "many")
	old := runtime.GOMAXPROCS(1)
	sweepInto(t, one, sweep.Options{})
	runtime.GOMAXPROCS(7)
	sweepInto(t, many, sweep.Options{})
	runtime.GOMAXPROCS(old)
	requireSameSweep(t, one, many)

	require.NoError(t, os.WriteFile(filepath.Join(many, "mine.txt"), []byte("mine"), 0o644))
	computed := 0
	again := sweep.Options{Progress: func(int, int) { computed++ }}
	s := sweepInto(t, many, again)
	require.Equal(t, 60, s.Reused)
	require.Equal(t, 30, computed, "only those that cannot be are tried again")
	require.Equal(t, "mine", sweepFiles(t, many)["mine.txt"])
	require.NoError(t, os.Remove(filepath.Join(many, "mine.txt")))
	requireSameSweep(t, one, many)

	// Another value adds its points, another configuration replaces all.
	more := sweep.Options{Vary: []rankings.Variation{{Key: "batch.global", Values: []string{"8", "16", "24"}}}}
	sweepInto(t, one, more)
	more.Vary[0].Values = []string{"24", "40", "8"}
	s = sweepInto(t, one, more)
	require.Equal(t, []int{2, 0}, []int{s.Reused, s.Stale})
	s = sweepInto(t, one, more, "train.precision=fp16")
	require.Equal(t, []int{0, 3}, []int{s.Reused, s.Stale})
	more.Version = "later"
	s = sweepInto(t, one, more, "train.precision=fp16")
	require.Equal(t, []int{0, 3}, []int{s.Reused, s.Stale})
}

// An interrupt keeps what is finished, beside the files of an earlier sweep.
func TestSweepInterrupted(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	out := filepath.Join(folder, "out")
	c, err := psim.Load("gpipe")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	o := sweep.Options{Vary: varied(), Folder: out, Progress: func(done, of int) {
		if done == 10 {
			cancel()
		}
	}}
	s, err := sweep.Run(ctx, c, o)
	require.ErrorIs(t, err, context.Canceled)
	require.NotZero(t, s.Kept)
	require.Less(t, s.Kept, 60)
	kept := s.Kept
	require.Contains(t, sweepFiles(t, out), "sweep.journal")
	require.NotContains(t, sweepFiles(t, out), "sweep.jsonl")
	require.Equal(t, kept, sweepInto(t, out, sweep.Options{}).Reused)
	sweepInto(t, filepath.Join(folder, "undisturbed"), sweep.Options{})
	requireSameSweep(t, filepath.Join(folder, "undisturbed"), out)

	o.Folder = filepath.Join(folder, "early")
	_, err = sweep.Run(ctx, c, o)
	require.ErrorIs(t, err, context.Canceled)
	require.NoDirExists(t, o.Folder)
}

// A damaged line of a journal loses its point, and one that may have been a head all
// points below it.
func TestSweepDamaged(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	out, undisturbed := filepath.Join(folder, "out"), filepath.Join(folder, "undisturbed")
	sweepInto(t, undisturbed, sweep.Options{})
	c, err := psim.Load("gpipe")
	require.NoError(t, err)
	const changed = "a number that is changed by hand"
	for _, damage := range []struct {
		line int
		text string
		lost func(kept int) (points, lines int)
	}{
		{3, `{"index":1,"set":["sche`, func(int) (int, int) { return 1, 1 }},
		{3, changed, func(int) (int, int) { return 1, 1 }},
		{3, "\x00\x00", func(kept int) (int, int) { return kept - 2, kept - 2 }},
		{0, `{"psim_sweep":`, func(kept int) (int, int) { return kept, kept + 1 }},
	} {
		ctx, cancel := context.WithCancel(context.Background())
		s, err := sweep.Run(ctx, c, sweep.Options{Vary: varied(), Folder: out, Progress: func(done, _ int) {
			if done == 10 {
				cancel()
			}
		}})
		require.ErrorIs(t, err, context.Canceled)
		path := filepath.Join(out, "sweep.journal")
		lines := strings.Split(sweepFiles(t, out)["sweep.journal"], "\n")
		before := lines[damage.line]
		lines[damage.line] = damage.text
		if damage.text == changed {
			lines[damage.line] = strings.Replace(before, `"step_time_s":0.`, `"step_time_s":0.9`, 1)
			require.NotEqual(t, before, lines[damage.line])
		}
		require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o644))
		again := sweepInto(t, out, sweep.Options{})
		points, count := damage.lost(s.Kept)
		require.Equal(t, []int{s.Kept - points, count}, []int{again.Reused, again.Damaged}, damage.text)
		requireSameSweep(t, undisturbed, out)
		require.NoError(t, os.RemoveAll(out))
	}
}

// TestSweeper is no test: TestSweepKilled starts it as a process to be killed.
func TestSweeper(t *testing.T) {
	folder := os.Getenv("PSIM_TEST_SWEEP")
	if folder == "" {
		t.Skip("for TestSweepKilled")
	}
	fmt.Println("ready")
	sweepInto(t, folder, sweep.Options{})
}

// A sweep that is killed ten times at random moments and then runs to its end leaves
// the same bytes as one that nobody disturbed, and computes no point twice that was
// finished before a kill.
func TestSweepKilled(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	out, undisturbed := filepath.Join(folder, "out"), filepath.Join(folder, "undisturbed")
	start := time.Now()
	sweepInto(t, undisturbed, sweep.Options{})
	took := time.Since(start)
	random := rand.New(rand.NewPCG(5, 6))
	within, finished := 0, 0
	for kills := range 10 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestSweeper$")
		cmd.Env = append(os.Environ(), "PSIM_TEST_SWEEP="+out)
		stdout, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		line, err := bufio.NewReader(stdout).ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "ready\n", line)
		time.Sleep(time.Duration(random.Int64N(int64(took)/4 + 1)))
		_ = cmd.Process.Kill() // a late one finds it at its end
		_ = cmd.Wait()
		journal, err := os.ReadFile(filepath.Join(out, "sweep.journal"))
		if err != nil {
			finished = 0 // it has not begun, or ended before the kill, and the next begins anew
			continue
		}
		within++
		lines := bytes.Count(journal, []byte("\n"))
		require.GreaterOrEqual(t, lines, finished, "kill %d", kills)
		finished = lines
	}
	t.Logf("%d of 10 kills were within the sweep", within)
	require.NotZero(t, within)
	s := sweepInto(t, out, sweep.Options{})
	require.GreaterOrEqual(t, s.Reused, finished-1, "the journal has a line more than points")
	requireSameSweep(t, undisturbed, out)
}

// Shards together are the whole, however many there are, and whatever a journal or
// somebody else has left among them.
func TestMergeSweeps(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	whole := filepath.Join(folder, "whole")
	sweepInto(t, whole, sweep.Options{})
	for _, n := range []int{1, 3, 4} {
		parts := filepath.Join(folder, fmt.Sprint("parts", n))
		for i := range n {
			shard := rankings.Shard{Number: i + 1, Of: n}
			sweepInto(t, filepath.Join(parts, shard.Folder()), sweep.Options{Shard: shard})
		}
		merged := filepath.Join(folder, fmt.Sprint("merged", n))
		s, err := sweep.Merge(parts)
		require.NoError(t, err)
		_, err = sweep.Save(context.Background(), s, reports.SweepFolder(merged))
		require.NoError(t, err)
		requireSameSweep(t, whole, merged)
	}
	_, err := sweep.Merge(filepath.Join(folder, "parts4", "shard-1-of-4"), filepath.Join(folder, "parts3"))
	require.NoError(t, err, "parts that overlap and agree")

	_, err = sweep.Merge(filepath.Join(folder, "parts4", "shard-1-of-4"), filepath.Join(folder, "parts4", "shard-3-of-4"))
	var missing *rankings.MissingPoints
	require.ErrorAs(t, err, &missing)
	require.Equal(t, 45, missing.Count)
	require.Len(t, missing.Sets, 5, "the first of them")
	require.ErrorContains(t, err, "45 of 90 points are missing\n  schedule.name=gpipe schedule.stages=2 schedule.partition=balanced batch.global=16\n")

	other := filepath.Join(folder, "other")
	sweepInto(t, other, sweep.Options{}, "train.precision=fp16")
	_, err = sweep.Merge(whole, other)
	require.EqualError(t, err, other+": has another configuration than "+whole+"; only parts of one sweep can be merged")
	_, err = sweep.Merge(folder)
	require.ErrorContains(t, err, "holds no finished sweep")
	_, err = sweep.Merge("")
	require.EqualError(t, err, `"": the name of a folder is empty`)
}

// Sweeps over other values of the same settings are one.
func TestMergeValues(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	vary := func(values ...string) sweep.Options {
		return sweep.Options{Vary: []rankings.Variation{{Key: "schedule.microbatches", Values: values}}}
	}
	for i, values := range [][]string{{"2", "4"}, {"4", "8"}} {
		sweepInto(t, filepath.Join(folder, fmt.Sprint(i)), vary(values...))
	}
	s, err := sweep.Merge(filepath.Join(folder, "0"), filepath.Join(folder, "1"))
	require.NoError(t, err)
	_, err = sweep.Save(context.Background(), s, reports.SweepFolder(filepath.Join(folder, "merged")))
	require.NoError(t, err)
	sweepInto(t, filepath.Join(folder, "all"), vary("2", "4", "8"))
	requireSameSweep(t, filepath.Join(folder, "all"), filepath.Join(folder, "merged"))

	// A part with all combinations of other values is refused before they are listed.
	far, huge := filepath.Join(folder, "far"), make([]string, 10_000)
	for i := range huge {
		huge[i] = fmt.Sprint(i)
	}
	info, err := json.Marshal(rankings.SweepInfo{Schema: 1, Name: s.Name, Configuration: s.Configuration, Version: s.Version,
		Vary: []rankings.Variation{{Key: "schedule.microbatches", Values: huge}, {Key: "schedule.stages", Values: huge}}})
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(far, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(far, "sweep.json"), info, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(far, "sweep.jsonl"), nil, 0o644))
	_, err = sweep.Merge(far)
	require.ErrorContains(t, err, "more than 1000000 combinations; merge fewer")

	text := sweepFiles(t, filepath.Join(folder, "1"))["sweep.jsonl"]
	require.NoError(t, os.Remove(filepath.Join(folder, "1", ".psim.json")))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "1", "sweep.jsonl"), []byte(strings.Replace(text, `"tasks":`, `"tasks":1`, 1)), 0o644))
	_, err = sweep.Merge(filepath.Join(folder, "0"), filepath.Join(folder, "1"))
	require.ErrorContains(t, err, "has another result for schedule.microbatches=4 than")
}

// A sweep is refused at the start for what can never be, and where another is at work.
func TestSweepRefused(t *testing.T) {
	t.Parallel()
	c, err := psim.Load("gpipe")
	require.NoError(t, err)
	many := slices.Repeat([]string{"1"}, 200)
	for problem, vary := range map[string][]rankings.Variation{
		"at least one setting":      nil,
		"has no values":             {{Key: "schedule.stages"}},
		"must be an integer":        {{Key: "schedule.stages", Values: []string{"2", "x"}}},
		"unknown key":               {{Key: "schedule.stage", Values: []string{"2"}}},
		"given twice":               {{Key: "schedule.stages", Values: []string{"2"}}, {Key: "schedule.stages", Values: []string{"4"}}},
		"200 × 200 = 40000 points ": {{Key: "schedule.stages", Values: many}, {Key: "batch.global", Values: many}},
	} {
		_, err := sweep.Run(context.Background(), c, sweep.Options{Vary: vary})
		require.ErrorContains(t, err, problem)
	}
	folder := t.TempDir()
	large := sweep.Options{Folder: filepath.Join(folder, "large"), Vary: []rankings.Variation{{Key: "parallel.data", Values: []string{"1048576"}}}}
	for n := range 100 {
		large.Vary[0].Values = append(large.Vary[0].Values, fmt.Sprint(n+1<<20))
	}
	_, err = sweep.Run(context.Background(), c, large)
	require.ErrorContains(t, err, "the results of 101 points have 4.24e+08 ranks together and need about 847 GB of memory, but only ")
	require.NoDirExists(t, large.Folder)
	o := sweep.Options{Vary: varied(), Folder: folder}
	o.Progress = func(done, of int) {
		if done == 1 {
			inner := o
			inner.Progress = nil
			_, err := sweep.Run(context.Background(), c, inner)
			require.EqualError(t, err, folder+": another psim is writing there; wait until it ends, or name another folder")
		}
	}
	_, err = sweep.Run(context.Background(), c, o)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "sweep.journal"), []byte("mine\n"), 0o644))
	_, err = sweep.Run(context.Background(), c, sweep.Options{Vary: varied(), Folder: folder})
	require.ErrorContains(t, err, "sweep.journal: is not one that psim has written")
}

func TestParseShard(t *testing.T) {
	env := func(pairs ...string) func(string) (string, bool) {
		return func(name string) (string, bool) {
			for i := 0; i < len(pairs); i += 2 {
				if pairs[i] == name {
					return pairs[i+1], true
				}
			}
			return "", false
		}
	}
	slurm := func(id, first, last, count, step string) func(string) (string, bool) {
		return env("SLURM_ARRAY_TASK_ID", id, "SLURM_ARRAY_TASK_MIN", first, "SLURM_ARRAY_TASK_MAX", last, "SLURM_ARRAY_TASK_COUNT", count, "SLURM_ARRAY_TASK_STEP", step)
	}
	for _, c := range []struct {
		text   string
		lookup func(string) (string, bool)
		want   string
	}{
		{"1/4", env(), "1/4"}, {"4/4", env(), "4/4"},
		{"auto", slurm("0", "0", "15", "16", "1"), "1/16"}, {"auto", slurm("16", "1", "16", "16", "1"), "16/16"},
		{"auto", slurm("8", "0", "12", "4", "4"), "3/4"}, {"auto/16", slurm("5", "0", "15", "16", "1"), "6/16"},
		{"auto/8", env("JOB_COMPLETION_INDEX", "7"), "8/8"},
	} {
		s, err := rankings.ParseShard(c.text, c.lookup)
		require.NoError(t, err, c.text)
		require.Equal(t, c.want, s.String())
	}
	for _, c := range []struct {
		text    string
		lookup  func(string) (string, bool)
		problem string
	}{
		{"0/4", env(), "no such shard"}, {"5/4", env(), "no such shard"}, {"4", env(), "must be I/N"}, {"a/4", env(), "must be I/N"},
		{"1/x", env(), "must be I/N"}, {"auto/0", env(), "must be I/N"}, {"auto", env(), "not a task of a job array"},
		{"auto", env("JOB_COMPLETION_INDEX", "7"), "does not say how many"}, {"auto/4", env("JOB_COMPLETION_INDEX", "7"), "no such shard"},
		{"auto", slurm("7", "1", "7", "3", "1"), "not 3 in a row"}, {"auto/16", slurm("5", "5", "5", "1", "1"), "not 16 in a row"},
	} {
		_, err := rankings.ParseShard(c.text, c.lookup)
		require.ErrorContains(t, err, c.problem, c.text)
	}
	_, err := configs.SplitValues("")
	require.Error(t, err)
}

// BenchmarkSweep runs 200 configurations.
func BenchmarkSweep(b *testing.B) {
	c, err := psim.Load("gpipe")
	require.NoError(b, err)
	var values []string
	for n := range 200 {
		values = append(values, fmt.Sprint(8*(n+1)))
	}
	for b.Loop() {
		s, err := sweep.Run(context.Background(), c, sweep.Options{Vary: []rankings.Variation{{Key: "batch.global", Values: values}}})
		require.NoError(b, err)
		require.Equal(b, 200, s.Kept)
	}
}
