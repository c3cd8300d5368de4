package intervals

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Three clusters have run a program: on the first steps took as long as predicted, on the others a tenth more or less.
func Example() {
	var seen Evidence
	for source, log := range map[string]float64{"first": 0, "second": 0.1, "third": -0.1} {
		seen = append(seen, Residual{Conditions: Conditions{Stack: "mine", Chip: "h100", Bits: 16}, Source: source, Log: log})
	}
	low, high := seen.Of(Conditions{Stack: "mine", Chip: "h100", Bits: 16}).Factors()
	fmt.Printf("a step of 10 s may take %.1f to %.1f s\n", 10*low, 10*high)
	fmt.Println(seen.Missing(Conditions{Chip: "t4"}))
	// Output:
	// a step of 10 s may take 8.4 to 11.9 s
	// no published run on t4 is compared with predictions
}

// drawn is evidence of several sources, of runs under one or two conditions.
func drawn(t *rapid.T) (e Evidence) {
	for source := range rapid.IntRange(3, 8).Draw(t, "sources") {
		for range rapid.IntRange(1, 6).Draw(t, "rows") {
			e = append(e, Residual{
				Conditions: Conditions{Stack: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "stack"), Chip: "h100", Bits: 16, Mixture: rapid.Bool().Draw(t, "mixture")},
				Source:     fmt.Sprint(source), Training: rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "training"),
				Log: rapid.Float64Range(-0.5, 0.5).Draw(t, "log"),
			})
		}
	}
	return e
}

func TestOrderOfRowsDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawn(t)
		c := e[0].Conditions
		want, plans := e.Of(c), e.planVariance()
		e = rapid.Permutation(e).Draw(t, "order")
		got := e.Of(c)
		require.InDelta(t, plans, e.planVariance(), 1e-12)
		require.InDelta(t, want.Mean, got.Mean, 1e-12)
		require.InDelta(t, want.Between+want.Within+want.Error, got.Between+got.Within+got.Error, 1e-12)
		require.Equal(t, []any{want.Class, want.Runs, want.Sources, want.Freedom}, []any{got.Class, got.Runs, got.Sources, got.Freedom})
	})
}

// Half as many sources with the same errors make an interval that is wider. Of each there is one run: how much runs
// of a source vary is told from how the variances of sources differ, which is another spread for twice as many.
func TestWiderWithFewerSources(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var e Evidence
		for _, of := range drawn(t).bySource() {
			e = append(e, of[0])
		}
		for i := range e {
			e[i].Conditions = e[0].Conditions
		}
		width := func(e Evidence) float64 {
			low, high := e.Of(e[0].Conditions).Factors()
			return math.Log(high / low)
		}
		twice := slices.Clone(e)
		for _, r := range e {
			r.Source += "'"
			twice = append(twice, r)
		}
		if variance(e.logs()) < 1e-12 {
			t.Skip("errors differ by rounding at most")
		}
		require.Greater(t, width(e), width(twice))
	})
}

// What a class says lies between what its own rows say and what those of the wider class say, and the
// nearer to its own, the more sources it has.
func TestShrinkage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawn(t)
		wider, own := drawn(t).own(), e.own()
		drawn := own.towards(wider)
		for _, x := range [][3]float64{{own.Mean, drawn.Mean, wider.Mean}, {own.Between, drawn.Between, wider.Between}, {own.Within, drawn.Within, wider.Within}} {
			require.InDelta(t, x[1], min(max(x[1], min(x[0], x[2])), max(x[0], x[2])), 1e-12)
		}
		more := own
		more.Sources *= 2
		require.LessOrEqual(t, math.Abs(more.towards(wider).Mean-own.Mean), math.Abs(drawn.Mean-own.Mean)+1e-12)
	})
}

