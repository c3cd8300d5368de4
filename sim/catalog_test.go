package sim_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/internal/ordertest"
	"psim/schedules"
	"psim/schedules/collective"
	"psim/schedules/graph"
)

func TestFormula(t *testing.T) {
	values := map[string]float64{"P": 4, "M": 8, "V": 2, "F": 3, "F&B": 7}
	for text, want := range map[string]float64{
		"(P-1)/(MV+P-1)": 3. / 19, "P/2M": 0.25, "P/2-1": 1, "2⌊(P+3)/2⌋": 6, "min(M, 2P-3)": 5,
		"max(0, (P-M)F)/2": 0, "1-M/2P": 0, "2(F&B+F)": 20, "7": 7,
	} {
		got, err := evaluate(text, values)
		require.NoError(t, err)
		require.InDelta(t, want, got, 1e-12, text)
	}
	for _, text := range []string{"", "P+", "(P", "Q", "min(P)", "P)", "W"} {
		_, err := evaluate(text, values)
		require.Error(t, err, text)
	}
	for text, want := range map[string]bool{"M>=2P": true, "M>2P": false, "P|M": true, "M|P": false, "P=M-P=4": true, "F=P": false} {
		got, err := holds(text, values)
		require.NoError(t, err)
		require.Equal(t, want, got, text)
	}
	_, err := holds("M even", values)
	require.Error(t, err)
	q := newClaim("min(Q, 9), Q=min(M, P), and more")
	q.check(t, "definition", map[string]float64{"P": 4, "M": 8}, 4)
	require.Equal(t, 1, q.compared)
	value, conditions := clauses("max(0, P)/T of span, F=I=W, M>=P")
	require.Equal(t, "max(0, P)/T of span", value)
	require.Equal(t, []string{"F=I=W", "M>=P"}, conditions)
}

// catalogCosts are times with W no longer than the others, which the formulas of
// the catalog are for.
var catalogCosts = []formCosts{{f: 1, i: 1, w: 1}, {f: 2, i: 2, w: 2}, {f: 2, i: 1, w: 1}, {f: 3, i: 4, w: 3}, {f: 2, i: 7, w: 1}, {f: 5, i: 6, w: 4}}

// Every formula of the catalog, read as it is printed, is what simulating gives,
// wherever its own conditions hold. "At most" is reached for some shape; "about" is
// read and no more, and so is -.
func TestFormulasOfTheCatalog(t *testing.T) {
	for _, s := range schedules.Catalog() {
		t.Run(s.Name, func(t *testing.T) {
			bubble, memory := newClaim(s.Bubble), newClaim(s.Memory)
			for _, shape := range servedShapes(s) {
				g := buildShape(t, s.Name, shape)
				for _, k := range catalogCosts {
					trace := run(t, g, halves(k.f, k.i, k.w, 0))
					at := fmt.Sprintf("%s %+v %v", s.Name, shape, k)
					summary := graph.Summarize(trace)
					values := formulaValues(shape, k)
					bubble.checkBubble(t, at, values, summary, longestSpan(trace))
					for r, rank := range summary.Ranks {
						values["r"] = float64(r)
						memory.check(t, at, values, float64(rank.PeakInFlight))
					}
				}
			}
			for _, c := range []*claim{bubble, memory} {
				if c.kind != loosely {
					require.Greater(t, c.compared, 20, c.text)
					require.True(t, c.reached, "%s is never reached", c.text)
				}
			}
		})
	}
}

