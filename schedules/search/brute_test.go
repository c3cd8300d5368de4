package search

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/schedules/graph"
	"psim/schedules/order"
	"psim/sim"
)

// optimum is the best score over all words under the problem's limit.
func optimum(q *problem) score {
	choices := make([][][]byte, q.p)
	for r := range choices {
		choices[r] = q.allWords(r)
	}
	e, best := newEvaluator(q), impossible
	w := make(words, q.p)
	var try func(r int)
	try = func(r int) {
		if r == q.p {
			if got := e.run(w); got.better(best) {
				best = got
			}
			return
		}
		for _, word := range choices[r] {
			w[r] = word
			try(r + 1)
		}
	}
	try(0)
	return best
}

// allWords lists the legal words of a rank.
func (q *problem) allWords(r int) [][]byte {
	var list [][]byte
	var extend func(word []byte, done [letters]int)
	extend = func(word []byte, done [letters]int) {
		if len(word) == 3*q.lanes*q.m {
			if q.legal(r, word, q.limit[r]) {
				list = append(list, append([]byte(nil), word...))
			}
			return
		}
		for l := range byte(3 * q.lanes) {
			if done[l] == q.m || kindOf[l] != letterF && done[l] == done[l-1] {
				continue
			}
			next := done
			next[l]++
			extend(append(word, l), next)
		}
	}
	extend(nil, [letters]int{})
	return list
}

// No order is below the bound, and the search finds the best one of tiny
// problems nearly always; at most a quarter above otherwise.
func TestAgainstAllOrders(t *testing.T) {
	all, best := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		a := drawAlike(t, 2, 3)
		if rapid.Bool().Draw(t, "three ranks") {
			a.p, a.m = 3, min(a.m, 2)
		}
		in := a.problem()
		q, err := in.prepare()
		require.NoError(t, err)
		want, got := optimum(q), find(t, in)
		require.LessOrEqual(t, int64(got.LowerBound), want.span)
		require.GreaterOrEqual(t, int64(got.Span), want.span)
		require.LessOrEqual(t, 4*int64(got.Span), 5*want.span)
		all++
		if int64(got.Span) == want.span {
			best++
		}
	})
	t.Logf("%d of %d optimal", best, all)
	require.Greater(t, 100*best, 90*all)
}

func TestThreeByThree(t *testing.T) {
	for _, a := range []alike{
		unit(3, 3, 3), unit(3, 3, 2), unit(3, 3, 0),
		{p: 3, m: 3, f: 5, i: 4, w: 2, c: 1, whole: 3, late: 1, limit: 7},
	} {
		q, err := a.problem().prepare()
		require.NoError(t, err)
		want, got := optimum(q), find(t, a.problem())
		require.LessOrEqual(t, int64(got.LowerBound), want.span)
		require.Equal(t, want.span, int64(got.Span), "%+v", a)
	}
}

// The bound holds for orders out of turn as well: two microbatches on two ranks,
// their passes mixed in any way, stages and microbatches all different.
func TestBoundOutOfTurn(t *testing.T) {
	ran := 0
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SliceOfN(rapid.IntRange(0, 9), 12, 12).Draw(t, "times")
		in := Problem{Ranks: 2, Microbatches: 2, Latency: []time.Duration{2}, Step: func(a order.Action) graph.Cost {
			return graph.Cost{Busy: time.Duration(times[4*slices.Index(passes[:], a.Kind)+int(2*a.Stage+a.Microbatch)])}
		}}
		q, err := in.prepare()
		require.NoError(t, err)
		o := order.Order{mixed(t, 0), mixed(t, 1)}
		span, _, _, err := simulate(in, o)
		if err != nil { // the two wait for each other
			return
		}
		ran++
		require.LessOrEqual(t, q.bound(), int64(span))
	})
	require.Positive(t, ran)
}

// mixed draws an order of two microbatches on a rank.
func mixed(t *rapid.T, stage int32) []order.Action {
	var actions []order.Action
	var done [2]int
	for len(actions) < 6 {
		m := rapid.IntRange(0, 1).Draw(t, "microbatch")
		if done[m] == 3 {
			m = 1 - m
		}
		actions = append(actions, order.Action{Kind: passes[done[m]], Stage: stage, Microbatch: int32(m)})
		done[m]++
	}
	return actions
}

// The evaluator computes what the engine does, deadlocks included; and it stops
// only where a span is too long.
func TestEvaluator(t *testing.T) {
	ran := 0
	rapid.Check(t, func(t *rapid.T) {
		in := drawUnlike(t, rapid.Bool().Draw(t, "folded"))
		in.Limit = nil
		q, err := in.prepare()
		require.NoError(t, err)
		w := drawWords(t, q)
		got := newEvaluator(q).run(w)
		span, makespan, _, err := simulate(in, q.order(w))
		if err != nil {
			require.Equal(t, impossible, got)
			return
		}
		ran++
		require.Equal(t, int64(span), got.span)
		require.Equal(t, int64(makespan), got.makespan)
		require.Equal(t, got, newEvaluator(q).runWithin(w, got.span))
		if got.span > 0 {
			require.Equal(t, impossible, newEvaluator(q).runWithin(w, got.span-1))
		}
		require.LessOrEqual(t, q.lowerBound(), got.span)
	})
	require.Positive(t, ran)
}

// drawWords draws an order in which no rank puts a pass before the one of its own
// that it needs.
func drawWords(t *rapid.T, q *problem) words {
	w := make(words, q.p)
	for r := range w {
		var done [letters]int
		for len(w[r]) < 3*q.lanes*q.m {
			l := rapid.Uint8Range(0, uint8(3*q.lanes-1)).Draw(t, "letter")
			if done[l] < q.m && (kindOf[l] == letterF || done[l] < done[l-1]) {
				w[r] = append(w[r], l)
				done[l]++
			}
		}
	}
	return w
}

func TestEvaluatorDeadlock(t *testing.T) {
	q, err := unit(2, 2, 0).problem().prepare()
	require.NoError(t, err)
	w := words{{letterF, letterI, letterW, letterF, letterI, letterW}, {letterF, letterF, letterI, letterW, letterI, letterW}}
	require.Equal(t, impossible, newEvaluator(q).run(w))
	_, _, _, err = simulate(unit(2, 2, 0).problem(), q.order(w))
	require.ErrorAs(t, err, new(*sim.DeadlockError))
}
