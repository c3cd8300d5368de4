package search

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/schedules"
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
	var extend func(word []byte, done [3]int)
	extend = func(word []byte, done [3]int) {
		if len(word) == 3*q.m {
			if q.legal(r, word, q.limit[r]) {
				list = append(list, append([]byte(nil), word...))
			}
			return
		}
		for k := range byte(3) {
			if done[k] == q.m || k > 0 && done[k] == done[k-1] {
				continue
			}
			next := done
			next[k]++
			extend(append(word, k), next)
		}
	}
	extend(nil, [3]int{})
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
		in := Problem{Ranks: 2, Microbatches: 2, Latency: []time.Duration{2}, Step: func(a schedules.Action) schedules.Cost {
			return schedules.Cost{Busy: time.Duration(times[4*slices.Index(passes[:], a.Kind)+int(2*a.Stage+a.Microbatch)])}
		}}
		q, err := in.prepare()
		require.NoError(t, err)
		order := schedules.Order{mixed(t, 0), mixed(t, 1)}
		span, _, _, err := simulate(in, order)
		if err != nil { // the two wait for each other
			return
		}
		ran++
		require.LessOrEqual(t, q.bound(), int64(span))
	})
	require.Greater(t, ran, 20)
}

// mixed draws an order of two microbatches on a rank.
func mixed(t *rapid.T, stage int32) []schedules.Action {
	var actions []schedules.Action
	var done [2]int
	for len(actions) < 6 {
		m := rapid.IntRange(0, 1).Draw(t, "microbatch")
		if done[m] == 3 {
			m = 1 - m
		}
		actions = append(actions, schedules.Action{Kind: passes[done[m]], Stage: stage, Microbatch: int32(m)})
		done[m]++
	}
	return actions
}

// The evaluator computes what the engine does, deadlocks included.
func TestEvaluator(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawUnlike(t)
		in.Limit = nil
		q, err := in.prepare()
		require.NoError(t, err)
		w := make(words, in.Ranks)
		for r := range w {
			var done [3]int
			for len(w[r]) < 3*q.m {
				k := rapid.Uint8Range(0, 2).Draw(t, "letter")
				if done[k] < q.m && (k == 0 || done[k] < done[k-1]) {
					w[r] = append(w[r], k)
					done[k]++
				}
			}
		}
		got := newEvaluator(q).run(w)
		span, makespan, _, err := simulate(in, q.order(w))
		if err != nil {
			require.Equal(t, impossible, got)
			return
		}
		require.Equal(t, int64(span), got.span)
		require.Equal(t, int64(makespan), got.makespan)
	})
}

func TestEvaluatorDeadlock(t *testing.T) {
	q, err := unit(2, 2, 0).problem().prepare()
	require.NoError(t, err)
	w := words{{letterF, letterI, letterW, letterF, letterI, letterW}, {letterF, letterF, letterI, letterW, letterI, letterW}}
	require.Equal(t, impossible, newEvaluator(q).run(w))
	_, _, _, err = simulate(unit(2, 2, 0).problem(), q.order(w))
	require.ErrorAs(t, err, new(*sim.DeadlockError))
}
