package search

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// needSolver skips a test where the solver is missing.
func needSolver(t *testing.T) {
	if _, err := exec.LookPath(Solver); err != nil {
		t.Skip(ErrNoSolver)
	}
}

// The solver proves what trying all orders says.
func TestExactAgainstAllOrders(t *testing.T) {
	needSolver(t)
	for _, a := range []alike{
		unit(2, 3, 2), unit(3, 2, 2), unit(3, 3, 3),
		{p: 2, m: 3, f: 5, i: 4, w: 2, c: 1, whole: 3, late: 1, limit: 4},
		{p: 2, m: 3, f: 2, i: 7, w: 9, c: 3, whole: 3, late: 3, limit: 6},
		{p: 2, m: 3, f: 4, i: 6, w: 2, whole: 2, late: 1, limit: 3},
		{p: 3, m: 2, f: 3, i: 3, w: 6, c: 1, whole: 2, late: 1},
	} {
		in := a.problem()
		q, err := in.prepare()
		require.NoError(t, err)
		// From the worst order, so that the solver has something to do.
		worst := Solution{Order: q.order(q.sequential()), Span: time.Duration(newEvaluator(q).run(q.sequential()).span)}
		m := newModel(q, worst)
		program, _ := exec.LookPath(Solver)
		answer, err := m.solve(context.Background(), program, time.Minute)
		require.NoError(t, err)
		got := m.betterOf(worst, answer)
		require.Equal(t, optimum(q).span, int64(got.Span), "%+v", a)
		require.Equal(t, got.Span, got.LowerBound, "%+v", a)
		checkResult(t, in, got)
	}
}

// A problem of a size that cannot be tried out, which the heuristic leaves open.
func TestExactCloses(t *testing.T) {
	needSolver(t)
	in := alike{p: 3, m: 5, f: 5, i: 4, w: 2, c: 1, whole: 1, late: 1, limit: 4}.problem()
	found := find(t, in)
	require.Greater(t, found.Span, found.LowerBound, "choose a harder problem")
	proven, err := Exact(context.Background(), in, time.Minute)
	require.NoError(t, err)
	require.LessOrEqual(t, proven.Span, found.Span)
	require.Equal(t, proven.Span, proven.LowerBound)
	checkResult(t, in, proven)
}

// Even a solver that is stopped at once leaves a legal order.
func TestExactStopped(t *testing.T) {
	needSolver(t)
	in := alike{p: 4, m: 12, f: 19, i: 17, w: 9, c: 1, whole: 3, late: 1, limit: 15}.problem()
	r, err := Exact(context.Background(), in, time.Second)
	require.NoError(t, err)
	checkResult(t, in, r)
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	_, err = Exact(ctx, in, time.Minute)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestExactWithoutSolver(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Exact(context.Background(), alike{p: 3, m: 5, f: 5, i: 4, w: 2, c: 1, whole: 1, late: 1, limit: 4}.problem(), time.Second)
	require.ErrorIs(t, err, ErrNoSolver)
	proven, err := Exact(context.Background(), unit(2, 4, 2).problem(), time.Second)
	require.NoError(t, err, "what the bound proves needs no solver")
	require.Equal(t, proven.Span, proven.LowerBound)
}

func TestReadAnswer(t *testing.T) {
	a, err := readAnswer("Optimal - objective value 12.00000000\n      0 S  12  0\n      3 y0_10_0_1   1   0\n", "")
	require.NoError(t, err)
	require.Equal(t, solverAnswer{map[string]float64{"S": 12, "y0_10_0_1": 1}, 12}, a)
	a, err = readAnswer("Stopped on time - objective value 13.00000000\n      0 S  13  0\n", "x\nLower bound:                    11.250\n")
	require.NoError(t, err)
	require.Equal(t, 11.25, a.bound)
	a, err = readAnswer("Stopped on time (no integer solution - continuous used) - objective value 9\n 0 S 9 0\n", "")
	require.NoError(t, err)
	require.Empty(t, a.values)
	for _, text := range []string{"Infeasible - objective value 0\n", "Optimal\n", "", "Optimal - objective value 1\n 0 S x 0\n"} {
		_, err = readAnswer(text, "")
		require.Error(t, err, text)
	}
}

// Every sequence can be spelled from the choices that it makes.
func TestSpell(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawAlike(t, 4, 6).problem()
		q, err := in.prepare()
		require.NoError(t, err)
		m := newModel(q, find(t, in))
		values := map[string]float64{"S": 1}
		for r, seq := range m.foundOrder {
			at := map[task]int{}
			var done [3]int
			for i, k := range seq {
				at[task{k, r, done[k]}] = i
				done[k]++
			}
			m.eachChoiceOf(r, func(name string, a, b task) {
				if at[a] < at[b] {
					values[name] = 1
				}
			})
		}
		require.Equal(t, m.foundOrder, m.readSequences(values))
	})
}

// Whatever a solver writes and says, it is refused or leaves a legal order, no worse
// than what was found and no better than its bound.
func FuzzReadAnswer(f *testing.F) {
	in := alike{p: 3, m: 3, f: 5, i: 4, w: 2, c: 1, whole: 1, late: 1, limit: 4}.problem()
	q, err := in.prepare()
	if err != nil {
		f.Fatal(err)
	}
	found, err := Find(context.Background(), in)
	if err != nil {
		f.Fatal(err)
	}
	var choices strings.Builder
	newModel(q, found).eachChoice(func(name string, _, _ task) { fmt.Fprintf(&choices, "   3 %s  1  0\n", name) })
	f.Add("Optimal - objective value 12.00000000\n      0 S  12  0\n"+choices.String(), "")
	f.Add("Optimal - objective value nan\n", "")
	f.Add("Stopped on time - objective value 13.00000000\n      0 S  13  0\n** 1 y0_10_0_1 NaN 0\n", "x\nLower bound:                    1e300\n")
	f.Add("Stopped on time (no integer solution - continuous used) - objective value 9\n 0 S 9 0\n", "Lower bound:  -inf")
	f.Fuzz(func(t *testing.T, solution, said string) {
		a, err := readAnswer(solution, said)
		if err != nil {
			return
		}
		got := newModel(q, found).betterOf(found, a)
		checkResult(t, in, got)
		require.LessOrEqual(t, got.Span, found.Span)
		require.GreaterOrEqual(t, got.LowerBound, found.LowerBound)
	})
}
