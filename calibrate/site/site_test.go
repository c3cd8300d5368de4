package site_test

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/calibrate/site"
	"psim/internal/golden"
)

// A cluster's devices are a tenth slower than the catalog's. Two runs say half of it, since sites differ so.
func ExampleNew() {
	runs, _ := site.Read(strings.NewReader("config,step_time\nsmall,1.1s\nlarge,11s\n"))
	steps := []float64{1, 10}
	fit, _ := site.New(runs, func(run int, logs []float64) (float64, error) {
		return steps[run] * math.Exp(-logs[1]), nil // the clock alone has an effect
	}, site.Prior{Between: 0.01, Within: 0.02})
	for _, c := range fit.Constants {
		fmt.Printf("%s: %.3f\n", c.Key, c.Factor)
	}
	// Output: machine.clock: 0.953
}

func TestReadErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "is empty; it needs the columns config and step_time",
		"config,time\n":                      "has no column step_time",
		"step_time\n":                        "has no column config",
		"config;step_time\n":                 "its columns are separated by semicolons; separate them by commas",
		"config,step_time,config\n":          "has two columns config",
		"config,step_time,micro\n":           `column "micro": must be config, step_time or a dotted key`,
		"config,step_time\na,1s\n":           "has 1 run; a constant takes two",
		"config,step_time\na,1\nb,1s\n":      "line 2: step_time: ",
		"config,step_time\na,-1s\nb,1s\n":    "line 2: step_time: ",
		"config,step_time\n,1s\nb,1s\n":      "line 2: config: is empty",
		"config,step_time\na,1s,3\n":         "line 2: wrong number of fields",
		"config,step_time\na,1s\n\na,1.2s\n": "lines 2 and 4 have the same settings and steps of 1.00 s and 1.20 s",
		"config,step_time\n\"a,1s\n":         "line 2: ",
		"config,step_time\n" + strings.Repeat("a,1s\n", 1001): "has more than 1000 runs",
	} {
		_, err := site.Read(strings.NewReader(text))
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "\n")
	}
	runs, err := site.Read(strings.NewReader("# mine\nconfig, step_time,batch.micro\na,1s,2\na,1.05s,\n"))
	require.NoError(t, err)
	require.Equal(t, []site.RunOfSite{{Line: 3, Config: "a", Sets: []string{"batch.micro=2"}, Step: 1}, {Line: 4, Config: "a", Step: 1.05}}, runs)
}

// A step that cannot be that of its configuration is refused, with its line.
func TestImplausible(t *testing.T) {
	runs, err := site.Read(strings.NewReader("\ufeffconfig,step_time\na,1s\nb,100ms\n"))
	require.NoError(t, err)
	for predicted, want := range map[float64]string{
		1:     "line 3: step_time is 100 ms, and 1.00 s is predicted: is it one step",
		0.05:  "line 2: step_time is 1.00 s, and 50.0 ms is predicted: is it one step",
		0.199: "",
	} {
		_, err := site.New(runs, func(_ int, logs []float64) (float64, error) {
			return predicted * math.Exp(-logs[1]), nil
		}, site.Prior{Between: 0.01, Within: 0.02})
		if want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add("config,step_time\na,1s\nb,2s\n")
	f.Add("config,step_time,batch.micro\na,1s,2\n\"b\",2ms,\n")
	f.Add("config,step_time\n\"a\n\",1s\n")
	f.Fuzz(func(t *testing.T, text string) {
		runs, err := site.Read(strings.NewReader(text))
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		require.GreaterOrEqual(t, len(runs), 2)
		for _, r := range runs {
			require.Positive(t, r.Step)
			require.NotEmpty(t, r.Config)
		}
	})
}

// networks is a predictor of runs whose step is a share of network time, and computes the rest.
func networks(steps, shares []float64) site.Predictor {
	return func(run int, logs []float64) (float64, error) {
		return steps[run] * (shares[run]*math.Exp(-logs[0]) + (1-shares[run])*math.Exp(-logs[1])), nil
	}
}

func measured(steps ...float64) (runs []site.RunOfSite) {
	for i, s := range steps {
		runs = append(runs, site.RunOfSite{Line: i + 2, Config: fmt.Sprint("run", i), Step: s})
	}
	return runs
}

// A fit lies between the catalog's constant and the one that meets the runs, and the nearer to the latter, the more
// runs there are.
func TestFitIsDrawnToTheCatalog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		truth := rapid.Float64Range(0.7, 1.4).Draw(t, "clock")
		prior := site.Prior{Between: rapid.Float64Range(0.001, 0.1).Draw(t, "between"), Within: rapid.Float64Range(0.001, 0.1).Draw(t, "within")}
		before := 0.
		for _, n := range []int{2, 3, 8} {
			var steps []float64
			for range n {
				steps = append(steps, 1/truth)
			}
			ones, none := make([]float64, n), make([]float64, n)
			for i := range ones {
				ones[i] = 1
			}
			fit, err := site.New(measured(steps...), networks(ones, none), prior)
			require.NoError(t, err)
			require.Len(t, fit.Constants, 1, "nothing else has an effect")
			log := math.Log(fit.Constants[0].Factor) / math.Log(truth)
			if math.Abs(truth-1) > 0.01 {
				require.InDelta(t, float64(n)*prior.Between/(float64(n)*prior.Between+prior.Within), log, 1e-6)
				require.Greater(t, log, before)
			}
			before = log
			require.Equal(t, n > 2, fit.LeftOut != nil)
		}
	})
}

