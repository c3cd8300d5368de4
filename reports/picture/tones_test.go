package picture

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/reports/chart"
	"psim/schedules"
	"psim/schedules/graph"
)

// wired is the graph of a schedule's example.
func wired(t *testing.T, name string, virtual int) *graph.Graph {
	s, err := schedules.Find(name)
	require.NoError(t, err)
	p, err := s.Pipeline(graph.Shape{Ranks: 2, Virtual: virtual, Microbatches: 4}, nil)
	require.NoError(t, err)
	g, err := p.Graph()
	require.NoError(t, err)
	return g
}

// The first stage of a rank has the full colour, the last the lightest; the
// second direction is light; what holds one stage, or too many, has no tones.
func TestTones(t *testing.T) {
	require.False(t, newTones(wired(t, "1f1b", 1)).distinct())
	require.False(t, newTones(wired(t, "looped-bfs", maxTones+1)).distinct())
	for name, virtual := range map[string]int{"looped-bfs": 3, "zbv": 2, "chimera": 1} {
		g := wired(t, name, virtual)
		tones := newTones(g)
		for i := range int32(g.Len()) {
			task := new(g.Task(i))
			var want float64
			switch {
			case !task.Kind.Compute():
			case name == "chimera":
				want = float64(task.Microbatch / 2)
			case name == "zbv":
				want = float64(task.Stage / 2)
			default:
				want = float64(task.Stage/2) / 2
			}
			require.InDelta(t, want, tones.of(task), 1e-12, "%s %s", name, task)
		}
	}
	single := wired(t, "1f1b", 1)
	require.Zero(t, newTones(single).of(&single.Classes[0]))
}

// Every tone of every kind of work can be told from every other, and from idle
// time: by 24 of 255 in one of red, green and blue.
func TestTonesDiffer(t *testing.T) {
	colors := []([3]uint8){{idleFill >> 16, idleFill >> 8 & 0xff, idleFill & 0xff}}
	for k := graph.Forward; k <= graph.WeightGradient; k++ {
		for i := range maxTones {
			c := lookOf(k).tone(float64(i) / (maxTones - 1))
			colors = append(colors, [3]uint8{c.R, c.G, c.B})
		}
		require.Equal(t, chart.RGB(lookOf(k).color), lookOf(k).tone(0))
		require.Equal(t, chart.RGB(lookOf(k).light), lookOf(k).tone(1))
	}
	for i, a := range colors {
		for _, b := range colors[:i] {
			apart := 0
			for c := range a {
				apart = max(apart, int(a[c])-int(b[c]), int(b[c])-int(a[c]))
			}
			require.GreaterOrEqual(t, apart, 24, "%v %v", a, b)
		}
	}
}