// A class counts by itself only with rows of three sources.
func TestClasses(t *testing.T) {
	var e Evidence
	add := func(source string, mixture bool, log float64) {
		e = append(e, Residual{Conditions: Conditions{Stack: source, Chip: "h100", Bits: 16, Mixture: mixture}, Source: source, Log: log})
	}
	for i, source := range []string{"a", "b", "c"} {
		add(source, false, 0.01*float64(i))
	}
	add("d", true, 0.5)
	add("e", true, 0.6)
	mixture := Conditions{Stack: "z", Chip: "h100", Bits: 16, Mixture: true}
	require.Equal(t, "16 bits, without tensor groups, one node", e.Of(mixture).Class)
	require.Equal(t, 5, e.Of(mixture).Runs)
	add("f", true, 0.7)
	s := e.Of(mixture)
	require.Equal(t, "mixtures of experts, 16 bits, without tensor groups, one node", s.Class)
	require.Equal(t, []int{3, 3}, []int{s.Runs, s.Sources})
	// Mixtures are 0.6 too slow, all runs 0.305: with as much weight as three sources have at each of five steps.
	require.Greater(t, s.Mean, 0.4)
}

// By hand: two sources, one with two rows.
func TestMoments(t *testing.T) {
	e := Evidence{{Source: "a", Log: 0.1}, {Source: "a", Log: 0.3}, {Source: "b", Log: 0.6}}
	s := e.own()
	require.InDelta(t, 0.4, s.Mean, 1e-12)               // of 0.2 and 0.6
	require.InDelta(t, 0.02, s.Within, 1e-12)            // of 0.1 and 0.3
	require.InDelta(t, 0.08-0.02*0.75, s.Between, 1e-12) // variance of 0.2 and 0.6 less that of the means
	require.InDelta(t, (0.065+0.015)/2, s.Error, 1e-12)  // of the mean
	require.Equal(t, []float64{1, 3, 2}, []float64{s.Freedom, float64(s.Runs), float64(s.Sources)})
	require.Contains(t, e.Missing(Conditions{}), "fewer than 3 sources")
	require.Contains(t, e.Missing(Conditions{Bits: 4}), "in 4 bits")
}

func TestBest(t *testing.T) {
	var e Evidence
	for i, log := range []float64{0.1, 0.14, 0.3, 0.35, -0.2, -0.22} { // errors of machines are ten times those of plans
		e = append(e, Residual{Source: fmt.Sprint(i / 2), Training: "x", Log: log})
	}
	chances := func(stack string, steps ...float64) []float64 {
		plans := []Contender{{"a", steps[0]}}
		for _, s := range steps[1:] {
			plans = append(plans, Contender{stack, s})
		}
		return e.Best(plans)
	}
	sum := 0.
	for _, p := range chances("a", 1, 1.01, 1.02, 2) {
		sum += p
	}
	require.InDelta(t, 1, sum, 1e-9)
	require.InDelta(t, 0.5, chances("a", 1, 1)[0], 0.02)
	// Two errors of plans, each of variance v, differ by 2v: Φ(ln 1.05 / √(2v)).
	v := e.planVariance()
	require.InDelta(t, (0.04*0.04+0.05*0.05+0.02*0.02)/2/3, v, 1e-12)
	require.InDelta(t, (1+math.Erf(math.Log(1.05)/math.Sqrt(2*v)/math.Sqrt2))/2, chances("a", 1, 1.05)[0], 0.02)
	// Of two programs the machine's error is not the same, so that less is known.
	require.Less(t, chances("b", 1, 1.05)[0], chances("a", 1, 1.05)[0])
	require.Equal(t, chances("b", 1, 1.05), chances("b", 1, 1.05))
}

func TestCoverage(t *testing.T) {
	var e Evidence
	for source := range 12 {
		for row := range 10 {
			log := 0.1*float64(source%3-1) + 0.02*float64(row%5-2)
			e = append(e, Residual{Conditions: Conditions{Stack: "a", Chip: "h100", Bits: 16, Nodes: 1 + row%2}, Source: fmt.Sprint(source), Log: log})
		}
	}
	e = append(e, Residual{Conditions: Conditions{Stack: "a", Chip: "t4", Bits: 16}, Source: "0", Log: 3})
	c := Sum(e.Hold())
	require.Len(t, c.Sources, 12)
	require.Equal(t, 1, c.Missing, "nobody else has a t4")
	require.Equal(t, SourceCoverage{Source: "0", Rows: 11, Missing: 1, Inside: c.Sources[0].Inside}, c.Sources[0])
	require.GreaterOrEqual(t, c.Mean, c.Low)
	require.LessOrEqual(t, c.Mean, c.High)
	require.Greater(t, c.Mean, 0.8)
	// An interval that no source but the outlier's own would make does not hold it.
	e[0].Log = 5
	require.False(t, e.Hold()[0].Inside)
	// The score is the width, and ten times what is missed.
	require.InDelta(t, 1, winkler(0, 1, 0.5), 1e-12)
	require.InDelta(t, 1+10*0.2, winkler(0, 1, 1.2), 1e-9)
}

