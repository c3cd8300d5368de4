package intervals

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Four clusters have run a program: on two steps took as long as predicted, on the others a tenth more or less.
func Example() {
	var seen Evidence
	for source, log := range map[string]float64{"first": 0, "second": 0, "third": 0.1, "fourth": -0.1} {
		seen = append(seen, Residual{Conditions: Conditions{Chip: "h100", Bits: 16}, Source: source, Log: log})
	}
	low, high := seen.Model().Of(Conditions{Chip: "h100", Bits: 16}).Factors()
	fmt.Printf("a step of 10 s may take %.1f to %.1f s\n", 10*low, 10*high)
	fmt.Println(seen.Missing(Conditions{Chip: "t4"}))
	// Output:
	// a step of 10 s may take 8.6 to 11.6 s
	// no published run on t4 is compared with predictions
}

// drawn is evidence of several sources, of runs under one or two conditions.
func drawn(t *rapid.T) (e Evidence) {
	for source := range rapid.IntRange(5, 9).Draw(t, "sources") {
		for range rapid.IntRange(1, 6).Draw(t, "rows") {
			e = append(e, Residual{
				Conditions: Conditions{Chip: "h100", Bits: 16, Products: rapid.Float64Range(0, 1).Draw(t, "products")},
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
		want, plans := e.Model().Of(c), e.planVariance()
		e = rapid.Permutation(e).Draw(t, "order")
		got := e.Model().Of(c)
		require.InDelta(t, plans, e.planVariance(), 1e-12)
		require.Equal(t, want, got)
	})
}

// Errors that lie on two lines are found as such: the mean goes along one of them and the scale along the other. What
// is exact has no width.
func TestLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mean := line{rapid.Float64Range(-0.3, 0.3).Draw(t, "none"), rapid.Float64Range(-0.3, 0.3).Draw(t, "all")}
		scale := line{rapid.Float64Range(0.01, 0.3).Draw(t, "scale none"), rapid.Float64Range(0.01, 0.3).Draw(t, "scale all")}
		var e Evidence
		for source := range 6 {
			for i := range 5 {
				at := float64(i) / 4
				for _, sign := range []float64{-1, 1} {
					e = append(e, Residual{Conditions: Conditions{Products: at}, Source: fmt.Sprint(source), Log: mean.at(at) + sign*scale.at(at)})
				}
			}
		}
		for _, at := range []float64{0, 0.5, 1} {
			low, high := e.Model().Of(Conditions{Products: at}).Factors()
			require.InDelta(t, mean.at(at)-scale.at(at), math.Log(low), 1e-9)
			require.InDelta(t, mean.at(at)+scale.at(at), math.Log(high), 1e-9)
		}
	})
}

// The interval holds at least its share of the evidence's own votes, and a source that is far off makes it no wider
// than it must be to hold the others: errors need not be normal.
func TestWidth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawn(t)
		k := e.kind("all")
		groups := e.bySource()
		inside := 0.
		for _, of := range groups {
			others := fit(e.Without(of[0].Source).bySource())
			for _, r := range of {
				if math.Abs(r.Log-others.mean.at(r.Products)) <= k.width*others.scaleAt(r.Products)+1e-6 {
					inside += 1 / float64(len(of)*len(groups))
				}
			}
		}
		require.GreaterOrEqual(t, inside, Nominal)
	})
	var e Evidence
	for source := range 20 {
		e = append(e, Residual{Source: fmt.Sprint(source), Log: 0.1 * float64(source%5-2)})
	}
	_, high := e.Model().Of(Conditions{}).Factors()
	e[0].Log = 100
	_, far := e.Model().Of(Conditions{}).Factors()
	require.Greater(t, far, high)
	require.Less(t, math.Log(high), 0.3)
	// Of four sources the largest error counts, since a fifth may well be as far off.
	few := Evidence{{Source: "a"}, {Source: "b"}, {Source: "c"}, {Source: "d", Log: 0.3}}
	low, high := few.Model().Of(Conditions{}).Factors()
	require.Less(t, math.Log(low), 0.0)
	require.Greater(t, math.Log(high), 0.3)
	require.Nil(t, few[:3].kind("all"))
}

// A line of scales does not fall below zero, nor scales below what residuals.csv can say.
func TestScales(t *testing.T) {
	require.Equal(t, line{0, 2}, line{-1, 2}.positive())
	require.Equal(t, leastScale, lines{}.scaleAt(0.5))
	var e Evidence
	for source := range 5 {
		e = append(e, Residual{Source: fmt.Sprint(source), Log: 0.1})
	}
	low, high := e.Model().Of(Conditions{}).Factors()
	require.InDelta(t, 0.1, math.Log(low), 1e-3)
	require.InDelta(t, 0.1, math.Log(high), 1e-3)
}

// By hand: two sources, one with two rows.
func TestMoments(t *testing.T) {
	e := Evidence{{Source: "a", Log: 0.1}, {Source: "a", Log: 0.3}, {Source: "b", Log: 0.6}}
	s := e.own()
	require.InDelta(t, 0.4, s.Mean, 1e-12)               // of 0.2 and 0.6
	require.InDelta(t, 0.02, s.Within, 1e-12)            // of 0.1 and 0.3
	require.InDelta(t, 0.08-0.02*0.75, s.Between, 1e-12) // variance of 0.2 and 0.6 less that of the means
	require.Equal(t, []int{3, 2}, []int{s.Runs, s.Sources})
	require.Contains(t, e.Missing(Conditions{}), "fewer than 4 sources")
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
			e = append(e, Residual{Conditions: Conditions{Stack: "a", Chip: "h100", Bits: 16, Products: float64(row) / 10}, Source: fmt.Sprint(source), Log: log})
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
	without := e.Model().Of(dense)
	add(scans, "0", 3)
	add(scans, "1", 4)
	add(scans, "2", 5)
	require.Equal(t, without, e.Model().Of(dense), "scans say nothing about others")
	require.Empty(t, e.Missing(dense))
	require.Equal(t, "published runs of networks with scans (Mamba-2, delta nets) are of fewer than 4 sources", e.Missing(scans))
	add(scans, "3", 6)
	require.Empty(t, e.Missing(scans))
	require.InDelta(t, 4.5, e.Model().Of(scans).Mean, 1e-9)
	require.Equal(t, 4, e.Model().Of(scans).Runs)
	scans.Chip = "b200"
	require.Equal(t, "no published run on b200 is compared with predictions", e.Missing(scans))
}

// The file is as it was written.
func TestFile(t *testing.T) {
	require.Equal(t, file, Published().CSV())
	for _, wrong := range []string{"a,b", "a,b,c,d,e,true,x,1,0", "a,b,c,d,e,true,1,x,0", "a,b,c,d,e,true,1,1,x"} {
		_, err := read("head,2,3,4,5,6,7,8,9\n" + wrong + "\n")
		require.Error(t, err, wrong)
	}
}

// Errors of a site's own runs draw the mean towards theirs and make the interval narrower, and a further way in which
// the run may have been started makes it wider.
func TestSiteAndOr(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawn(t)
		s := e.Model().Of(e[0].Conditions)
		width := func(s Spread) float64 {
			low, high := s.Factors()
			return math.Log(high / low)
		}
		if width(s) > 100 {
			t.Skip("all sources but one agree to the last digit")
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
