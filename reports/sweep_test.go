package reports_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/internal/golden"
	"psim/reports"
	"psim/results"
	"psim/results/rankings"
)

// sampleSweep varies the schedule and the number of replicas; one combination cannot
// be, and one does not fit.
func sampleSweep(t testing.TB) rankings.Sweep {
	s := rankings.Sweep{SweepInfo: rankings.SweepInfo{
		Schema: 1, Name: "x", Configuration: "f00", Version: "1", Count: 6,
		Vary: []rankings.Variation{{Key: "schedule.name", Values: []string{"gpipe", "1f1b"}}, {Key: "parallel.data", Values: []string{"1", "2", "3"}}},
	}}
	for _, name := range s.Vary[0].Values {
		for _, data := range s.Vary[1].Values {
			set := []string{"schedule.name=" + name, "parallel.data=" + data}
			n := len(s.Points)
			if data == "3" && name == "gpipe" {
				s.Points = append(s.Points, rankings.SweepPoint{Index: n, Set: set, Error: "batch.global = 8: 3 replicas cannot share it, \"as\" <said>"})
				continue
			}
			replicas, err := strconv.Atoi(data)
			require.NoError(t, err)
			r := result(run(t, name, 4, 8, times{f: 10 * ms, b: 20 * ms, activation: 1e9, resident: 1e9}), []int64{8e9, 8e9, 8e9, 8e9})
			r.Devices, r.MFU = 4*replicas, 0.5/float64(replicas)
			r.Throughput.Samples = 100 * float64(replicas) * (1 - 0.1*float64(replicas-1))
			p, err := rankings.NewSweepPoint(n, set, fmt.Sprint("key ", n), r)
			require.NoError(t, err)
			s.Points = append(s.Points, p)
		}
	}
	return s
}

func TestSweepTexts(t *testing.T) {
	s := sampleSweep(t)
	var table, rows, object bytes.Buffer
	require.NoError(t, reports.WriteSweep(&table, s))
	golden.Equal(t, "sweep.txt", table.Bytes())
	require.NoError(t, reports.WriteSweepCSV(&rows, s))
	golden.Equal(t, "sweep.csv", rows.Bytes())
	require.NoError(t, s.WriteJSON(&object))
	golden.Equal(t, "sweep.json", object.Bytes())
}

// A sweep is read back as it was saved, whatever the result holds, and not from the
// files of two.
func TestSweepReadBack(t *testing.T) {
	s, folder := sampleSweep(t), t.TempDir()
	names, err := reports.SaveSweep(context.Background(), s, reports.SweepFolder(folder))
	require.NoError(t, err)
	require.Equal(t, []string{"sweep.csv", "sweep.jsonl", "sweep.json"}, names)
	back, err := rankings.LoadSweep(folder)
	require.NoError(t, err)
	require.Equal(t, s.SweepInfo, back.SweepInfo)
	require.Len(t, back.Points, len(s.Points))
	for i, p := range s.Points {
		require.True(t, p.Same(back.Points[i]), "point %d", i)
	}
	path := filepath.Join(folder, "sweep.jsonl")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(data, '\n'), 0o644))
	_, err = rankings.LoadSweep(folder)
	require.ErrorContains(t, err, "sweep.jsonl is not the one that psim wrote with the other files there")
	require.NoError(t, os.WriteFile(path, append(data, "{}\n"...), 0o644))
	_, err = rankings.LoadSweep(folder)
	require.EqualError(t, err, path+": line 7: holds neither result nor error")
	_, err = rankings.LoadSweep(t.TempDir())
	require.True(t, os.IsNotExist(err))
}

// Without a batch the steps of points differ in work: the best does the most microbatches in a
// second, not the fewest in a step. Without a limit of memory nobody knows whether a point fits.
func TestSweepByThroughput(t *testing.T) {
	s := rankings.Sweep{SweepInfo: rankings.SweepInfo{
		Vary: []rankings.Variation{{Key: "schedule.microbatches", Values: []string{"4", "8"}}},
	}}
	for i, m := range []int{4, 8} {
		r := result(run(t, "gpipe", 4, m, times{f: 10 * ms, b: 20 * ms, activation: 1e9}), nil)
		r.Microbatches, r.Throughput = m, results.Throughput{}
		p, err := rankings.NewSweepPoint(i, []string{fmt.Sprint("schedule.microbatches=", m)}, fmt.Sprint(m), r)
		require.NoError(t, err)
		s.Points = append(s.Points, p)
	}
	require.Less(t, s.Points[0].Result.StepTime, s.Points[1].Result.StepTime)
	var text bytes.Buffer
	require.NoError(t, reports.WriteSweep(&text, s))
	require.Equal(t, `  schedule.microbatches  devices  step time  bubble  microbatches/s  peak memory     fits
  4                            4     210 ms  42.9 %            19.0      4.00 GB  unknown
  8                            4     330 ms  27.3 %            24.2      8.00 GB  unknown

the highest throughput, in microbatches: --set schedule.microbatches=8
`, text.String())
	for i, length := range []int{512, 2048} { // the samples of the second are larger
		r := &s.Points[i].Result
		r.SequenceLength, r.Throughput = length, results.Throughput{Samples: 4 - float64(i), Tokens: float64(1000 * (i + 1))}
	}
	text.Reset()
	require.NoError(t, reports.WriteSweep(&text, s))
	require.Contains(t, text.String(), "  tokens/s  ")
	require.Contains(t, text.String(), "the highest throughput, in tokens: --set schedule.microbatches=8\n")
	for i, set := range []string{"data.batches=padded", "data.batches=packed"} { // more tokens in fewer samples
		s.Points[i].Set, s.Points[i].Result.SequenceLength = []string{set}, 2048
	}
	text.Reset()
	require.NoError(t, reports.WriteSweep(&text, s))
	require.Contains(t, text.String(), "the highest throughput, in tokens: --set data.batches=packed\n")
}

