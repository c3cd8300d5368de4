// Command torchsteps predicts and measures PyTorch's steps on two processes, by every mode and network of
// its lists, and prints a part of docs/pytorch.md. It keeps runs in the file of -rows and goes on from there.
package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"

	"psim"
	"psim/exec/backend"
	"psim/exec/pytorch"
	"psim/exec/session"
	"psim/internal/units"
)

// runsOfMode is how often a mode is measured, and moreRuns how often at most where the runs differ.
const (
	runsOfMode, moreRuns = 3, 5
	rounds               = 12   // of a run, each with a step
	unsteady             = 0.04 // of the measured steps' error
)

var (
	networks = [][]string{
		{"exec", "model.tied=false"},
		{"exec-mlp", "batch.global=1024", "schedule.microbatches=4"},
	}
	modes = []string{
		"gpipe", "1f1b", "zb-h1", "interleaved-1f1b", "looped-bfs", "zbv", "v-half", "v-min", "dualpipev", "hanayo",
		"ddp", "fsdp",
	}
)

// single is the mode of two processes that do not talk to each other.
const single = "two single processes"

// printOnly leaves out further runs.
var printOnly bool

// A row is one run of a mode.
type row struct {
	Network, Mode string
	Median        float64 // of the measured steps, in seconds
	Fastest       session.Fastest
	Disturbed     bool
	Version       string // of PyTorch
}

func (r row) error() float64 { return r.Fastest.Predicted/r.Fastest.Measured - 1 }

func main() {
	log.SetFlags(0)
	path := flag.String("rows", "", "file of the runs")
	flag.BoolVar(&printOnly, "print", false, "run nothing: print what the file has")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *path, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, path string, stdout io.Writer) error {
	python, err := pytorch.Find(ctx)
	if err != nil {
		return err
	}
	rows, file, err := open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if printOnly {
		return write(stdout, rows)
	}
	for n := range moreRuns {
		for _, network := range networks {
			for _, mode := range modes {
				if have := of(rows, network[0], mode); len(have) > n || n >= runsOfMode && spread(have) <= unsteady {
					continue
				}
				fmt.Fprintf(os.Stderr, "%s %s, run %d\n", network[0], mode, n+1)
				r, err := try(ctx, python, network, mode)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", network[0], mode, err)
				}
				rows = append(rows, r)
				if err := json.NewEncoder(file).Encode(r); err != nil {
					return err
				}
			}
		}
	}
	return write(stdout, rows)
}

// open reads the rows of a file, and opens it for more.
func open(path string) (rows []row, f *os.File, err error) {
	if f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644); err != nil {
		return nil, nil, err
	}
	for s := bufio.NewScanner(f); s.Scan(); {
		var r row
		if err := json.Unmarshal(s.Bytes(), &r); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", path, err)
		}
		rows = append(rows, r)
	}
	return rows, f, nil
}

// settings returns the settings of a mode.
func settings(mode string) []string {
	switch mode {
	case "gpipe", "1f1b", "zb-h1":
		return []string{"schedule.name=" + mode}
	case "ddp", "fsdp":
		sets := []string{"schedule.name=ddp", "schedule.stages=1", "parallel.data=2"}
		if mode == "fsdp" {
			sets = append(sets, "parallel.zero=3")
		}
		return sets
	}
	return []string{"schedule.name=" + mode, "schedule.virtual_stages=2"}
}

// try runs a mode once.
func try(ctx context.Context, python string, network []string, mode string) (row, error) {
	c, err := psim.Load(network[0], append(settings(mode), network[1:]...)...)
	if err != nil {
		return row{}, err
	}
	s := session.Session{Options: session.Options{Python: python, Seed: 1390}}
	s.Measure.Repeats = rounds
	s.Measure.Train.Steps, s.Measure.Train.Warmup = rounds, 2
	if err := s.Run(ctx, c); err != nil {
		return row{}, err
	}
	t, result := s.Main(), s.Result()
	return row{
		Network: network[0], Mode: mode, Fastest: t.Fastest, Median: result.StepTimeMedian,
		Disturbed: result.Disturbed, Version: result.Engine.Version,
	}, nil
}