// One constant for two runs of different settings, the network's first; a run that is left out is predicted by the
// others.
func TestConstantsInOrder(t *testing.T) {
	steps, shares := []float64{1, 2, 3, 4}, []float64{0.5, 0.1, 0.3, 0.2}
	predict, weak := networks(steps, shares), site.Prior{Between: 100, Within: 1e-4}
	var slow []float64
	for i := range steps {
		s, err := predict(i, []float64{math.Log(0.5), math.Log(0.9), 0})
		require.NoError(t, err)
		slow = append(slow, s)
	}
	fit, err := site.New(measured(slow...), predict, weak)
	require.NoError(t, err)
	require.Equal(t, []string{"machine.network.speedup", "machine.clock"}, []string{fit.Constants[0].Key, fit.Constants[1].Key})
	require.InDelta(t, 0.5, fit.Constants[0].Factor, 1e-3)
	require.InDelta(t, 0.9, fit.Constants[1].Factor, 1e-3)
	require.Less(t, fit.After, 1e-3)
	require.Less(t, fit.After, *fit.LeftOut, "three runs have one constant")
	fit, err = site.New(measured(slow[:3]...), predict, weak)
	require.NoError(t, err)
	require.Len(t, fit.Constants, 1)
	same := measured(slow...)
	for i := range same {
		same[i].Config = "run"
	}
	fit, err = site.New(same, predict, weak)
	require.NoError(t, err)
	require.Len(t, fit.Constants, 1, "all have the same settings")
	_, err = site.New(measured(1, 2), func(int, []float64) (float64, error) { return 1, nil }, weak)
	require.ErrorContains(t, err, "say nothing of the site")
}

func TestText(t *testing.T) {
	fit, err := site.New(measured(1.1, 2.1, 3.3), networks([]float64{1, 2, 3}, []float64{0.5, 0, 0}), site.Prior{Between: 0.01, Within: 0.005})
	require.NoError(t, err)
	var b strings.Builder
	require.NoError(t, fit.WriteText(&b, "runs.csv", "psim run x --set machine.site=mysite.toml"))
	require.NoError(t, fit.WriteTOML(&b, 0.015, "runs\n.csv"))
	require.NoError(t, fit.WriteJSON(&b))
	golden.Equal(t, "fit.txt", b.String())
	fit, err = site.New(measured(1.1, 2.1), networks([]float64{1, 2, 3}, []float64{0.5, 0, 0}), site.Prior{Between: 0.01, Within: 0.005})
	require.NoError(t, err)
	b.Reset()
	require.NoError(t, fit.WriteTOML(&b, 0.015, "runs.csv"))
	require.Contains(t, b.String(), "left out by run, is not known")
	require.NotContains(t, b.String(), "site.run")
}

// failing is a file that is full.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestFullDisk(t *testing.T) {
	fit := &site.SiteFit{}
	require.Error(t, fit.WriteTOML(failing{}, 0, ""))
	require.Error(t, fit.WriteText(failing{}, "", "x"))
}
