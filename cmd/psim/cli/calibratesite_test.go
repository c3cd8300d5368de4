package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/results"
)

// siteRuns writes runs.csv with runs of llama3-70b that took some times as long as psim predicts.
func siteRuns(t *testing.T, times ...float64) {
	t.Helper()
	text := "config,step_time,batch.micro,batch.global\n"
	for i, by := range times {
		global := 128 << i
		stdout, stderr, code := psim(t, fmt.Sprintf("psim run llama3-70b --json --set batch.global=%d", global))
		require.Zero(t, code, stderr)
		var r results.Result
		require.NoError(t, json.Unmarshal([]byte(stdout), &r))
		text += fmt.Sprintf("llama3-70b,%.6fs,,%d\n", r.StepTime*by, global)
	}
	require.NoError(t, os.WriteFile("runs.csv", []byte(text), 0o644))
}

// stepOf predicts llama3-70b with settings.
func stepOf(t *testing.T, flags string) results.Result {
	t.Helper()
	stdout, stderr, code := psim(t, "psim run llama3-70b --json "+flags)
	require.Zero(t, code, stderr)
	var r results.Result
	require.NoError(t, json.Unmarshal([]byte(stdout), &r))
	return r
}

// A slow cluster's runs make a site, with which predictions are slower and their intervals narrower.
func TestCalibrateSite(t *testing.T) {
	userFolder(t)
	siteRuns(t, 1.2, 1.2, 1.2, 1.2)
	stdout, stderr, code := psim(t, "psim calibrate --runs runs.csv -o mysite.toml")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "machine.clock: 0.")
	require.Contains(t, stdout, "psim run llama3-70b --set machine.site=mysite.toml")
	before, after := stepOf(t, ""), stepOf(t, "--site mysite.toml")
	require.Greater(t, after.StepTime, 1.03*before.StepTime)
	require.Less(t, after.StepTime, 1.21*before.StepTime)
	require.Less(t, after.Interval.High/after.Interval.Low, before.Interval.High/before.Interval.Low)
	require.Contains(t, after.Interval.From, "4 runs of this site")
	// A key that is given stays.
	require.Equal(t, stepOf(t, "--set machine.network.speedup=1 --set machine.clock=1 --set machine.spread=0.015").StepTime,
		stepOf(t, "--site mysite.toml --set machine.network.speedup=1 --set machine.clock=1 --set machine.spread=0.015").StepTime)
	// In a configuration it is found next to it.
	mine, stderr, code := psim(t, "psim show llama3-70b")
	require.Zero(t, code, stderr)
	require.NoError(t, os.Mkdir("there", 0o755))
	require.NoError(t, os.WriteFile("there/mine.toml", []byte(mine+"\nsite = \"mysite.toml\"\n"), 0o644))
	require.NoError(t, os.Rename("mysite.toml", "there/mysite.toml"))
	stdout, stderr, code = psim(t, "psim run there/mine.toml --json")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, fmt.Sprintf("\"step_time_s\": %v", after.StepTime))
}

// With two runs the error is not known, and the interval is that of the same machine without runs.
func TestCalibrateTwoRuns(t *testing.T) {
	userFolder(t)
	siteRuns(t, 1.1, 1.1)
	stdout, stderr, code := psim(t, "psim calibrate --runs runs.csv --json")
	require.Zero(t, code, stderr)
	require.NotContains(t, stdout, "left_out")
	text := contents(t, ".")["my-site.toml"]
	require.Contains(t, text, "left out by run, is not known")
	set := ""
	for _, line := range regexp.MustCompile(`(?m)^(clock|spread) = .*$`).FindAllString(text, -1) {
		set += " --set machine." + strings.ReplaceAll(line, " ", "")
	}
	require.Contains(t, set, "machine.clock=")
	require.Equal(t, stepOf(t, set).Interval, stepOf(t, "--site my-site.toml").Interval)
	_, stderr, code = psim(t, "psim calibrate --runs runs.csv -o my-site.toml")
	require.Zero(t, code, "its own file is replaced: %s", stderr)
}

