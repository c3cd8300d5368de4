package picture

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot/vg"

	"psim/reports/chart"
	"psim/schedules/graph"
)

// A task that is narrower than most is labelled in a smaller size, not left out: in a pipeline of
// unequal stages these are the forwards of the last rank. Tasks that differ by a pixel are
// labelled alike.
func TestNarrowTasksAreLabelled(t *testing.T) {
	wide := chart.Text(10).Width("0")
	l := labelling{size: 10, width: wide}
	require.EqualValues(t, 10, l.sizeIn(wide+1, "0"))
	require.EqualValues(t, 10, l.sizeIn(wide+1-chart.Pixel, "0"))
	require.EqualValues(t, 10, l.sizeIn(100, "0"))
	before := l.size
	for width := wide + 1; width > 1; width -= 0.1 {
		size := l.sizeIn(width, "0")
		require.LessOrEqual(t, size, before)
		if before = size; size > 0 {
			require.LessOrEqual(t, chart.Text(size).Width("0"), width)
		} else {
			require.Less(t, width, chart.Text(6).Width("0")+1)
		}
	}
	require.Zero(t, before, "no room for the smallest")
	require.Zero(t, labelling{}.sizeIn(vg.Length(100), "0"), "a lane without labels")
}

// Panels of one picture are labelled alike: where one has no room for the stage, which tones
// distinguish, the others leave it out, too.
func TestPanelsAreLabelledAlike(t *testing.T) {
	g := wired(t, "looped-bfs", 2)
	of := func(g *graph.Graph, unit time.Duration) Panel { // tasks of a rank one after the other
		trace := &graph.Trace{Graph: g}
		var now [2]time.Duration
		for i := range int32(g.Len()) {
			task := g.Task(i)
			start := now[task.Rank]
			if task.Kind.Compute() {
				now[task.Rank] += unit
			}
			trace.Spans = append(trace.Spans, graph.Span{Start: start, End: now[task.Rank]})
		}
		return Panel{Trace: trace}
	}
	panel := func(unit time.Duration) Panel { return of(g, unit) }
	named := func(panels ...Panel) (stages []bool) {
		_, l, err := newTimeline("", panels)
		require.NoError(t, err)
		for _, p := range l.panels {
			require.NotZero(t, p.label[workLane].size)
			stages = append(stages, p.label[workLane].stages)
		}
		return stages
	}
	require.Equal(t, []bool{true}, named(panel(time.Second)))
	require.Equal(t, []bool{true, true}, named(panel(time.Second), panel(time.Second)))
	require.Equal(t, []bool{false, false}, named(panel(time.Second), panel(time.Second/2)))
	// Five stages of a rank have no tones of their own, so that all labels name the stage: 0F0 is not
	// next to 0.
	require.Equal(t, []bool{false}, named(of(wired(t, "gpipe", 1), time.Second)))
	require.Equal(t, []bool{true, true}, named(of(wired(t, "gpipe", 1), time.Second), of(wired(t, "looped-bfs", 5), time.Second)))
}
