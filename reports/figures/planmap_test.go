package figures_test

import (
	"bytes"
	"io"
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
	_, err = figures.PlanMap("plans", somePlans()[:1], nil, nil)
	require.ErrorAs(t, err, new(figures.Nothing))
	for want, dimensions := range map[string][]string{
		`unknown dimension "tensors"`: {"tensors", "stages"}, "stages,stages: a map needs two": {"stages", "stages"}, "zero: a map needs two": {"zero"},
	} {
		_, err = figures.PlanMap("plans", somePlans(), nil, dimensions)
		require.ErrorContains(t, err, want)
	}
}