// of returns the rows of a mode. Single processes are what replicas are before they sum anything.
func of(rows []row, network, mode string) (list []row) {
	for _, r := range rows {
		if mode == single && r.Mode == "ddp" {
			r.Mode, r.Fastest.Predicted, r.Fastest.Measured = single, r.Fastest.Alone, r.Fastest.Together
			r.Median = 0
		}
		if r.Network == network && r.Mode == mode {
			list = append(list, r)
		}
	}
	return list
}

// spread returns how far the errors of the middle runs are apart: of all of them, or of those without the
// least and the largest if there are more.
func spread(rows []row) float64 {
	var list []float64
	for _, r := range rows {
		list = append(list, r.error())
	}
	slices.Sort(list)
	if drop := (len(list) - runsOfMode + 1) / 2; drop > 0 {
		list = list[drop : len(list)-drop]
	}
	return list[len(list)-1] - list[0]
}

// middle returns the run with the median error.
func middle(rows []row) row {
	rows = slices.Clone(rows)
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(a.error(), b.error()) })
	return rows[(len(rows)-1)/2]
}

// A tally adds up errors.
type tally struct {
	count      int
	sum, worst float64
}

func (t *tally) add(r row) {
	t.count++
	t.sum += math.Abs(r.error())
	t.worst = max(t.worst, math.Abs(r.error()))
}

func (t tally) String() string {
	return fmt.Sprintf("%d rows have a mean error of %.1f %%, at worst %.1f %%",
		t.count, 100*t.sum/float64(max(1, t.count)), 100*t.worst)
}

func write(w io.Writer, rows []row) error {
	if len(rows) == 0 {
		return errors.New("no runs")
	}
	var b strings.Builder
	fmt.Fprintf(&b, head, runtime.NumCPU(), backend.Processor(), rows[0].Version, rounds)
	var judged, all tally
	for _, network := range networks {
		for _, mode := range append(slices.Clone(modes), single) {
			list := of(rows, network[0], mode)
			if len(list) == 0 {
				fmt.Fprintf(&b, "| %s | %s | – | – | – | – | not run |\n", network[0], mode)
				continue
			}
			r, note, median := middle(list), "", "–"
			if r.Median > 0 {
				median = units.FormatSeconds(r.Median)
			}
			switch apart := spread(list); {
			case apart > unsteady || len(list) < runsOfMode:
				note = fmt.Sprintf("not judged: %s, %.1f %% apart", units.Plural(len(list), "run"), 100*apart)
			default:
				judged.add(r)
			}
			all.add(r)
			if r.Disturbed {
				note = strings.TrimPrefix(note+"; disturbed", "; ")
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %+.1f %% | %s | %s |\n", network[0], mode,
				units.FormatSeconds(r.Fastest.Predicted), units.FormatSeconds(r.Fastest.Measured), 100*r.error(),
				median, note)
		}
	}
	fmt.Fprintf(&b, "\nOf those that are judged, %v; of all, %v.\n", judged, all)
	_, err := io.WriteString(w, b.String())
	return err
}

const head = `## Steps of PyTorch, predicted and measured

On %d cores of %s, PyTorch %s. By tools/torchsteps: what
psim predicts of PyTorch's step from times of its tasks, each alone, as ` + "`psim exec --engine torch`" + `
does, and what the step takes, on two gloo processes with a core each. The networks are ` + "`exec`" + `,
a small GPT-2, with a head of its own, and ` + "`exec-mlp`" + ` with 1,024 samples in four microbatches; pipelines
whose ranks hold several stages have two. Two single processes train a whole network each, without a word to each
other; their prediction is the time of one while the other waits, so its error is what neighbours cost each other.

A core of a rented machine changes its speed within seconds, by half and more. So tasks and steps are measured in
turns, in %d rounds of a run, and the fastest are compared: the prediction has each process's fastest round of tasks,
the measured step is the fastest; the last column is the median step. Every mode runs three times, and the run with
the middle error counts; where errors of three runs are more than 4 %% apart, up to five times. If then the three in
the middle still are, the row is not judged.

| network | mode | predicted | measured | error | median step | |
|---|---|--:|--:|--:|--:|---|
`
