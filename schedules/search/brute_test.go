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

// optimum is the best score over all sequences under the problem's limit.
func optimum(q *problem) score {
	choices := make([][]sequence, q.p)
	for r := range choices {
		choices[r] = q.allSequences(r)
	}
	e, best := newEvaluator(q), impossible
	seqs := make(sequences, q.p)
	var try func(r int)
	try = func(r int) {
		if r == q.p {
			if got := e.run(seqs); got.betterThan(best) {
				best = got
			}
			return
		}
		for _, seq := range choices[r] {
			seqs[r] = seq
			try(r + 1)
		}
	}
	try(0)
	return best
}

// allSequences lists the legal sequences of a rank.
func (q *problem) allSequences(r int) []sequence {
	var list []sequence
	var extend func(seq sequence, done [operations]int)
	extend = func(seq sequence, done [operations]int) {
		if len(seq) == 3*q.lanes*q.m {
			if q.legal(r, seq, q.limit[r]) {
				list = append(list, append(sequence(nil), seq...))
			}
			return
		}
		for o := range op(3 * q.lanes) {
			if done[o] == q.m || o.kind() != opF && done[o] == done[o-1] {
				continue
			}
			next := done
			next[o]++
			extend(append(seq, o), next)
		}
	}
	extend(nil, [operations]int{})
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
		require.LessOrEqual(t, q.lowerBound(), int64(span))
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
		seqs := drawSequences(t, q)
		got := newEvaluator(q).run(seqs)
		span, makespan, _, err := simulate(in, q.order(seqs))
		if err != nil {
			require.Equal(t, impossible, got)
			return
		}
		ran++
		require.Equal(t, int64(span), got.span)
		require.Equal(t, int64(makespan), got.makespan)
		require.Equal(t, got, newEvaluator(q).runWithin(seqs, got.span))
		if got.span > 0 {
			require.Equal(t, impossible, newEvaluator(q).runWithin(seqs, got.span-1))
		}
		require.LessOrEqual(t, q.lowerBound(), got.span)
	})
	require.Positive(t, ran)
}

// drawSequences draws an order in which no rank puts a pass before the one of its own
// that it needs.
func drawSequences(t *rapid.T, q *problem) sequences {
	seqs := make(sequences, q.p)
	for r := range seqs {
		var done [operations]int
		for len(seqs[r]) < 3*q.lanes*q.m {
			o := op(rapid.Uint8Range(0, uint8(3*q.lanes-1)).Draw(t, "operation"))
			if done[o] < q.m && (o.kind() == opF || done[o] < done[o-1]) {
				seqs[r] = append(seqs[r], o)
				done[o]++
			}
		}
	}
	return seqs
}

func TestEvaluatorDeadlock(t *testing.T) {
	q, err := unit(2, 2, 0).problem().prepare()
	require.NoError(t, err)
	seqs := sequences{{opF, opI, opW, opF, opI, opW}, {opF, opF, opI, opW, opI, opW}}
	require.Equal(t, impossible, newEvaluator(q).run(seqs))
	_, _, _, err = simulate(unit(2, 2, 0).problem(), q.order(seqs))
	require.ErrorAs(t, err, new(*sim.DeadlockError))
}