// The formulas of the collectives too are what simulating gives, where a step takes
// one unit of time.
func TestFormulasOfTheCollectives(t *testing.T) {
	const length = 840 // which every number of ranks divides
	for _, c := range collective.Collectives() {
		steps, sent := newClaim(c.Steps), newClaim(c.Sent)
		legal := 0
		for n := 1; n <= 8; n++ {
			g, err := collective.Call{Collective: c.Name, Ranks: n, Length: length}.Graph()
			if err != nil {
				require.Equal(t, c.Legal(n), err)
				continue
			}
			legal++
			require.Equal(t, int(c.Tasks(n)), g.Len())
			trace := run(t, g, graph.Costs{Task: func(task *graph.Task) graph.Cost {
				if task.Kind == graph.Send {
					return graph.Cost{Busy: 1}
				}
				return graph.Cost{}
			}})
			values := map[string]float64{"N": float64(n), "S": length}
			steps.check(t, fmt.Sprintf("%s over %d ranks", c.Name, n), values, float64(trace.End()))
			for r, rank := range graph.Summarize(trace).Ranks {
				values["r"] = float64(r)
				sent.check(t, fmt.Sprintf("%s over %d ranks", c.Name, n), values, float64(rank.SentBytes))
			}
		}
		require.Equal(t, legal, steps.compared, c.Steps)
		require.Greater(t, sent.compared, 10, c.Sent)
	}
}

// servedShapes are small shapes that a schedule serves.
func servedShapes(s schedules.Schedule) []graph.Shape { return ordertest.Served(s, 8, 24, 4) }

// formulaValues are what the names in a formula stand for.
func formulaValues(shape graph.Shape, k formCosts) map[string]float64 {
	p, m := shape.Ranks, shape.Microbatches
	return map[string]float64{
		"P": float64(p), "M": float64(m), "V": float64(shape.Virtual), "R": float64(m / max(1, m/p)),
		"F": float64(k.f), "I": float64(k.i), "W": float64(k.w), "B": float64(k.i + k.w), "F&B": float64(k.f + k.i + k.w),
	}
}

func known(values map[string]float64, name string) bool {
	_, ok := values[name]
	return ok
}

// A claim is a formula of the catalog, and how often it was compared.
type claim struct {
	text, value string // value is the text without its conditions
	conditions  []string
	kind        int
	compared    int
	reached     bool
}

const (
	exactly = iota
	atMost
	loosely
)

func newClaim(text string) *claim {
	c := &claim{text: text}
	c.value, c.conditions = clauses(text)
	for prefix, kind := range map[string]int{"at most ": atMost, "about ": loosely, "-": loosely} {
		if rest, ok := strings.CutPrefix(c.value, prefix); ok {
			c.value, c.kind = rest, kind
		}
	}
	return c
}

// checkBubble compares the bubble of a trace: of the makespan, of the longest
// span, or the idle time of rank 0.
func (c *claim) checkBubble(t *testing.T, at string, values map[string]float64, s graph.Summary, span time.Duration) {
	part, got := *c, s.Bubble.Makespan
	values["T"] = float64(s.Makespan)
	if value, ok := strings.CutSuffix(c.value, " of span"); ok {
		part.value, got = value, s.Bubble.Span
		values["T"] = float64(span)
	} else if value, ok := strings.CutSuffix(c.value, " of rank 0"); ok {
		part.value, got = value, float64(s.Ranks[0].Idle)
	}
	part.check(t, at, values, got)
	c.compared, c.reached = part.compared, part.reached
}

// check compares one value, if the conditions hold. A condition may give a letter
// of its own a meaning, as Q=min(M, P), and one that begins with "and" is a remark.
func (c *claim) check(t *testing.T, at string, values map[string]float64, got float64) {
	for _, condition := range c.conditions {
		if strings.HasPrefix(condition, "and ") {
			continue
		}
		if name, meaning, ok := strings.Cut(condition, "="); ok && len(name) == 1 && !known(values, name) {
			value, err := evaluate(meaning, values)
			require.NoError(t, err)
			values[name] = value
		}
		ok, err := holds(condition, values)
		require.NoError(t, err)
		if !ok {
			return
		}
	}
	if c.value == "" {
		return
	}
	want, err := evaluate(c.value, values)
	require.NoError(t, err)
	const rounding = 1e-12
	c.compared++
	c.reached = c.reached || got > want-rounding
	switch c.kind {
	case exactly:
		require.InDelta(t, want, got, rounding, "%s: %s", at, c.text)
	case atMost:
		require.LessOrEqual(t, got, want+rounding, "%s: %s", at, c.text)
	}
}
