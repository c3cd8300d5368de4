package questions

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/courses/modes"
	"psim/schedules/collective"
)

// published lists the right answers: the closed form, its unit, and the numbers of the other
// readings in their order.
var published = []struct {
	id         string
	closedForm float64
	unit       string
	readings   []float64
}{
	{"1.3", 128e9, "bytes", []float64{16e9}},
	{"1.4", 640, "GB", []float64{80, 596.0464477539062, 74.50580596923828, 40, 320, 480}},
	{"1.5", 0.432432, "s", []float64{432_432_000, 0.576576, 0.864864, 0.438432}},
	{"1.6", 2.8, "s", []float64{3.2, 1.4, 2.60770320892334, 5.6, 5.6, 0.35}},
	{"2.3a", 3 * 32 * 393_216, "bytes", []float64{3 * 393_216, 4 * 32 * 393_216}},
	{"2.3b", 3 * 32 * 196_608, "bytes", []float64{3 * 196_608}},
	{"3.2a", 200e9, "bytes", []float64{160e9}},
	{"3.2b", 95e9, "bytes", []float64{90e9}},
	{"3.2c", 60e9, "bytes", []float64{55e9}},
	{"3.2d", 25e9, "bytes", []float64{20e9}},
	{"3.3a", 160e9, "bytes", []float64{120e9, 149.01161193847656}},
	{"3.3b", 55e9, "bytes", []float64{50e9, 51.22274160385132}},
	{"3.3c", 37.5e9, "bytes", []float64{32.5e9, 34.924596548080444}},
	{"3.3d", 20e9, "bytes", []float64{15e9, 18.62645149230957}},
	{"4.3", 3. / 11, "fraction", []float64{0.375, 12, 24}},
	{"4.4", 3. / 11, "fraction", []float64{0, 4, 43.71, 40.88}},
}

// formulas lists the questions that ask for a formula.
func formulas() []question {
	return slices.DeleteFunc(slices.Clone(catalog()), func(q question) bool { return q.discuss != nil })
}

// answered computes all answers, once for all tests that read them.
var answered = sync.OnceValues(func() ([]QuestionAnswer, error) { return Answers(context.Background(), nil) })

// answers returns the answers to some questions, or to all.
func answers(t *testing.T, ids ...string) []QuestionAnswer {
	t.Helper()
	all, err := answered()
	require.NoError(t, err)
	selected, err := Select(ids)
	require.NoError(t, err)
	return slices.DeleteFunc(slices.Clone(all), func(a QuestionAnswer) bool { return !slices.Contains(selected, a.ID) })
}

func TestAnswersAreThePublishedNumbers(t *testing.T) {
	got := slices.DeleteFunc(answers(t), func(a QuestionAnswer) bool { return a.Observed != nil })
	require.Len(t, got, len(published))
	for i, want := range published {
		a := got[i]
		require.Equal(t, want.id, a.ID)
		require.True(t, a.OK, a.ID)
		require.Equal(t, want.closedForm, a.ClosedForm, a.ID)
		require.InDelta(t, want.closedForm, a.Simulated, 1e-12, a.ID)
		require.Equal(t, want.unit, a.Unit, a.ID)
		var numbers []float64
		for _, r := range a.Readings {
			if r.Value != nil {
				require.NotEmpty(t, r.Unit, r.Reading)
				numbers = append(numbers, *r.Value)
			}
		}
		require.Equal(t, want.readings, numbers, a.ID)
	}
}

func TestAnswersAreTheSameEveryTime(t *testing.T) {
	again, err := Answers(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, answers(t), again)
	some, err := Answers(t.Context(), nil, "3.3c", "1.4")
	require.NoError(t, err)
	require.Equal(t, answers(t, "1.4", "3.3c"), some)
}

func TestChecksOfNamedQuantities(t *testing.T) {
	want := map[string]map[string]float64{
		"1.4": {"per worker, the fullest": 80, "per worker, the emptiest": 80},
		"1.6": {
			"sends, the busiest worker": 14, "sends, the idlest worker": 14,
			"bytes sent, the busiest worker": 35e9, "bytes sent, the idlest worker": 35e9,
		},
		"4.3": {"K = 3, M = 2": 0.5, "K = 2, M = 4": 0.2, "K = 8, M = 32": 7. / 39},
		"4.4": {
			"in flight on rank 0, gpipe": 8, "in flight on rank 1, gpipe": 8,
			"in flight on rank 2, gpipe": 8, "in flight on rank 3, gpipe": 8,
			"in flight on rank 0, 1f1b": 4, "in flight on rank 1, 1f1b": 3,
			"in flight on rank 2, 1f1b": 2, "in flight on rank 3, 1f1b": 1,
			"makespan on unequal stages, gpipe": 43.71, "makespan on unequal stages, 1f1b": 40.88,
		},
	}
	for id, quantities := range want {
		checks := map[string]Check{}
		for _, c := range answers(t, id)[0].Checks {
			checks[c.What] = c
		}
		for what, value := range quantities {
			require.Contains(t, checks, what)
			require.Equal(t, value, checks[what].ClosedForm, what)
			require.InDelta(t, value, checks[what].Simulated, 1e-12, what)
		}
	}
}

