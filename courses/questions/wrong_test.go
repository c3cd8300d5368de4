package questions

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// off is the least error that has to be noticed, by unit.
var off = map[string]float64{"bytes": 1, "GB": 1e-9, "s": 1e-9, "fraction": 2e-12}

func TestAWrongClosedFormIsNotOK(t *testing.T) {
	for _, q := range formulas() {
		right := q.closedForm
		q.closedForm = func(v values) float64 { return right(v) + off[q.unit] }
		a, err := q.answer()
		require.NoError(t, err)
		require.False(t, a.OK, q.id)
		for i := range q.cases {
			require.False(t, a.Checks[i].OK, "%s, %s", q.id, a.Checks[i].What)
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
		require.False(t, a.OK, q.id)
	}
}

func TestAWrongSimulationIsNotOK(t *testing.T) {
	for _, q := range formulas() {
		right := q.read
		q.read = func(r run) float64 { return right(r) - off[q.unit] }
		a, err := q.answer()
		require.NoError(t, err)
		require.False(t, a.OK, q.id)
	}
}

func TestOneWrongCheckIsEnough(t *testing.T) {
	for _, q := range formulas() {
		right := q.further
		q.further = func(q question, sample run) ([]Check, error) {
			checks, err := right(q, sample)
			return append(checks, check("one more", 1, 2, "s")), err
		}
		a, err := q.answer()
		require.NoError(t, err)
		require.False(t, a.OK, q.id)
		agreeing, all := a.agreeing()
		require.Equal(t, all-1, agreeing, q.id)
		require.Equal(t, Report{Questions: []Answer{a}, Failed: 1}, NewReport([]Answer{a}))
	}
}

func TestAGridWithOneWrongPipelineIsNotOK(t *testing.T) {
	for _, id := range []string{"2.3a", "2.3b", "4.3", "4.4"} {
		for _, q := range formulas() {
			if q.id != id {
				continue
			}
			right := q.closedForm
			q.closedForm = func(v values) float64 {
				if v["P"] == 5 && v["B"] == 64 && v["L"] == 10 && v["M"] == 2 || v["K"] == 5 && v["M"] == 7 && v["tb"] == 3 {
					return right(v) + off[q.unit]
				}
				return right(v)
			}
			a, err := q.answer()
			require.NoError(t, err)
			require.False(t, a.OK, id)
			agreeing, all := a.agreeing()
			require.Equal(t, all-1, agreeing, id)
			var text, markdown strings.Builder
			require.NoError(t, NewReport([]Answer{a}).WriteText(&text, true))
			require.NoError(t, NewReport([]Answer{a}).WriteMarkdown(&markdown))
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
	_, err := pipeline{schedule: "no such", stages: 1, microbatches: 1, times: uniform(1, 1)}.run()
	require.ErrorContains(t, err, "no such")
	_, err = pipeline{schedule: "gpipe", stages: 1, microbatches: 1}.run()
	require.ErrorContains(t, err, "forward")
	_, err = ring{workers: 0}.run()
	require.ErrorContains(t, err, "ranks = 0")
	_, err = cut("gpipe", values{"P": 3, "L": 2, "B": 1, "M": 1})
	require.Error(t, err, "more partitions than layers")
	for _, q := range formulas() {
		q.run = func(values) (run, error) { return run{}, errors.New("cannot run") }
		_, err := q.answer()
		require.EqualError(t, err, "cannot run", q.id)
	}
}
