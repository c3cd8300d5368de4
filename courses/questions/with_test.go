package questions

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Eight times the bandwidth and twice the workers of the assignment.
func ExampleAnswersWith() {
	answers, err := AnswersWith(context.Background(), []string{"W=16", "B=800"}, "1.6")
	if err != nil {
		fmt.Println(err)
		return
	}
	a := answers[0]
	fmt.Println(a.Substitution, "=", a.ClosedForm, a.Unit)
	fmt.Println("simulated:", a.Simulated, a.OK)
	// Output:
	// 2*(16-1)/16 * 10e9*16 / (800*1e9) = 0.375 s
	// simulated: 0.375 true
}

// For any values the simulation gives the closed form: to the last digit if they divide, and
// otherwise within what whole elements and nanoseconds account for.
func TestAnyValuesAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := formulas()[rapid.IntRange(0, len(formulas())-1).Draw(t, "question")]
		var settings []string
		v := values{}
		for _, s := range q.given {
			v[s.Name] = s.Value
			if !rapid.Bool().Draw(t, "set "+s.Name) {
				continue
			}
			most := s.Most
			if limit := map[string]int64{"W": 48, "M": 64, "K": 24, "P": 24, "L": 48}[s.Name]; limit > 0 && s.Unit != "parameters" {
				most = min(most, limit) // so that a run is quick
			}
			v[s.Name] = rapid.Int64Range((s.Least+s.Step-1)/s.Step, most/s.Step).Draw(t, s.Name) * s.Step
			settings = append(settings, fmt.Sprintf("%s=%d", s.Name, v[s.Name]))
		}
		answers, err := AnswersWith(t.Context(), settings, q.ID)
		if problem := q.refuse(v); problem != nil {
			require.ErrorContains(t, err, problem.Error())
			return
		}
		require.NoError(t, err, settings)
		a := answers[0]
		require.True(t, a.OK, "%s %v: %v and %v, %+v", q.ID, settings, a.ClosedForm, a.Simulated, a.Checks)
		require.Equal(t, evaluate(q.Formula, v.lookup), a.ClosedForm)
		require.Equal(t, a.ClosedForm, a.Derivation[len(a.Derivation)-1].Value)
		if len(settings) == 0 {
			require.Zero(t, a.Slack, q.ID)
		}
	})
}

func TestValuesThatDoNotDivide(t *testing.T) {
	a, err := AnswersWith(t.Context(), []string{"W=7"}, "1.6")
	require.NoError(t, err)
	require.InDelta(t, 2*6./7*1.6, a[0].ClosedForm, 1e-15)
	require.NotEqual(t, a[0].ClosedForm, a[0].Simulated)
	require.True(t, a[0].OK)
	require.Less(t, math.Abs(a[0].ClosedForm-a[0].Simulated), a[0].Slack)
	require.Less(t, a[0].Slack, 2e-8)
	var text, markdown strings.Builder
	require.NoError(t, NewSheet(a).WriteText(&text, true))
	require.NoError(t, NewSheet(a).WriteMarkdown(&markdown))
	require.Contains(t, strings.Join(strings.Fields(text.String()), " "), "so that it may be off by 14 ns.")
	require.Contains(t, markdown.String(), "so that it may be off by 14 ns")

	for _, q := range formulas() { // an error beyond that is noticed
		if q.ID == "1.6" {
			q.given = slices.Clone(q.given)
			q.given[0].Value, q.cases, q.grid = 7, nil, nil
			read := q.read
			q.read = func(r run) float64 { return read(r) + 2*q.off(q.sample()) }
			a, err := q.answer()
			require.NoError(t, err)
			require.False(t, a.OK)
		}
	}
}