func TestTheVerdictComesFirst(t *testing.T) {
	r := NewSheet(answers(t, "4.4"))
	require.Equal(t, 4.0, r.Questions[0].Checks[6].ClosedForm, "microbatches in flight, of which the verdict speaks")
	require.Equal(t, "27.3 %", figure(r.Questions[0].Simulated, "fraction"))
	var markdown strings.Builder
	require.NoError(t, r.WriteMarkdown(&markdown))
	require.Contains(t, markdown.String(), "**Answer.** **No: the bubble is the same, 27.3 %, but")
}

func TestRingIsCheckedForOneToSixteenWorkers(t *testing.T) {
	a := answers(t, "1.5")[0]
	workers := map[string]bool{}
	for _, c := range a.Checks {
		if strings.HasPrefix(c.What, "W = ") {
			workers[c.What] = true
			require.Equal(t, c.ClosedForm, c.Simulated, c.What)
		}
	}
	require.Len(t, workers, 15)
	require.False(t, workers["W = 4"], "the sample itself")
}

// Every question in questions.toml is complete, and every name in it is known.
func TestTheFileIsComplete(t *testing.T) {
	for _, q := range catalog() {
		require.NotEmpty(t, q.Title, q.ID)
		require.NotEmpty(t, q.Text, q.ID)
		require.NotContains(t, q.Text+q.Note, "  ", q.ID)
		if q.discuss != nil {
			require.Subset(t, modes.Names(), q.Modes, q.ID)
			require.NotEmpty(t, q.Modes, q.ID)
			require.Empty(t, q.Formula, q.ID)
			continue
		}
		require.NotEmpty(t, q.Further, q.ID)
		require.Contains(t, []string{"replicas", "ring", "pipeline", "cut"}, q.Simulate.Kind, q.ID)
		require.NotContains(t, q.verdict(q.sample())+q.sample().fill(q.Simulation), "{", q.ID)
	}
	require.Panics(t, func() { evaluate("W + nobody", values{"W": 1}.lookup) })
	require.Panics(t, func() { evaluate("W +", values{"W": 1}.lookup) })
	require.Panics(t, func() { whole("W / 2", values{"W": 1}.lookup) })
}

// The ring of 1.6 is compared as every library orders it.
func TestEveryConventionIsCompared(t *testing.T) {
	var want, got []string
	for _, c := range collective.Conventions() {
		want = append(want, "the ring as "+c.Name+" orders it")
	}
	for _, c := range answers(t, "1.6")[0].Checks {
		if strings.HasPrefix(c.What, "the ring as ") {
			got = append(got, c.What)
		}
	}
	require.Equal(t, want, got)
}

func TestSelect(t *testing.T) {
	cases := []struct{ ids, want []string }{
		{nil, IDs()},
		{[]string{"1.6"}, []string{"1.6"}},
		{[]string{"3.3"}, []string{"3.3a", "3.3b", "3.3c", "3.3d"}},
		{[]string{"4.4", "2.3b", "2.3", "4.4"}, []string{"2.3a", "2.3b", "4.4"}},
		{[]string{"T3.2", "1.1c", "1.1a", "1.1a"}, []string{"1.1a", "1.1c", "T3.2"}},
		{[]string{"1.1a", "1.1", "4.4b"}, []string{"1.1", "4.4b"}},
	}
	for _, c := range cases {
		got, err := Select(c.ids)
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
}

func TestUnknownQuestionsAreRefused(t *testing.T) {
	for _, id := range []string{"1.7", "3.3e", "3", "", "a", "3.3ab", " 1.6", "1.1d", "1.1ab", "1.3a", "T3.2a"} {
		_, err := Select([]string{"1.6", id})
		require.ErrorContains(t, err, `"`+id+`"`)
		require.ErrorContains(t, err, strings.Join(IDs(), ", "))
		_, err = Answers(t.Context(), nil, id)
		require.Error(t, err)
	}
}

func TestListsAreNeverNull(t *testing.T) {
	data, err := json.Marshal(NewSheet(nil))
	require.NoError(t, err)
	require.JSONEq(t, `{"questions": [], "passed": 0, "failed": 0}`, string(data))
	for _, a := range answers(t) {
		if a.Observed != nil {
			require.NotEmpty(t, a.Sentences, a.ID)
			require.NotEmpty(t, a.Graphs, a.ID)
			require.NotEmpty(t, a.Runs, a.ID)
			continue
		}
		require.NotNil(t, a.Readings, a.ID)
		require.NotNil(t, a.Checks, a.ID)
		require.NotEmpty(t, a.Given, a.ID)
	}
	bare := formulas()[0]
	bare.readings, bare.cases = nil, nil
	bare.Further = nil
	a, err := bare.answer()
	require.NoError(t, err)
	data, err = json.Marshal(a)
	require.NoError(t, err)
	require.NotContains(t, string(data), "null")
}

func TestNumbersAreExactInJSON(t *testing.T) {
	data, err := json.Marshal(NewSheet(answers(t)))
	require.NoError(t, err)
	for _, want := range []string{
		`"closed_form":640,"simulated":640,"unit":"GB"`,
		`"closed_form":2.8,"simulated":2.8,"unit":"s"`,
		`"closed_form":37500000000,"simulated":37500000000,"unit":"bytes"`,
		`"closed_form":40.88,"simulated":40.88,"unit":"s"`,
		`"passed":24,"failed":0`,
	} {
		require.Contains(t, string(data), want)
	}
}

// TestWhole checks that large ratios are in groups of digits, as counts are.
func TestWhole(t *testing.T) {
	require.Equal(t, "998", wholeText(997.6))
	require.Equal(t, "1,053", wholeText(1053.2))
}
