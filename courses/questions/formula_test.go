package questions

import (
	"fmt"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/costmodel"
)

// oracle computes a formula as it is printed, by the type checker.
func oracle(t *testing.T, formula string, v values) float64 {
	t.Helper()
	text := symbol.ReplaceAllStringFunc(formula, func(name string) string {
		require.Contains(t, v, name, formula)
		return fmt.Sprintf("%d.0", v[name])
	})
	result, err := types.Eval(token.NewFileSet(), nil, token.NoPos, text)
	require.NoError(t, err, text)
	x, _ := constant.Float64Val(result.Value)
	return x
}

func TestPrintedFormulasGiveThePrintedNumbers(t *testing.T) {
	for _, q := range formulas() {
		for _, changes := range append([]values{nil}, q.cases...) {
			v := q.sample().with(changes)
			require.Equal(t, oracle(t, q.Formula, v), q.closedForm(v), "%s, %v", q.ID, changes)
		}
		for _, r := range q.readings {
			if r.Formula != "" {
				require.Equal(t, oracle(t, r.Formula, q.sample()), evaluate(r.Formula, q.sample().lookup), "%s, %s", q.ID, r.Reading)
			}
		}
		for _, s := range q.steps {
			require.Equal(t, oracle(t, s.Formula, q.sample()), evaluate(s.Formula, q.sample().lookup), "%s, %s", q.ID, s.Step)
		}
		require.Equal(t, q.Formula, q.steps[len(q.steps)-1].Formula, "what is derived")
		require.Equal(t, q.Unit, q.steps[len(q.steps)-1].Unit)
	}
}

func TestSubstitute(t *testing.T) {
	v := values{"P": 10e9, "Sp": 16, "W": 8, "e": 5}
	require.Equal(t, "10e9 * (16 + K*So/8) / 1e9", substitute("P * (Sp + K*So/W) / 1e9", v))
}

// unequal lists the comparisons of 4.4 on unequal stages: of gpipe and of 1f1b.
func unequal() (q question, list []further) {
	for _, q = range formulas() {
		if q.ID == "4.4" {
			list = slices.DeleteFunc(slices.Clone(q.Further), func(f further) bool { return f.Orders == nil })
			return q, list
		}
	}
	panic("no question 4.4")
}

func TestLongestPathOfTheCourseByHand(t *testing.T) {
	const ms = time.Millisecond
	_, list := unequal()
	want := []time.Duration{
		1580*ms + 3130*ms + 2920*ms + 490*ms + 2530*ms + 12580*ms + 13070*ms + 7410*ms,
		1580*ms + 3130*ms + 580*ms + 2530*ms + 12580*ms + 13070*ms + 7410*ms,
	}
	require.Len(t, list, len(want))
	for i, f := range list {
		require.Equal(t, want[i], walk{f.Orders, f.Forward, f.Backward}.longest())
	}
}

func TestLongestPathIsWhatIsSimulatedForAnyTimes(t *testing.T) {
	q, list := unequal()
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) (times costmodel.TimeTable) {
			var rows []any
			for range 3 {
				row := rapid.SliceOfN(rapid.Int64Range(1, 20), 2, 2).Draw(t, name)
				rows = append(rows, []any{fmt.Sprintf("%dms", row[0]), fmt.Sprintf("%dms", row[1])})
			}
			require.NoError(t, times.UnmarshalTOML(rows))
			return times
		}
		forward, backward := draw("forward"), draw("backward")
		for _, f := range list {
			f.Forward, f.Backward = forward, backward
			checks, err := f.checks(q, run{})
			require.NoError(t, err)
			require.Len(t, checks, 1)
			require.True(t, checks[0].OK, "%+v", checks[0])
		}
	})
}

func TestFigure(t *testing.T) {
	cases := []struct {
		x                        float64
		unit                     string
		figure, readable, digits string
	}{
		{640, "GB", "640 GB", "640 GB", "640 GB"},
		{37.5e9, "bytes", "37.5 GB", "37,500,000,000 bytes", "37,500,000,000 bytes"},
		{1, "bytes", "1 B", "1 byte", "1 byte"},
		{596.0464477539062, "GiB", "596.0 GiB", "596.046 GiB", "596.0464477539062 GiB"},
		{2.8, "s", "2.80 s", "2.8 s", "2.8 s"},
		{2.60770320892334, "s", "2.61 s", "2.6077 s", "2.60770320892334 s"},
		{43.71, "s", "43.71 s", "43.71 s", "43.71 s"},
		{0, "s", "0 s", "0 s", "0 s"},
		{1, "s", "1.00 s", "1 s", "1 s"},
		{432_432_000, "s", "432 million s", "432,432,000 s", "432,432,000 s"},
		{3. / 11, "fraction", "27.3 %", "0.2727", "0.2727272727272727"},
		{0.19999999999999996, "fraction", "20.0 %", "0.2", "0.19999999999999996"},
		{12, "slots", "12 slots", "12 slots", "12 slots"},
		{1, "microbatches", "1 microbatch", "1 microbatch", "1 microbatch"},
	}
	for _, c := range cases {
		require.Equal(t, c.figure, figure(c.x, c.unit))
		require.Equal(t, c.readable, readable(c.x, c.unit))
		require.Equal(t, c.digits, exact(c.x, c.unit))
	}
	require.Equal(t, "37,500,000,000 bytes (37.5 GB)", both(37.5e9, "bytes"))
	require.Equal(t, "0.2727 (27.3 %)", both(3./11, "fraction"))
	require.Equal(t, "596.046 GiB", both(596.0464477539062, "GiB"))
}
