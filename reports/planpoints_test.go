package reports_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/internal/golden"
	"psim/reports"
	"psim/reports/picture"
	"psim/results"
	"psim/results/rankings"
)

// points are plans of every kind: simulated, discarded, and not reached.
func points() []rankings.PlanPoint {
	var list []rankings.PlanPoint
	for tensor := 1; tensor <= 8; tensor *= 2 {
		for stages := 1; stages*tensor <= 16; stages *= 2 {
			p := rankings.PlanPoint{
				Plan:  rankings.PlanShape{Tensor: tensor, Stages: stages, Data: 16 / tensor / stages, Micro: 1, Microbatches: 4 * tensor * stages, Schedule: "1f1b", VirtualStages: 1, Recompute: "none", Context: 1, Expert: 1},
				Set:   []string{fmt.Sprintf("parallel.tensor=%d", tensor), fmt.Sprintf("schedule.stages=%d", stages)},
				Work:  time.Duration(12+2*tensor+stages) * time.Second,
				Bound: time.Duration(20+2*tensor+stages) * time.Second,
			}
			switch {
			case tensor*stages < 4:
				p.Pruned, p.Bound = "parameters do not fit", p.Work
			case p.Bound < 32*time.Second:
				p.Simulated, p.StepTime, p.PeakMemory, p.Fits = true, p.Bound+2*time.Second, int64(90e9/tensor/stages+40e9), tensor*stages > 4
			default:
				p.Pruned = rankings.Slower
			}
			list = append(list, p)
		}
	}
	return list
}

// ranking is a ranking of plans with the steps of some seconds.
func planRanking(seconds ...float64) rankings.PlanRanking {
	r := rankings.PlanRanking{Space: 9, Evaluated: 4, Bounded: 2, Pruned: 5, PrunedBy: map[string]int{rankings.Slower: 2, "parameters do not fit": 3}, Plans: []rankings.RankedPlan{}}
	for i, s := range seconds {
		result := results.Result{
			Schema: 1, Kind: results.Predicted, StepTime: s, Makespan: s, MemoryMargin: 0.1, FitsMemory: true,
			Work:  results.Work{MFU: 0.5 / s, TokensPerDevice: 12345.6 / s},
			Ranks: []results.RankResult{{PeakMemory: 7e9, Memory: &results.MemoryBytes{Activations: 4e9, Optimizer: 3e9}}},
		}
		r.Plans = append(r.Plans, rankings.RankedPlan{
			Result: result, Set: []string{fmt.Sprintf("parallel.tensor=%d", i+1)},
			Plan: rankings.PlanShape{Tensor: i + 1, Stages: 2, Data: 4, VirtualStages: 1, Micro: 1, Microbatches: 8, Schedule: "1f1b", Recompute: "none"},
		})
	}
	return r
}

func TestPlanTable(t *testing.T) {
	r := planRanking(1, 1.25, 2)
	r.Why = []rankings.PlanWhy{
		{Plan: "runner-up", StepTime: 1.25, Longer: rankings.LongerByClass(
			map[string]float64{"products": 0.5, "waiting": 0.5}, map[string]float64{"products": 0.4, "waiting": 0.85})},
		{Plan: "configuration", StepTime: 1, Longer: rankings.LongerByClass(
			map[string]float64{"products": 1}, map[string]float64{"products": 1})},
	}
	for i, chance := range []float64{0.9, 0.1, 0} {
		r.Plans[i].ProbabilityBest = &chance
	}
	i := r.Plans[0].AddInterval()
	i.Low, i.High, i.Coverage, i.From, i.Runs, i.Sources = 0.9, 1.2, 0.8, "dense networks", 40, 5
	var out bytes.Buffer
	require.NoError(t, reports.WritePlanRanking(&out, r, false))
	r.Gap, r.Partial = 0.03, true
	r.Plans[0].Interval, r.Plans[0].IntervalMissing = nil, "no published run on t4 is compared with predictions"
	require.NoError(t, reports.WritePlanRanking(&out, r, false))
	alike := planRanking(1, 1, 2)
	alike.Plans[1].Plan, alike.Plans[1].Set = alike.Plans[0].Plan, []string{"parallel.tensor=1", "parallel.zero=1"}
	alike.Plans[2].Set = []string{"train.recompute=[\"mlp\"]"}
	alike.Why = []rankings.PlanWhy{{Plan: "runner-up", StepTime: 1}}
	require.NoError(t, reports.WritePlanRanking(&out, alike, false))
	require.NoError(t, reports.WritePlanRanking(&out, alike, true))
	none := planRanking()
	none.WouldFit = []results.Remedy{{Set: []string{"a=1", "b=2"}, PeakMemory: 1e9, StepTime: 2, Devices: 8, Flags: []string{"--devices 8"}}}
	require.NoError(t, reports.WritePlanRanking(&out, none, false))
	none.WouldFit = nil
	require.NoError(t, reports.WritePlanRanking(&out, none, false))
	none.WithinNode = 8
	require.NoError(t, reports.WritePlanRanking(&out, none, false))
	none.Partial = true
	require.NoError(t, reports.WritePlanRanking(&out, none, false))
	require.NoError(t, reports.WritePlanRanking(&out, rankings.PlanRanking{Space: 9, Partial: true}, false))
	require.NoError(t, reports.WritePlanRanking(&out, rankings.PlanRanking{}, false))
	golden.Equal(t, "planranking.txt", out.Bytes())
	seconds := 1.5
	r.Seconds = &seconds
	require.Equal(t, "9 plans: 4 simulated; discarded without that: 3 (parameters do not fit), 2 (slower by a lower bound); in 1.50 s", reports.CountPlans(r))
}

