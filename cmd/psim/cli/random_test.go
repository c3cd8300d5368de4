package cli

import (
	"context"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
)

// mostTasks bounds the graphs of random configurations, which are many.
const mostTasks = 5_000

// Random configurations: whatever they hold, a run ends with a result or with one line. A result has
// no number that is none, no time below zero, and parts that add up; another order of the keys gives
// the same bytes. PSIM_RANDOM is the number of configurations that must be valid, and PSIM_SEED the
// seed of the first. A panic ends the test: the configuration is then in the folder that it names first.
func TestRandomConfigs(t *testing.T) {
	random := randomRuns{T: t, folder: t.TempDir(), refused: map[string]int{}}
	t.Log(random.folder)
	want, seed := number("PSIM_RANDOM", 100), uint64(number("PSIM_SEED", 1390))
	for ; random.valid < want && !t.Failed(); seed++ {
		random.one(seed)
	}
	t.Logf("%d configurations, %d of them valid after %d repairs", random.drawn, random.valid, random.repairs)
	if testing.Verbose() {
		random.log()
	}
}

// number returns a number of the environment.
func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// randomRuns counts runs of random configurations.
type randomRuns struct {
	*testing.T
	folder                string
	drawn, valid, repairs int
	refused               map[string]int // by message without its numbers
}

// log prints how often each reason refused a configuration.
func (r *randomRuns) log() {
	reasons := slices.SortedFunc(maps.Keys(r.refused), func(a, b string) int { return r.refused[b] - r.refused[a] })
	for _, reason := range reasons[:min(len(reasons), 400)] {
		r.Logf("%6d %s", r.refused[reason], reason)
	}
}

// one draws a configuration and repairs it until it is valid.
func (r *randomRuns) one(seed uint64) {
	d := &drawer{Rand: rand.New(rand.NewPCG(seed, 0))}
	c := d.config()
	r.drawn++
	for range 60 {
		path := r.write("random", c.file(false))
		if parsed, err := configs.Load(path); err == nil && !small(parsed) {
			return
		}
		stdout, message := r.run(seed, path, "run", path, "--json", "--quiet", "--out", "-")
		if message == "" {
			r.check(seed, d, c, stdout)
			r.valid++
			return
		}
		if !d.repair(c, message) {
			return
		}
		r.repairs++
	}
}

// small reports whether a configuration is small enough to run many of its size.
func small(c *configs.Config) bool {
	return c.Tasks()*float64(max(1, c.Parallel.Data)) <= mostTasks && c.Model.Layers*max(1, c.Model.Experts) <= 1<<10 &&
		c.Model.MTPLayers <= 16
}

func (r *randomRuns) write(name, text string) string {
	path := filepath.Join(r.folder, name+".toml")
	require.NoError(r, os.WriteFile(path, []byte(text), 0o600))
	return path
}

var (
	noMessage = regexp.MustCompile(`%!|\bpanic\b|goroutine|nil pointer`)
	noNumber  = regexp.MustCompile(`NaN|\bInf\b`)
)

// run runs psim. It returns what it printed, or the line with which it refused.
func (r *randomRuns) run(seed uint64, path string, args ...string) (stdout, message string) {
	var out, errs strings.Builder
	code := Run(context.Background(), args, &out, &errs)
	lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(errs.String()), "\n"), func(line string) bool {
		return strings.HasPrefix(line, "warning: ")
	})
	text, _ := os.ReadFile(path)
	about := func() string {
		return "seed " + strconv.FormatUint(seed, 10) + ", psim " + strings.Join(args, " ") + "\n" + string(text)
	}
	require.NotRegexp(r, noMessage, out.String()+errs.String(), about())
	if code == 0 {
		require.NotRegexp(r, noNumber, out.String()+errs.String(), about())
		return out.String(), ""
	}
	require.Contains(r, []int{1, 2}, code, about())
	require.Len(r, lines, 1, "%s\n%s", about(), errs.String())
	require.True(r, strings.HasPrefix(lines[0], "psim: ") && len(lines[0]) > 20, "%s\n%s", about(), lines[0])
	r.refused[strconv.Itoa(code)+" "+digits.ReplaceAllString(strings.ReplaceAll(lines[0], r.folder, ""), "0")]++
	return "", lines[0]
}

var digits = regexp.MustCompile(`[0-9.]+`)

// durations are what psim itself took, which differs from run to run.
var durations = regexp.MustCompile(`"(build_s|simulation_s)": [^,\n]+`)

// check looks at the result of a valid configuration, and runs it in other forms.
func (r *randomRuns) check(seed uint64, d *drawer, c drawnConfig, stdout string) {
	about := "seed " + strconv.FormatUint(seed, 10) + "\n" + c.file(false)
	var result map[string]any
	decoder := json.NewDecoder(strings.NewReader(stdout))
	decoder.UseNumber()
	require.NoError(r, decoder.Decode(&result), about)
	checkNumbers(r.T, "", result, about)
	step := float(result["step_time_s"])
	for _, rank := range result["ranks"].([]any) {
		checkRank(r.T, rank.(map[string]any), step, about)
	}
	require.GreaterOrEqual(r, step+1e-9, float(result["makespan_s"]), about)
	for _, key := range []string{"makespan", "span"} {
		require.LessOrEqual(r, float(result["bubble"].(map[string]any)[key]), 1., about)
	}
	path := r.write("random", c.file(true))
	again, message := r.run(seed, path, "run", path, "--json", "--quiet", "--out", "-")
	require.Empty(r, message, about)
	require.Equal(r, durations.ReplaceAllString(stdout, ""), durations.ReplaceAllString(again, ""), about)
	if d.chance(.1) { // as text, explained, with all files
		_, message := r.run(seed, path, "run", path, "--explain", "--quiet", "--out", filepath.Join(r.folder, "out"))
		require.Empty(r, message, about)
	}
	if d.chance(.1) {
		r.run(seed, path, "sweep", path, "--vary", "schedule.microbatches="+d.number()+","+d.number(), "--vary",
			"parallel.data="+d.number(), "--csv", "--quiet", "--out", "-")
	}
	if name, err := strconv.Unquote(c["schedule.name"]); err == nil && d.chance(.3) {
		r.run(seed, path, "schedule", name, "--stages", d.number(), "--microbatches", d.number(), "--virtual",
			d.number(), "--format", pick(d, "text", "csv", "json"))
	}
}

// checkRank wants the parts of a rank's time and memory to add up.
func checkRank(t *testing.T, rank map[string]any, step float64, about string) {
	sum := 0.
	for _, part := range []string{"compute_s", "exposed_communication_s", "optimizer_s", "idle_s"} {
		sum += float(rank[part])
	}
	require.InEpsilon(t, step+1, sum+1, 1e-9, "%v\n%s", rank, about)
	if parts, ok := rank["memory_bytes"].(map[string]any); ok {
		sum := 0.
		for _, bytes := range parts {
			sum += float(bytes)
		}
		require.InDelta(t, float(rank["peak_memory_bytes"]), sum, 1e-9*sum, "%v\n%s", rank, about)
	}
}

func float(x any) float64 {
	value, _ := x.(json.Number).Float64()
	return value
}

// checkNumbers wants no number below zero.
func checkNumbers(t *testing.T, at string, value any, about string) {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			if key != "config" {
				checkNumbers(t, at+"."+key, inner, about)
			}
		}
	case []any:
		for i, inner := range value {
			checkNumbers(t, at+"["+strconv.Itoa(i)+"]", inner, about)
		}
	case json.Number:
		require.GreaterOrEqual(t, float(value), 0., "%s\n%s", at, about)
	}
}
