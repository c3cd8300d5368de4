package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// asPsim has the test's binary run psim, for scripts: with small networks, or "itself".
const asPsim = "PSIM_AS_PSIM"

func TestMain(m *testing.M) {
	if text := os.Getenv(faultVariable); text != "" {
		attendFaulty(text)
	}
	if _, copied := os.LookupEnv("PSIM_PROCESS"); copied || os.Getenv(asPsim) == "itself" {
		main()
	}
	if os.Getenv(asPsim) != "" {
		if err := flag.CommandLine.Parse(nil); err != nil { // which testing wants
			panic(err)
		}
		command, _ := small(strings.Join(append([]string{"psim"}, os.Args[1:]...), " "))
		os.Exit(run(context.Background(), strings.Fields(command)[1:], os.Stdout, os.Stderr))
	}
	os.Setenv(asPsim, "itself") // in what psim starts
	os.Exit(m.Run())
}

// Every command of the tables in docs/courses.md runs.
func TestCoursesTables(t *testing.T) {
	root := userFolder(t)
	data, err := os.ReadFile(filepath.Join(root, "docs", "courses.md"))
	require.NoError(t, err)
	commands := 0
	for line := range strings.Lines(string(data)) {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		for _, m := range inline.FindAllStringSubmatch(line, -1) {
			if command := m[1]; strings.HasPrefix(command, "psim ") {
				switch verb := strings.Fields(command)[1]; { // pictures take time, and large batches
				case verb == "run" && strings.Contains(command, " --") && !strings.Contains(command, "--out"):
					command += " --out -"
				case verb == "exec":
					command += " --out - --set batch.global=16"
				}
				terminal(t, root, command)
				commands++
			}
		}
	}
	require.Greater(t, commands, 35)
}

// script runs a recipe in bash, with psim on its PATH and what a scheduler sets. Its
// srun starts one process.
func script(t *testing.T, line string, environment ...string) string {
	bin := t.TempDir()
	program := os.Args[0]
	if over := os.Getenv("PSIM_MPI"); over != "" {
		program = over
	}
	for name, text := range map[string]string{
		"psim": fmt.Sprintf("exec %q \"$@\"", program),
		"srun": `while [ "${1#--}" != "$1" ]; do shift; done; exec "$@"`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755))
	}
	cmd := exec.Command("bash", strings.Fields(line)...)
	cmd.Env = append(append(os.Environ(), asPsim+"=1", "PATH="+bin+":"+os.Getenv("PATH")), environment...)
	shown, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s: %s", line, shown)
	return string(shown)
}

// The recipes' scripts run as their schedulers run them, and their parts merge.
func TestRecipes(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash")
	}
	recipes := filepath.Join(userFolder(t), "docs", "recipes")
	out, err := filepath.Abs("out")
	require.NoError(t, err)
	sweep := filepath.Join(recipes, "sweep.sbatch")
	for task := 1; task <= 4; task++ {
		script(t, sweep, "OUT="+out, fmt.Sprint("SLURM_ARRAY_TASK_ID=", task), "SLURM_ARRAY_TASK_MIN=1", "SLURM_ARRAY_TASK_MAX=4", "SLURM_ARRAY_TASK_COUNT=4")
	}
	script(t, sweep, "OUT="+out, "MERGE=1", "SLURM_ARRAY_TASK_ID=0")
	require.Len(t, jsonLines(t, "out/sweep/sweep.jsonl"), 8)

	manifest, err := os.ReadFile(filepath.Join(recipes, "sweep-job.yaml"))
	require.NoError(t, err)
	list := regexp.MustCompile(`command: \[(.*)\]`).FindStringSubmatch(string(manifest))
	merge := regexp.MustCompile(`#   (psim merge .*)`).FindStringSubmatch(string(manifest))
	command := strings.ReplaceAll(strings.ReplaceAll(list[1], ", ", " "), `"`, "")
	for pod := range 4 {
		t.Setenv("JOB_COMPLETION_INDEX", fmt.Sprint(pod))
		terminal(t, "", strings.ReplaceAll(command, "/out/", "out/pods/"))
	}
	terminal(t, "", strings.ReplaceAll(merge[1], "/out/", "out/pods/"))
	require.Equal(t, jsonLines(t, "out/sweep/sweep.jsonl"), jsonLines(t, "out/pods/sweep/sweep.jsonl"))

	if !testing.Short() {
		shown := script(t, filepath.Join(recipes, "exec.sbatch"), "OUT="+out, "SLURM_CPUS_PER_TASK=2")
		require.Contains(t, shown, "measured (B) against predicted (A)")
		readme, err := os.ReadFile(filepath.Join(recipes, "README.md"))
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`(?m)^docker run .* (psim .*)$`).FindAllStringSubmatch(string(readme), -1) {
			terminal(t, "", m[1])
		}
	}
}

// The courses' set-ups run with a process for every worker: copies of psim, or over MPI
// with the test's binary that PSIM_MPI names.
func TestRecipesProcesses(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash")
	}
	if testing.Short() {
		t.Skip("trains")
	}
	recipes := filepath.Join(userFolder(t), "docs", "recipes")
	out, err := filepath.Abs("out")
	require.NoError(t, err)
	environment, more := []string{"OUT=" + out}, ""
	if os.Getenv("PSIM_MPI") == "" {
		environment, more = append(environment, "LAUNCH="), " --processes 2"
	}
	for name, folders := range map[string][]string{"cs1390.sh": {"cs1390-ddp", "cs1390-fsdp", "cs1390-model", "cs1390-pipeline"}, "hw4.sh": {"hw4-data-parallel", "hw4-pipeline", "tests"}} {
		script(t, filepath.Join(recipes, name)+more, environment...)
		for _, folder := range folders {
			require.DirExists(t, filepath.Join(out, folder))
		}
	}
	shown := script(t, filepath.Join(recipes, "processes.sbatch"), "OUT="+out, "SLURM_NTASKS=2")
	require.Contains(t, shown, "measured (B) against predicted (A)")
}

// jsonLines reads the lines of a sweep.
func jsonLines(t *testing.T, path string) (lines []map[string]any) {
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	for line := range strings.Lines(string(data)) {
		var object map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &object))
		lines = append(lines, object)
	}
	return lines
}
