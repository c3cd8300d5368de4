package figures_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
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

// grid makes the points of a sweep of three settings, the last two with some values and three.
func grid(key string, values int) (list []figures.Item) {
	for m := 1; m <= 4; m *= 2 {
		for k := range values {
			for batch := 1; batch <= 3; batch++ {
				set := []string{fmt.Sprint("schedule.microbatches=", m), fmt.Sprint(key, "=", string(rune('a'+k))), fmt.Sprint("batch.global=", 1000*batch)}
				r := results.Result{Kind: results.Predicted, StepTime: float64(batch*(k+4)) / float64(m+1), FitsMemory: true}
				list = append(list, figures.Item{Set: set, Run: results.Run{Result: r}})
			}
		}
	}
	return list
}

// texts lists the texts of a picture.
func texts(t testing.TB, name string, request figures.Request) []string {
	kind, err := figures.Find(name)
	require.NoError(t, err)
	draw, err := kind.Draw(request)
	require.NoError(t, err)
	var svg strings.Builder
	require.NoError(t, draw(&svg, picture.SVG))
	var list []string
	for _, m := range regexp.MustCompile(`>([^<>]+)</text>`).FindAllStringSubmatch(svg.String(), -1) {
		list = append(list, m[1])
	}
	return list
}

// No line of a sweep is without a name: twelve of two settings have a colour for a value of one and
// dashes for a value of the other, and of more the best are drawn.
func TestLinesNamed(t *testing.T) {
	list := texts(t, "sweep", figures.Request{Items: grid("schedule.name", 4)})
	for _, name := range []string{"a", "b", "c", "d", "global batch 1,000", "global batch 2,000", "global batch 3,000"} {
		require.Contains(t, list, name)
	}
	require.NotContains(t, strings.Join(list, "|"), "best")
	list = texts(t, "sweep", figures.Request{Items: grid("schedule.name", 12)})
	require.Contains(t, list, "the best 8 of 36 lines")
	require.Contains(t, list, "f, global batch 1,000")
	require.NotContains(t, list, "g, global batch 1,000")
	require.NotContains(t, list, "a, global batch 3,000")
}

// Of too many lines those are drawn that are best where they fit in memory, and the legend says so.
func TestLinesThatFit(t *testing.T) {
	points := grid("schedule.name", 12)
	for i := range points { // the fastest four schedules do not fit
		points[i].Run.Result.FitsMemory = points[i].Set[1] >= "schedule.name=e"
	}
	list := texts(t, "sweep", figures.Request{Items: points})
	require.Contains(t, list, "the best 8 of 36 lines, by their points that fit")
	require.NotContains(t, list, "a, global batch 1,000")
	require.Contains(t, list, "e, global batch 1,000")
	require.NotContains(t, list, "does not fit in memory")
}

// Titles are words, not the names of files; a bubble is a percentage of the makespan, and thousands
// are separated.
func TestTitles(t *testing.T) {
	items := predicted(t, "pipeline=2", "pipeline=3")
	list := texts(t, "metric", figures.Request{Items: items, Key: "bubble.makespan"})
	require.Contains(t, list, "bubble (% of makespan)")
	require.Contains(t, list, "Bubble: VGG16 without pooling, GPipe, predicted")
	list = texts(t, "timeline", figures.Request{Items: items[:1]})
	require.Contains(t, strings.Join(list, " "), "VGG16 without pooling, GPipe, 2 stages × 2 microbatches, predicted on 2 CPU cores")
	many := grid("schedule.name", 2)
	for i := range many {
		many[i].Run.Result.Throughput.Tokens = 5000 / many[i].Run.Result.StepTime
	}
	list = texts(t, "heatmap", figures.Request{Items: many, Key: "throughput.tokens_per_s"})
	require.Contains(t, list, "6,250")
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
		"sweep-many":      {Items: grid("schedule.name", 4)},
		"sweep-best":      {Items: grid("schedule.name", 12)},
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

// A bar of a prediction with an interval has a whisker from end to end, and the legend says what that is; so have
// the stacks of split-time.
func TestIntervalsAreWhiskers(t *testing.T) {
	plain, withInterval := predicted(t, "ddp=2"), predicted(t, "ddp=2")
	r := &withInterval[0].Run.Result
	i := r.AddInterval()
	i.Low, i.High, i.Coverage = 0.8*r.StepTime, 1.5*r.StepTime, 0.8
	for _, kind := range []string{"time", "split-time"} {
		require.Contains(t, texts(t, kind, figures.Request{Items: withInterval}), "whiskers: where 80 % of measured steps lie", kind)
		require.NotContains(t, strings.Join(texts(t, kind, figures.Request{Items: plain}), "\n"), "whiskers", kind)
	}
}