// Networks with scans, and those without, are compared with their own kind, and have no interval by the other.
func TestScansApart(t *testing.T) {
	var e Evidence
	dense := Conditions{Stack: "a", Chip: "h100", Bits: 16}
	scans := dense
	scans.Scans = true
	add := func(c Conditions, source string, log float64) {
		e = append(e, Residual{Conditions: c, Source: source, Log: log})
	}
	for source := range 4 {
		add(dense, fmt.Sprint(source), 0.1*float64(source))
	}
	without := e.Of(dense)
	add(scans, "0", 3)
	add(scans, "1", 4)
	require.Equal(t, without, e.Of(dense), "scans say nothing about others")
	require.Empty(t, e.Missing(dense))
	require.Equal(t, "published runs of networks with scans (Mamba-2, delta nets) are of fewer than 3 sources", e.Missing(scans))
	add(scans, "2", 5)
	require.Empty(t, e.Missing(scans))
	require.InDelta(t, 4, e.Of(scans).Mean, 1e-9)
	require.Equal(t, 3, e.Of(scans).Runs)
	scans.Chip = "b200"
	require.Equal(t, "no published run on b200 is compared with predictions", e.Missing(scans))
}

// The file is as it was written.
func TestFile(t *testing.T) {
	require.Equal(t, file, Published().CSV())
	for _, wrong := range []string{"a,b", "a,b,c,d,e,true,false,x,1,1,0", "a,b,c,d,e,true,false,1,1,1,x"} {
		_, err := read("head,2,3,4,5,6,7,8,9,10,11\n" + wrong + "\n")
		require.Error(t, err, wrong)
	}
}

// Errors of a site's own runs draw the mean towards theirs and make the interval narrower, and a further way in which
// the run may have been started makes it wider.
func TestSiteAndOr(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawn(t)
		s := e.Of(e[0].Conditions)
		width := func(s Spread) float64 {
			low, high := s.Factors()
			return math.Log(high / low)
		}
		errors := rapid.SliceOfN(rapid.Float64Range(-0.5, 0.5), 1, 9).Draw(t, "errors")
		own := s.AtSite(errors)
		require.LessOrEqual(t, width(own), width(s)+1e-12)
		mean := 0.
		for _, x := range errors {
			mean += x / float64(len(errors))
		}
		require.InDelta(t, own.Mean, min(max(own.Mean, min(mean, s.Mean)), max(mean, s.Mean)), 1e-12)
		require.LessOrEqual(t, width(own.AtSite(nil)), width(own))
		require.Greater(t, width(s.Or(1.1)), width(s))
		require.Equal(t, s, s.Or(1))
	})
}

// Samples of variances that are scattered about 0.04 as an inverse χ² has it, of four runs each.
func TestTypical(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	chi := func(freedom int) (x float64) {
		for range freedom {
			z := random.NormFloat64()
			x += z * z
		}
		return x / float64(freedom)
	}
	var samples []sample
	for range 4000 {
		samples = append(samples, sample{0.04 / chi(6) * chi(3), 3})
	}
	require.InEpsilon(t, 0.04, typical(samples), 0.05)
	require.InEpsilon(t, 6, priorFreedom(trigamma(3)), 1e-9)
	require.InDelta(t, math.Pi*math.Pi/6, trigamma(1), 1e-12)
	// One extreme source decides a mean, but not what is typical.
	few := []sample{{0.01, 3}, {0.02, 3}, {0.015, 3}, {0.01, 3}, {100, 3}}
	require.Less(t, typical(few), 0.1)
	require.Positive(t, typical([]sample{{0, 3}, {0.01, 3}, {0.02, 3}}))
	require.Zero(t, typical(nil))
	require.Zero(t, typical([]sample{{0, 1}, {0, 4}}))
	require.Equal(t, 0.02, typical([]sample{{0.02, 1}}))
}
