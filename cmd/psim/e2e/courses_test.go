package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every command of the tables in docs/courses.md runs.
func TestCoursesTables(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	data, err := os.ReadFile(filepath.Join(root(t), "docs", "courses.md"))
	require.NoError(t, err)
	commands := 0
	tables, _, _ := strings.Cut(string(data), "## Line by line") // make course-lines runs those
	for line := range strings.Lines(tables) {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		for _, m := range inline.FindAllStringSubmatch(line, -1) {
			if command := m[1]; strings.HasPrefix(command, "psim ") {
				switch verb := strings.Fields(command)[1]; { // pictures and large batches take time
				case verb == "run" && strings.Contains(command, " --") && !strings.Contains(command, "--out"):
					command += " --out -"
				case verb == "exec":
					command += " --out - --set batch.global=16"
				}
				u.terminal(t, command)
				commands++
			}
		}
	}
	require.Greater(t, commands, 35)
}

// Each command below a figure of an assignment makes that very figure, and so do the commands of
// the questions.
func TestReproduceCommands(t *testing.T) {
	t.Parallel()
	shown := regexp.MustCompile(`\n!\[[^\]]*\]\((.*)\)\n\n.* By \x60(psim plot .*)\x60\.`)
	for course, want := range map[string]struct {
		sheet   string
		figures int
	}{"cs1390": {"README.md", 12}, "hw4": {"answers.md", 2}} {
		u := newUser(t)
		u.terminal(t, "psim reproduce "+course+" --out made")
		made := u.contents(t, "made")
		u.folder = u.path("again")
		drawn := map[string]bool{}
		for _, m := range shown.FindAllStringSubmatch(made[want.sheet], -1) {
			for name, text := range made {
				if strings.HasPrefix(name, "results/") {
					u.write(t, name, text)
				}
			}
			require.NoError(t, os.MkdirAll(filepath.Dir(u.path(m[1])), 0o755))
			u.terminal(t, m[2])
			require.True(t, made[m[1]] == u.read(t, m[1]), "%s: another figure than %s", m[2], m[1])
			drawn[m[1]] = true
		}
		require.Len(t, drawn, want.figures, course)
	}
	u := newUser(t)
	u.terminal(t, "psim reproduce cs1390 --out made")
	made := u.contents(t, "made")
	require.NoError(t, os.MkdirAll(u.path("graphs"), 0o755))
	out, _, _ := u.psim(t, "psim validate T3.2 --json")
	var sheet struct {
		Questions []struct {
			Graphs []struct{ File, Command string }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out), &sheet))
	graph := sheet.Questions[0].Graphs[0]
	for _, command := range strings.Split(graph.Command, " && ") {
		u.terminal(t, command)
	}
	require.True(t, made[graph.File] == u.read(t, graph.File), "%s: another figure", graph.Command)
}

// script runs a recipe in bash, with psim on its PATH and the variables that a scheduler sets. Its
// srun starts all processes on this machine.
func (u user) script(t *testing.T, line string, environment ...string) string {
	bin := t.TempDir()
	program := program
	if over := os.Getenv("PSIM_MPI"); over != "" {
		program = over
	}
	for name, text := range map[string]string{
		"psim": fmt.Sprintf("exec %q \"$@\"", program),
		"srun": `while [ "${1#--}" != "$1" ]; do shift; done
for rank in $(seq 1 $((${SLURM_NTASKS:-1} - 1))); do SLURM_PROCID=$rank SLURM_LOCALID=$rank "$@" & done
SLURM_PROCID=0 SLURM_LOCALID=0 "$@"
wait`,
		"scontrol": `echo localhost; echo elsewhere`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755))
	}
	cmd := exec.CommandContext(t.Context(), "bash", strings.Fields(line)...)
	cmd.Dir = u.folder
	cmd.Env = append(append(os.Environ(), asPsim+"=small", "PATH="+bin+":"+os.Getenv("PATH")), environment...)
	shown, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s: %s", line, shown)
	return string(shown)
}

