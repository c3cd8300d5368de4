package questions

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel"
)

// off has the smallest error that must be noticed, by unit.
var off = map[string]float64{"bytes": 1, "GB": 1e-9, "s": 1e-9, "fraction": 2e-12}

func TestAWrongClosedFormIsNotOK(t *testing.T) {
	for _, q := range formulas() {
		right := q.closedForm
		q.closedForm = func(v values) float64 { return right(v) + off[q.Unit] }
		a, err := q.answer()
		require.NoError(t, err)
		require.False(t, a.OK, q.ID)
		for i := range q.cases {
			require.False(t, a.Checks[i].OK, "%s, %s", q.ID, a.Checks[i].What)
		}
	}
}

func TestAClosedFormThatIsRightInTheSampleAloneIsNotOK(t *testing.T) {
	for _, q := range formulas() {
		at := q.closedForm(q.sample())
		q.closedForm = func(values) float64 { return at }
		a, err := q.answer()
		require.NoError(t, err)
		require.Equal(t, a.ClosedForm, at)
		require.False(t, a.OK, q.ID)
	}
}

func TestAWrongSimulationIsNotOK(t *testing.T) {
	for _, q := range formulas() {
		right := q.read
		q.read = func(r run) float64 { return right(r) - off[q.Unit] }
		a, err := q.answer()
		require.NoError(t, err)
		require.False(t, a.OK, q.ID)
	}
}

func TestOneWrongCheckIsEnough(t *testing.T) {
	for _, q := range formulas() {
		wrong := further{Checks: []comparison{{What: "one more", Formula: "1", Read: "2", Unit: "s"}}}
		q.Further = append(slices.Clone(q.Further), wrong)
		a, err := q.answer()
		require.NoError(t, err)
		require.False(t, a.OK, q.ID)
		agreeing, all := a.agreeing()
		require.Equal(t, all-1, agreeing, q.ID)
		require.Equal(t, Sheet{Questions: []QuestionAnswer{a}, Failed: 1}, NewSheet([]QuestionAnswer{a}))
	}
}

func TestAGridWithOneWrongPipelineIsNotOK(t *testing.T) {
	for _, id := range []string{"2.3a", "2.3b", "4.3", "4.4"} {
		for _, q := range formulas() {
			if q.ID != id {
				continue
			}
			right := q.closedForm
			q.closedForm = func(v values) float64 {
				if v["P"] == 5 && v["B"] == 64 && v["L"] == 10 && v["M"] == 2 || v["K"] == 5 && v["M"] == 7 && v["tb"] == 3 {
					return right(v) + off[q.Unit]
				}
				return right(v)
			}
			a, err := q.answer()
			require.NoError(t, err)
			require.False(t, a.OK, id)
			agreeing, all := a.agreeing()
			require.Equal(t, all-1, agreeing, id)
			var text, markdown strings.Builder
			require.NoError(t, NewSheet([]QuestionAnswer{a}).WriteText(&text, true))
			require.NoError(t, NewSheet([]QuestionAnswer{a}).WriteMarkdown(&markdown))
			require.Regexp(t, `NO: .*: \d+ of \d+ cases agree\n`, text.String())
			require.Regexp(t, `: \d+ of \d+ cases agree\.\n`, markdown.String())
		}
	}
}

func TestAgree(t *testing.T) {
	require.True(t, agree(640, 640, "GB", 0))
	require.False(t, agree(640, math.Nextafter(640, 0), "GB", 0))
	require.True(t, agree(0.5, 0.5+9e-13, "fraction", 0))
	require.False(t, agree(0.5, 0.5+2e-12, "fraction", 0))
	for _, unit := range []string{"s", "fraction"} {
		require.False(t, agree(math.NaN(), math.NaN(), unit, 1))
		require.False(t, agree(math.Inf(1), math.Inf(1), unit, 1))
	}
}

func TestASimulationThatCannotRunIsAnError(t *testing.T) {
	one := values{"K": 1, "M": 1}
	_, err := (&setup{Schedule: "no such"}).run(one)
	require.ErrorContains(t, err, "no such")
	_, err = (&setup{Schedule: "gpipe", times: &costmodel.Times{}}).run(one)
	require.ErrorContains(t, err, "forward")
	_, err = (&setup{Kind: "ring"}).run(values{"W": 0})
	require.ErrorContains(t, err, "ranks = 0")
	_, err = (&setup{Kind: "cut", Schedule: "gpipe"}).run(values{"P": 3, "L": 2, "B": 1, "M": 1})
	require.Error(t, err, "more partitions than layers")
	for _, q := range formulas() {
		q.run = func(values) (run, error) { return run{}, errors.New("cannot run") }
		_, err := q.answer()
		require.EqualError(t, err, "cannot run", q.ID)
	}
}