// What was written is read back; a bound above the last of the best plans counts, whether
// a plan was simulated or not.
func TestPlanPoints(t *testing.T) {
	last := 29 * time.Second
	var first, second bytes.Buffer
	require.NoError(t, rankings.WritePlanPoints(&first, rankings.Settle(points(), last), nil, last))
	list, err := rankings.ReadPlanPoints(bytes.NewReader(first.Bytes()))
	require.NoError(t, err)
	require.NoError(t, rankings.WritePlanPoints(&second, list, nil, last))
	require.Equal(t, first.String(), second.String())
	golden.Equal(t, "points.csv", first.Bytes())
	for _, line := range strings.Split(strings.TrimSpace(first.String()), "\n")[1:] {
		require.Contains(t, "simulated,parameters do not fit,"+rankings.Slower, strings.Split(line, ",")[14])
	}
}

// Plans are ranked by their steps and settings, and read back without loss.
func TestSavedPlans(t *testing.T) {
	r := planRanking(3, 1, 2, 1)
	s, err := r.Saved(rankings.PlanSearch{Schema: 1, Name: "x", Configuration: "c", Devices: 8, Rows: 3}, points())
	require.NoError(t, err)
	require.NoError(t, s.Rank())
	last, err := s.Last()
	require.NoError(t, err)
	require.Equal(t, 2*time.Second, last)
	folder := t.TempDir() + "/plans"
	names, err := reports.SaveSearch(t.Context(), s, reports.PlansFolder(folder, 20))
	require.NoError(t, err)
	require.Equal(t, []string{"points.csv", "search.json", "plans.json"}, names)
	again, err := rankings.LoadPlans(folder)
	require.NoError(t, err)
	require.Equal(t, s.Plans, again.Plans)
	require.Equal(t, s.PlanSearch, again.PlanSearch)
	found, err := again.Ranking()
	require.NoError(t, err)
	require.Equal(t, []string{"parallel.tensor=2"}, found.Plans[0].Set)
	require.Equal(t, []string{"parallel.tensor=4"}, found.Plans[1].Set)
	require.Equal(t, len(points()), found.Evaluated+found.Pruned)
	_, err = rankings.LoadPlans(t.TempDir())
	require.Error(t, err)
}

// A points.csv or plans.json never makes psim panic, and points that were read are written
// as they are read.
func FuzzReadPlanPoints(f *testing.F) {
	var b bytes.Buffer
	if err := rankings.WritePlanPoints(&b, rankings.Settle(points(), 29*time.Second), nil, 29*time.Second); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := rankings.ReadPlanPoints(bytes.NewReader(data))
		if err != nil {
			return
		}
		var first, second bytes.Buffer
		if err := rankings.WritePlanPoints(&first, rankings.Settle(list, 0), nil, 0); err != nil {
			t.Fatal(err)
		}
		again, err := rankings.ReadPlanPoints(bytes.NewReader(first.Bytes()))
		if err != nil {
			t.Fatalf("%v\n%s", err, first.Bytes())
		}
		if err := rankings.WritePlanPoints(&second, again, nil, 0); err != nil || !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Fatalf("%v\n%s\nwas read as\n%s", err, first.Bytes(), second.Bytes())
		}
	})
}

