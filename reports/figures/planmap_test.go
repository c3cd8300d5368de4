package figures_test

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/internal/golden"
	"psim/reports/figures"
	"psim/reports/picture"
	"psim/results/rankings"
)

// plans are some of which a few were simulated.
func somePlans() []rankings.PlanPoint {
	var list []rankings.PlanPoint
	for tensor := 1; tensor <= 8; tensor *= 2 {
		for stages := 1; stages*tensor <= 16; stages *= 2 {
			for _, schedule := range []string{"1f1b", "gpipe"} {
				p := rankings.PlanPoint{
					Plan:  rankings.PlanShape{Tensor: tensor, Stages: stages, Data: 16 / tensor / stages, Micro: 1, Microbatches: 8, Schedule: schedule, VirtualStages: 1, Recompute: "none"},
					Bound: time.Duration(20+2*tensor+stages) * time.Second,
				}
				switch {
				case tensor*stages < 4:
					p.Pruned = "parameters do not fit"
				case p.Bound < 32*time.Second:
					p.Simulated, p.StepTime, p.PeakMemory, p.Fits = true, p.Bound+2*time.Second, int64(90e9/tensor/stages+40e9), schedule == "1f1b"
				default:
					p.Pruned = rankings.Slower
				}
				list = append(list, p)
			}
		}
	}
	return list
}

func TestPlanMap(t *testing.T) {
	draw, err := figures.PlanMap("plans", somePlans(), nil, []string{"tensor", "stages"})
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, draw(&b, picture.SVG))
	golden.Equal(t, "planmap.svg", b.Bytes())
	draw, err = figures.PlanMap("plans", somePlans(), nil, nil) // those that matter most
	require.NoError(t, err)
	require.NoError(t, draw(io.Discard, picture.PNG))
	known := []rankings.PlanSquare{{Across: "8", Up: "2", StepTime: 41}, {Across: "4", Up: "4"}}
	draw, err = figures.PlanMap("plans", somePlans(), known, []string{"tensor", "stages"})
	require.NoError(t, err)
	b.Reset()
	require.NoError(t, draw(&b, picture.SVG))
	require.Contains(t, b.String(), ">≈ 41.0 s<")
	golden.Equal(t, "planmap-known.svg", b.Bytes())
	require.NotContains(t, mapOf(t, somePlans()[:12], nil), "≈", "every plan was simulated, or does not fit")
	_, err = figures.PlanMap("plans", somePlans()[:1], nil, nil)
	require.ErrorAs(t, err, new(figures.Nothing))
	for want, dimensions := range map[string][]string{
		`unknown dimension "tensors"`: {"tensors", "stages"}, "stages,stages: a map needs two": {"stages", "stages"}, "zero: a map needs two": {"zero"},
	} {
		_, err = figures.PlanMap("plans", somePlans(), nil, dimensions)
		require.ErrorContains(t, err, want)
	}
}

// mapOf returns a map of plans over tensor and stages, as SVG.
func mapOf(t *testing.T, points []rankings.PlanPoint, known []rankings.PlanSquare) string {
	draw, err := figures.PlanMap("plans", points, known, []string{"tensor", "stages"})
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, draw(&b, picture.SVG))
	return b.String()
}

// Only squares in which no plan fits are hatched; of others without a step there is a bound. A step that
// another plan of its square may beat is marked, and the legend says both.
func TestPlanMapSigns(t *testing.T) {
	for name, x := range map[string]struct {
		plan rankings.PlanPoint
		text string
		only string
	}{
		"slower":  {somePlan(2, 2, rankings.Slower), ">≥ 30.0 s<", "≥ a bound"},
		"unfit":   {somePlan(2, 2, "parameters do not fit"), "", "does not fit in memory"},
		"shorter": {somePlan(1, 1, rankings.Slower), ">≈ 40.0 s<", "another may be faster"},
	} {
		simulated := somePlan(1, 1, "")
		simulated.Simulated, simulated.Fits, simulated.StepTime = true, true, 40*time.Second
		other := somePlan(2, 3, "")
		other.Simulated, other.Fits, other.StepTime = true, true, 50*time.Second
		svg := mapOf(t, []rankings.PlanPoint{simulated, other, x.plan}, nil)
		require.Contains(t, svg, x.text, name)
		for _, text := range []string{"≥ a bound", "does not fit in memory", "another may be faster"} {
			require.Equal(t, text == x.only, strings.Contains(svg, text), "%s: %s", name, text)
		}
		require.NotContains(t, svg, "the best over all")
		require.Equal(t, name == "unfit", strings.Contains(svg, "stroke:#727272"), "%s: hatched", name)
	}
}

// somePlan is a plan that was not simulated, for a reason or because it was not reached.
func somePlan(tensor, stages int, pruned string) rankings.PlanPoint {
	return rankings.PlanPoint{
		Plan:  rankings.PlanShape{Tensor: tensor, Stages: stages, Data: 1, Micro: 1, Microbatches: 8, Schedule: "1f1b"},
		Bound: 30 * time.Second, Pruned: pruned,
	}
}
