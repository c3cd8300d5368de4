package cli

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A student's files can be used like a result: compared with a prediction, and drawn next to it.
// Doubts about them are printed.
func TestCourseFiles(t *testing.T) {
	root := userFolder(t)
	files := filepath.Join(root, "courses", "coursefile", "testdata")
	one, two, model := filepath.Join(files, "cs1390", "stats_ddp1.json"), filepath.Join(files, "cs1390", "stats_ddp2.json"), filepath.Join(files, "cs1390", "stats_model3.json")

	stdout, stderr, code := psim(t, "psim compare --json model=3 "+model)
	require.Zero(t, code, stderr)
	var c map[string]any
	require.NoError(t, json.Unmarshal([]byte(stdout), &c))
	require.Contains(t, c, "step_time_error")
	require.Contains(t, c, "bubble_error")
	require.NotContains(t, c, "peak_memory_error")
	stdout, stderr, code = psim(t, "psim compare "+filepath.Join(files, "workdir_dual_gpu")+" "+filepath.Join(files, "pipeline_parallel.log")+" --json")
	require.Zero(t, code, stderr)
	clear(c)
	require.NoError(t, json.Unmarshal([]byte(stdout), &c))
	require.NotContains(t, c, "by_part")
	require.NotContains(t, c, "bubble_error")

	for _, line := range []string{
		"split-time ddp=1,2 " + one + " " + two, "throughput " + filepath.Join(files, "cs1390"), "timeline model=3 " + model,
		"compare model=3 " + model, "time " + filepath.Join(files, "homework4.txt"), "efficiency " + one + " " + two,
		"metric training_time ddp=2 " + two,
	} {
		_, stderr, code := psim(t, "psim plot "+line)
		require.Zero(t, code, stderr)
		require.Regexp(t, `(?m)^warning: .*stats_\w+.json.*: it has only|its? t|warning: .*homework4.txt`, stderr)
	}
	for line, message := range map[string]string{
		"compare " + model: "is of a course's scripts, which predict nothing",
		"compare " + filepath.Join(files, "performance_summary.json") + " model=3": "holds 4 results",
		"compare modle=3 " + model: `unknown mode "modle"`,
		"plot memory " + one:       "says nothing of memory",
		"plot split-time " + filepath.Join(files, "homework4.txt"): "not what it is made of",
		"plot metric bubble.makespan model=3 " + one:               "has no bubble.makespan",
		"plot metric ranks.peak_memory_bytes ddp=1 " + one:         "has no ranks.peak_memory_bytes",
		"plot loss " + one:     "has no losses",
		"plot timeline " + one: "has no trace",
	} {
		_, stderr, code := psim(t, "psim "+line)
		require.Equal(t, 2, code)
		require.Contains(t, stderr, message, line)
	}
}