// A ranking is written as JSON with all that scripts read.
func TestPlanRankingJSON(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, planRanking(1).WriteJSON(&b))
	var again rankings.PlanRanking
	require.NoError(t, json.Unmarshal(b.Bytes(), &again))
	require.Equal(t, planRanking(1).Plans[0].Plan, again.Plans[0].Plan)
	require.NotContains(t, b.String(), "seconds")
}

// Plans that differ in sharding or recomputation alone have labels of their own, and letters
// that no label has are not explained.
func TestPointLabels(t *testing.T) {
	shape := rankings.PlanShape{Tensor: 2, Stages: 4, Micro: 1, Recompute: "none"}
	sharded, again := shape, shape
	sharded.Zero, again.Recompute = 2, "full"
	var list []rankings.PlanPoint
	for i, s := range []rankings.PlanShape{shape, sharded, again} { // the longer a step, the less memory
		list = append(list, rankings.PlanPoint{Plan: s, Simulated: true, StepTime: time.Duration(1+i) * time.Second, PeakMemory: 4e9 >> i})
	}
	f := picture.PointsFigure("", list, 0, 0)
	for i, label := range []string{"T2 P4 B1", "T2 P4 B1 Z2", "T2 P4 B1 R"} {
		require.Equal(t, []string{label}, f.Plans[i].Set)
	}
	explained := func(list []rankings.PlanPoint) string {
		var svg bytes.Buffer
		require.NoError(t, picture.Pareto(&svg, picture.SVG, picture.PointsFigure("", list, 0, 0)))
		return regexp.MustCompile(`>T tensor[^<]*`).FindString(svg.String())
	}
	require.Equal(t, ">T tensor, P stages, B microbatch size, Z ZeRO, R recompute", explained(list))
	require.Equal(t, ">T tensor, P stages, B microbatch size", explained(list[:1]))
	list[0].Plan.VirtualStages = 2
	require.Equal(t, ">T tensor, P stages, B microbatch size, V stages per rank", explained(list[:1]))
	list[1].StepTime, list[1].Plan.Context = 4*time.Second, 2 // of a plan that is worse in both
	require.Equal(t, ">T tensor, P stages, B microbatch size, R recompute, V stages per rank", explained(list))
}

// The best plan that fits has a label, however close other points are, and a faster plan that does not
// fit has none.
func TestBestPlanLabelled(t *testing.T) {
	var list []rankings.PlanPoint
	add := func(tensor int, step time.Duration, peak int64) {
		shape := rankings.PlanShape{Tensor: tensor, Stages: 1, Micro: 1}
		list = append(list, rankings.PlanPoint{
			Plan: shape, Simulated: true, Fits: peak <= 20e9, StepTime: step, PeakMemory: peak,
		})
	}
	add(2, 100*time.Millisecond, 10e9)
	for i := range 200 { // a crowd around it
		add(4, time.Duration(101+i%10)*time.Millisecond, 9e9+int64(i/10)*1e8)
	}
	add(8, 90*time.Millisecond, 25e9)
	var svg bytes.Buffer
	require.NoError(t, picture.Pareto(&svg, picture.SVG, picture.PointsFigure("", list, 20e9, 0.13)))
	require.Contains(t, svg.String(), ">best: T2 P1 B1<")
	require.NotContains(t, svg.String(), ">T8 P1 B1<")
	require.Contains(t, svg.String(), ">no plan that fits is better in both<")
}

// An axis of plans begins shortly below the first, or at 0 where that is near.
func TestParetoBegins(t *testing.T) {
	for _, c := range []struct {
		least int64
		ticks string // the first on the axis of memory
	}{{45e9, ">35<"}, {20e9, ">0<"}} {
		list := []rankings.PlanPoint{
			{Simulated: true, StepTime: 20 * time.Second, PeakMemory: c.least}, {Simulated: true, StepTime: 10 * time.Second, PeakMemory: 80e9},
		}
		var svg bytes.Buffer
		require.NoError(t, picture.Pareto(&svg, picture.SVG, picture.PointsFigure("", list, 0, 0)))
		require.Equal(t, c.ticks, regexp.MustCompile(`>\d+<`).FindString(svg.String()), "%d", c.least)
	}
}

func TestShellWord(t *testing.T) {
	for word, want := range map[string]string{"": "''", "a=b": "a=b", "a b": "'a b'", "it's": `'it'\''s'`, "x$y": "'x$y'"} {
		require.Equal(t, want, reports.ShellWord(word))
	}
}