// The recipes' scripts run as their schedulers run them, and their parts merge.
func TestRecipes(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash")
	}
	u, recipes := newUser(t), filepath.Join(root(t), "docs", "recipes")
	out := u.path("out")
	sweep := filepath.Join(recipes, "sweep.sbatch")
	for task := 1; task <= 4; task++ {
		u.script(t, sweep, "OUT="+out, fmt.Sprint("SLURM_ARRAY_TASK_ID=", task), "SLURM_ARRAY_TASK_MIN=1", "SLURM_ARRAY_TASK_MAX=4", "SLURM_ARRAY_TASK_COUNT=4")
	}
	u.script(t, sweep, "OUT="+out, "MERGE=1", "SLURM_ARRAY_TASK_ID=0")
	require.Len(t, u.jsonLines(t, "out/sweep/sweep.jsonl"), 8)

	manifest, err := os.ReadFile(filepath.Join(recipes, "sweep-job.yaml"))
	require.NoError(t, err)
	list := regexp.MustCompile(`command: \[(.*)\]`).FindStringSubmatch(string(manifest))
	merge := regexp.MustCompile(`#   (psim merge .*)`).FindStringSubmatch(string(manifest))
	command := strings.ReplaceAll(strings.ReplaceAll(list[1], ", ", " "), `"`, "")
	for pod := range 4 {
		u.environment = []string{fmt.Sprint("JOB_COMPLETION_INDEX=", pod)}
		u.terminal(t, strings.ReplaceAll(command, "/out/", "out/pods/"))
	}
	u.terminal(t, strings.ReplaceAll(merge[1], "/out/", "out/pods/"))
	require.Equal(t, u.jsonLines(t, "out/sweep/sweep.jsonl"), u.jsonLines(t, "out/pods/sweep/sweep.jsonl"))

	if !testing.Short() {
		shown := u.script(t, filepath.Join(recipes, "exec.sbatch"), "OUT="+out, "SLURM_CPUS_PER_TASK=2")
		require.Contains(t, shown, "measured (B) against predicted (A)")
		readme, err := os.ReadFile(filepath.Join(recipes, "README.md"))
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`(?m)^docker run .* (psim .*)$`).FindAllStringSubmatch(string(readme), -1) {
			u.terminal(t, m[1])
		}
	}
}

// The courses' set-ups run with a process for every worker: copies of psim, or over MPI
// with the test's binary that PSIM_MPI names.
func TestRecipesProcesses(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash")
	}
	if testing.Short() {
		t.Skip("trains")
	}
	u, recipes := newUser(t), filepath.Join(root(t), "docs", "recipes")
	out := u.path("out")
	environment, more := []string{"OUT=" + out}, ""
	if os.Getenv("PSIM_MPI") == "" {
		environment, more = append(environment, "LAUNCH="), " --processes 2"
	}
	for name, folders := range map[string][]string{"cs1390.sh": {"cs1390-ddp", "cs1390-fsdp", "cs1390-model", "cs1390-pipeline"}, "hw4.sh": {"hw4-data-parallel", "hw4-pipeline", "tests"}} {
		u.script(t, filepath.Join(recipes, name)+more, environment...)
		for _, folder := range folders {
			require.DirExists(t, filepath.Join(out, folder))
		}
	}
	_, port := freeMaster(t)
	shown := u.script(t, filepath.Join(recipes, "processes.sbatch"), "OUT="+out, "SLURM_NTASKS=2", "SLURM_JOB_NODELIST=x", "PORT="+port)
	require.Contains(t, shown, "measured (B) against predicted (A)")
	require.Regexp(t, `processes +2, on .* rank 0, rank 1`, shown)
}

// jsonLines reads the lines of a sweep.
func (u user) jsonLines(t *testing.T, path string) (lines []map[string]any) {
	for line := range strings.Lines(u.read(t, path)) {
		var object map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &object))
		lines = append(lines, object)
	}
	return lines
}