// A setting applies to every question that has the symbol, and to its other readings.
func TestSettingsApplyWhereTheNameExists(t *testing.T) {
	all, err := AnswersWith(t.Context(), []string{"B=400", "W=16"}, "1.4", "1.6", "2.2")
	require.NoError(t, err)
	require.Equal(t, 1280.0, all[0].ClosedForm)
	require.Equal(t, 0.75, all[1].ClosedForm)
	require.Equal(t, 80.0, *all[0].Readings[0].Value)
	require.Equal(t, 0.8, *all[1].Readings[0].Value)
	require.NotNil(t, all[2].Observed)
	for _, a := range all {
		require.True(t, a.OK, a.ID)
	}
	verdicts := map[string]string{
		"M=16": "No: the bubble is the same, 15.8 %, but at most 4 microbatches are in flight on a stage instead of 16.",
		"M=4":  "No: the bubble is the same, 42.9 %, and the first stage holds all microbatches, since they are no more than the partitions.",
		"K=1":  "No: the bubble is the same, 0.0 %, but at most 1 microbatch is in flight on a stage instead of 8.",
	}
	for setting, want := range verdicts {
		a, err := AnswersWith(t.Context(), []string{setting}, "4.4")
		require.NoError(t, err)
		require.Equal(t, want, a[0].Verdict)
		require.True(t, a[0].OK)
	}
}

func TestBadSettings(t *testing.T) {
	for _, c := range []struct{ id, settings, want string }{
		{"1.6", "W", `"W": must be NAME=VALUE with a number, such as W=16 or P=7e9`},
		{"1.6", "W=", `"W=": must be NAME=VALUE with a number, such as W=16 or P=7e9`},
		{"1.6", "W=-1", `"W=-1": must be NAME=VALUE with a number, such as W=16 or P=7e9`},
		{"1.6", "B=100Gb/s", `"B=100Gb/s": must be NAME=VALUE with a number, such as W=16 or P=7e9`},
		{"1.6", "B=12.5", "B=12.5: the value must be a whole number of at most 9.2e18"},
		{"1.6", "P=1e30", "P=1e30: the value must be a whole number of at most 9.2e18"},
		{"1.6", "W=0", "W=0: in question 1.6, W must be 1 to 512 workers"},
		{"1.6", "W=513", "W=513: in question 1.6, W must be 1 to 512 workers"},
		{"1.6", "P=999", "P=999: in question 1.6, P must be 1000 to 1000e9 parameters"},
		{"1.6", "Sg=12", "Sg=12: in question 1.6, Sg must be a multiple of 8 bits"},
		{"1.6", "w=16", `w=16: unknown symbol "w"; there are W (workers), P (parameters), B (Gb/s), Sg (bits); did you mean W?`},
		{"2.3a", "P=16", "P=16: in question 2.3a, there are P = 16 partitions of L = 12 layers; give at most as many partitions as layers"},
		{"2.3b", "M=64", "M=64: in question 2.3b, there are M = 64 microbatches of B = 32 samples; give at most as many microbatches as samples"},
		{"2.2", "W=16", "W=16: questions about graphs have no symbols; give one for a formula, such as 1.6"},
		{"1.6", "W=4 W=8", "W=8: a value of W is given already"},
		{"9.9", "W=4", `unknown question "9.9"; use one of ` + strings.Join(IDs(), ", ")},
	} {
		_, err := AnswersWith(t.Context(), strings.Fields(c.settings), c.id)
		require.EqualError(t, err, c.want)
	}
}

// Any text is an error or a setting, which is read the same when it is written again.
func FuzzSetting(f *testing.F) {
	for _, seed := range []string{"W=16", "P=1.5e9", "B=12.5", "x=", "=4", "W=1e99", "P=00001.50E+2", "N_f=3", "W=16=3", "\xff=1", "W=９"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parseSetting(text)
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			return
		}
		require.NotEmpty(t, s.name)
		require.GreaterOrEqual(t, s.value, int64(0))
		again, err := parseSetting(fmt.Sprintf("%s=%d", s.name, s.value))
		require.NoError(t, err)
		require.Equal(t, [2]any{s.name, s.value}, [2]any{again.name, again.value})
	})
}