// Unknown numbers have empty cells in a sweep.csv, and a combination that cannot be has no verdict.
func TestSweepUnknown(t *testing.T) {
	r := result(run(t, "gpipe", 4, 4, unit()), nil)
	r.Microbatches, r.Throughput, r.MemoryVerdict, r.FitsMemory = 4, results.Throughput{}, "", true
	for i := range r.Ranks {
		r.Ranks[i].PeakMemory = 0
	}
	s := rankings.Sweep{SweepInfo: rankings.SweepInfo{Vary: []rankings.Variation{{Key: "a", Values: []string{"b", "c"}}}}}
	s.Points = []rankings.SweepPoint{{Set: []string{"a=b"}, Result: r}, {Index: 1, Set: []string{"a=c"}, Error: "no"}}
	var text bytes.Buffer
	require.NoError(t, reports.WriteSweepCSV(&text, s))
	rows, err := csv.NewReader(&text).ReadAll()
	require.NoError(t, err)
	cells := map[string]string{}
	for i, head := range rows[0] {
		cells[head] = rows[1][i]
	}
	for _, head := range []string{"samples_per_s", "tokens_per_s", "mfu", "peak_memory_bytes", "fits_memory", "memory_verdict"} {
		require.Contains(t, cells, head)
		require.Empty(t, cells[head], head)
	}
	require.Equal(t, fmt.Sprint(4/r.StepTime), cells["microbatches_per_s"])
	require.NoError(t, reports.WriteSweep(&text, s))
	require.Regexp(t, `(?m)^  c +– +– +– +– +– +–$`, text.String())
}

// Points with more stages of the same [times] do more work, and a sweep says so, as it says what
// all its points warn of.
func TestSweepOfMoreStages(t *testing.T) {
	timed := func(virtual int, forward string, warnings ...string) results.Result {
		r := result(run(t, "gpipe", 4, 4, unit()), nil)
		r.VirtualStages, r.Warnings = virtual, warnings
		r.Config = map[string]any{"times": map[string]any{"forward": forward, "backward": "10ms"}}
		return r
	}
	said := func(list ...results.Result) string {
		s := rankings.Sweep{Points: []rankings.SweepPoint{{Error: "impossible"}}}
		for _, r := range list {
			s.Points = append(s.Points, rankings.SweepPoint{Set: []string{"a=b"}, Result: r})
		}
		var text bytes.Buffer
		require.NoError(t, reports.WriteSweep(&text, s))
		return text.String()
	}
	const more = "\nwarning: the same [times] are of each stage: a microbatch is more work in 8 stages than in 4, so that none is the best; psim search divides times\n"
	require.Contains(t, said(timed(1, "5ms"), timed(1, "5ms"), timed(2, "5ms")), more)
	require.NotContains(t, said(timed(2, "5ms"), timed(1, "5ms")), "--set", "points of different work have no best")
	require.Contains(t, said(timed(1, "5ms"), timed(1, "5ms")), "--set a=b")
	require.NotContains(t, said(timed(2, "5ms"), timed(2, "5ms")), "warning")
	require.NotContains(t, said(timed(1, "10ms"), timed(2, "5ms")), "warning")
	both := said(timed(1, "5ms", "of both", "of one"), timed(1, "5ms", "of both"))
	require.Contains(t, both, "\nwarning: of both\n")
	require.NotContains(t, both, "of one")
}

// FuzzPoint: what is read as a point is written as one that reads the same.
func FuzzPoint(f *testing.F) {
	for _, p := range sampleSweep(f).Points[:3] {
		line, err := p.Line()
		require.NoError(f, err)
		f.Add(line)
	}
	f.Add([]byte(`{"index":1,"set":null,"result": {"kind":"predicted","ranks":[{}], "name":"\u003c\u2028"} }`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := rankings.ParseSweepPoint(data)
		if err != nil {
			return
		}
		line, err := p.Line()
		require.NoError(t, err)
		require.NotContains(t, string(line), "\n")
		again, err := rankings.ParseSweepPoint(line)
		require.NoError(t, err)
		require.True(t, p.Same(again), "%s", line)
	})
}

// A sweep takes what leaves the margin that is set, and says what is close.
func TestSweepKeepsMargin(t *testing.T) {
	s := sampleSweep(t)
	for i := range s.Points {
		r := &s.Points[i].Result
		r.FitsMemory, r.MemoryVerdict, r.MemoryMargin = true, results.Fits, 0.13
		if i == 1 { // the fastest of gpipe
			r.MemoryVerdict = results.Close
		}
	}
	s.Points = s.Points[:2]
	s.Points[0].Result.Throughput.Samples, s.Points[1].Result.Throughput.Samples = 1, 2
	s.Points = append(s.Points, s.Points[0])
	var table bytes.Buffer
	require.NoError(t, reports.WriteSweep(&table, s))
	require.Contains(t, table.String(), "the highest throughput: --set schedule.name=gpipe --set parallel.data=1\n")
	require.Contains(t, table.String(), "  close")
}
