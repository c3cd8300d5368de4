package figures_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim"
	"psim/internal/golden"
	"psim/reports/figures"
	"psim/reports/picture"
	"psim/reports/trace"
	"psim/results"
)

// predicted makes items of modes, such as ddp=2.
func predicted(t testing.TB, words ...string) []figures.Item {
	var list []figures.Item
	for _, word := range words {
		run, err := predict(word)
		require.NoError(t, err)
		list = append(list, figures.Item{Label: word, Run: run})
	}
	return list
}

// predict predicts a mode on a number of workers, such as ddp=2.
func predict(word string) (results.Run, error) {
	name, workers, _ := strings.Cut(word, "=")
	sets := []string{"schedule.stages=" + workers}
	if n, err := strconv.Atoi(workers); err == nil && (name == "ddp" || name == "fsdp") {
		sets = []string{"parallel.data=" + workers, fmt.Sprint("batch.global=", 64*n)}
	}
	c, err := psim.Load("vgg16-cpu-"+name, sets...)
	if err != nil {
		return results.Run{}, err
	}
	p, err := psim.Predict(context.Background(), c)
	if err != nil {
		return results.Run{}, err
	}
	return p.Run(), nil
}

// measured makes a measurement of every item, of three steps, in which everything
// took so much longer.
func measured(items []figures.Item, longer float64) []figures.Item {
	var list []figures.Item
	for k, i := range items {
		r := i.Run.Result
		r.Kind, r.StepTime = results.Measured, longer*r.StepTime
		r.Throughput.Samples /= longer
		r.Ranks = append([]results.RankResult{}, r.Ranks...)
		for n := range r.Ranks {
			rank := &r.Ranks[n]
			rank.Compute *= longer
			rank.ExposedCommunication *= longer
			rank.Optimizer *= longer
			rank.Idle *= longer
		}
		m := &results.Measurement{Steps: []float64{0.95 * r.StepTime, r.StepTime, 1.05 * r.StepTime}, StepTimeMean: r.StepTime, StepTimeStd: 0.05 * r.StepTime}
		for step := range 6 {
			m.Losses = append(m.Losses, 2.303*math.Exp(-0.2*float64(step)*float64(k+1)))
		}
		r.Measurement = m
		list = append(list, figures.Item{Label: "measured", Path: fmt.Sprintf("out/%d", k), Run: results.Run{Result: r}})
	}
	return list
}

// swept makes the points of a sweep of three settings, as psim sweep saves them.
func swept(t testing.TB) []figures.Item {
	var lines bytes.Buffer
	for _, schedule := range []string{"gpipe", "1f1b"} {
		for _, recompute := range []string{"none", "full"} {
			for _, microbatches := range []int{16, 4, 8} {
				set := []string{"schedule.name=" + schedule, "train.recompute=" + recompute, fmt.Sprintf("schedule.microbatches=%d", microbatches)}
				c, err := psim.Load("gpipe", append(set, "machine.device=rtx-4090d", "batch.global=64")...)
				require.NoError(t, err)
				p, err := psim.Predict(context.Background(), c)
				require.NoError(t, err)
				require.NoError(t, json.NewEncoder(&lines).Encode(map[string]any{"index": 0, "set": set, "result": p.Result}))
			}
		}
	}
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "sweep.jsonl"), lines.Bytes(), 0o644))
	kind, err := figures.Find("sweep")
	require.NoError(t, err)
	items, err := kind.Load(folder, nil)
	require.NoError(t, err)
	require.Len(t, items, 12)
	return items
}

// drawn lists what is drawn in the tests: every kind, in every way that it has.
func drawn(t testing.TB) map[string]figures.Request {
	ddp := predicted(t, "ddp=1", "ddp=2", "ddp=4")
	ran := measured(ddp, 1.1)
	both := append(append([]figures.Item{}, ddp...), ran...)
	many := predicted(t, "fsdp=1", "fsdp=2", "fsdp=4", "model=1", "model=2", "model=3", "pipeline=1", "pipeline=2", "pipeline=3")
	sweep := swept(t)
	zero := 0
	return map[string]figures.Request{
		"time":            {Items: both},
		"time-many":       {Items: append(append([]figures.Item{}, ddp...), many...)},
		"throughput":      {Items: ddp},
		"throughput-both": {Items: both},
		"throughput-many": {Items: many},
		"split-time":      {Items: ddp},
		"split-time-both": {Items: both},
		"efficiency":      {Items: both},
		"metric":          {Items: many[6:], Key: "bubble.makespan"},
		"loss":            {Items: ran},
		"memory":          {Items: append(append([]figures.Item{}, ddp...), many[:3]...)},
		"memory-one":      {Items: many[8:]},
		"heatmap":         {Items: sweep, Key: "peak_memory_bytes"},
		"sweep":           {Items: sweep},
		"sweep-results":   {Items: append(append([]figures.Item{}, ddp...), many[:3]...), Key: "throughput"},
		"compare":         {Items: append(append([]figures.Item{}, many[5]), many[8])},
		"timeline":        {Items: many[8:]},
		"timeline-window": {Items: predicted(t, "ddp=64"), View: picture.View{Replica: &zero, From: 20e9, To: 26e9}},
		"timeline-many":   {Items: predicted(t, "ddp=64")},
	}
}

// Every kind is drawn, as PNG, SVG and PDF, in the same bytes twice.
func TestFigures(t *testing.T) {
	kinds := map[string]bool{}
	for name, request := range drawn(t) {
		kind, err := figures.Find(kindOf(name))
		require.NoError(t, err)
		kinds[kind.Name] = true
		drawn, err := kind.Draw(request)
		require.NoError(t, err, name)
		folder := os.Getenv("PSIM_PICTURES") // to look at them
		for _, format := range trace.Formats() {
			if format == picture.PNG && name != "throughput-both" && folder == "" {
				continue // for the sake of time; the drawing is the same
			}
			var first, second bytes.Buffer
			require.NoError(t, drawn(&first, format))
			require.NoError(t, drawn(&second, format))
			require.True(t, bytes.Equal(first.Bytes(), second.Bytes()), "%s.%s", name, format)
			if folder != "" {
				require.NoError(t, os.WriteFile(filepath.Join(folder, name+"."+format), first.Bytes(), 0o644))
			}
			if format == picture.SVG {
				golden.Drawing(t, name+".svg", first.Bytes())
			}
		}
	}
	require.Len(t, kinds, len(figures.FigureKinds()))
}

// kindOf returns the kind that a picture of the tests shows.
func kindOf(name string) string {
	for _, k := range figures.Names() {
		if name == k || strings.HasPrefix(name, k+"-") {
			return k
		}
	}
	return ""
}