func TestSiteErrors(t *testing.T) {
	userFolder(t)
	write := func(name, text string) { require.NoError(t, os.WriteFile(name, []byte(text), 0o644)) }
	write("one.csv", "config,step_time\nllama3-70b,1s\n")
	write("apart.csv", "config,step_time\nllama3-70b,1s\nllama3-70b,1.2s\n")
	write("nowhere.csv", "config,step_time\nnowhere,1s\ngpipe,1s\n")
	write("times.csv", "config,step_time\n1f1b,1s\ncourse-timeline,1s\n")
	write("key.csv", "config,step_time,model.size\nllama3-70b,1s,3\nllama3-70b,1s,4\n")
	write("other.toml", "[machine]\ndevice = \"t4\"\n")
	write("range.toml", "[machine]\nclock = -1\n")
	write("empty.toml", "")
	write("cut.toml", "[[site.run]]\nerror = 0.1\n[[site.run]]\n")
	write("short.csv", "config,step_time\nllama3-70b,9.1s\nllama3-70b,9.2s\n")
	write("again.csv", "config,step_time,machine.site\nllama3-70b,90s,own.toml\nllama3-70b,91s,own.toml\n")
	write("own.toml", "[machine]\nclock = 0.9\n")
	for line, want := range map[string]string{
		"calibrate --runs=":                            `--runs "": is an empty name; name a CSV file`,
		"calibrate --runs nothing.csv":                 "--runs nothing.csv: no such file",
		"calibrate --runs one.csv":                     "--runs one.csv: has 1 run; a constant takes two",
		"calibrate --runs apart.csv":                   "--runs apart.csv: lines 2 and 3 have the same settings and steps of 1.00 s and 1.20 s",
		"calibrate --runs nowhere.csv":                 "--runs nowhere.csv: line 2: nowhere",
		"calibrate --runs times.csv":                   "has no [model]",
		"calibrate --runs key.csv":                     "line 2: --set model.size=3: ",
		"calibrate --runs one.csv gpipe":               "--runs fits a site",
		"calibrate --runs one.csv --out -":             "--out -: name a file",
		"calibrate --runs one.csv --out one.csv":       "one.csv",
		"run llama3-70b --site nothing.toml --out -":   "nothing.toml",
		"run llama3-70b --site other.toml --out -":     "other.toml:2:11: machine.device: is not of a site, which may have machine.clock",
		"run llama3-70b --site range.toml --out -":     "range.toml:2:9: machine.clock = -1",
		"run llama3-70b --site empty.toml --out -":     `machine.site = "empty.toml": has no constants (machine.clock, machine.spread, machine.network.speedup) and no runs; is it cut off?`,
		"run llama3-70b --site cut.toml --out -":       "one of its 2 runs ([[site.run]]) has no error",
		"calibrate --runs short.csv":                   "--runs short.csv: line 2: step_time is 9.10 s, and 1 min 28.7 s is predicted: is it one step",
		"calibrate --runs again.csv":                   `line 2: llama3-70b: has machine.site = "own.toml"; a site is fitted from the catalog's constants`,
		"run llama3-70b --set machine.clock=3 --out -": "machine.clock",
	} {
		_, stderr, code := psim(t, "psim "+line)
		require.Equal(t, exitUsage, code, line)
		require.Contains(t, stderr, want, line)
		require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
	}
	// The site of another device or stack says so, and its runs do not count.
	write("far.toml", "[machine]\nclock = 1\n[site]\ndevice = \"t4\"\nstack = \"nanotron\"\n[[site.run]]\nerror = 0.5\n")
	stdout, _, code := psim(t, "psim run llama3-70b --site far.toml --out -")
	require.Zero(t, code)
	require.Contains(t, stdout, `warning: machine.site = "far.toml" was fitted to runs with the device t4, and this has h100-80gb-sxm: these runs do not count here`)
	require.Contains(t, stdout, "with the stack nanotron, and this has ")
	require.Equal(t, stepOf(t, "").Interval, stepOf(t, "--site far.toml").Interval)
}
