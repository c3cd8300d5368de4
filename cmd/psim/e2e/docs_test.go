package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"psim/cmd/psim/cli"
	"psim/internal/golden"
)

// notRun maps the commands of documents that a test cannot run to the line of .ci/run that runs each
// of them.
var notRun = map[string]string{
	"GOEXPERIMENT=simd go test ./...":                                                            "GOEXPERIMENT=simd go test ./...",
	"GOEXPERIMENT=simd CGO_ENABLED=1 go build -tags xla ./cmd/psim":                              "go build -tags xla -o /dev/null ./cmd/psim",
	"psim exec mine.toml --engine torch --check all":                                             "make peers-python",
	"psim calibrate --engine torch exec --set schedule.name=zbv --set schedule.virtual_stages=2": "make peers-python",
	"psim run my-torch.toml --set schedule.microbatches=8":                                       "make peers-python",
}

// documents lists the README and the documents that it leads to.
func documents(t *testing.T) []string {
	list, err := filepath.Glob(filepath.Join(root(t), "docs", "*.md"))
	require.NoError(t, err)
	require.Greater(t, len(list), 10)
	developers, err := filepath.Glob(filepath.Join(root(t), "docs", "dev", "*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, developers)
	return slices.Concat([]string{filepath.Join(root(t), "README.md")}, list, developers)
}

// blocks matches commands with their output (console), and commands without it (sh), because it
// differs from run to run.
var blocks = regexp.MustCompile("(?s)```(console|sh)\n(.*?)```")

// TestDocuments runs the commands of every document in order, and compares the output.
func TestDocuments(t *testing.T) {
	t.Parallel()
	list := documents(t)
	var commands, checked atomic.Int64
	t.Cleanup(func() {
		if n := commands.Load(); int(checked.Load()) == len(list) && n <= 25 {
			t.Errorf("all documents have %d commands", n)
		}
	})
	for _, path := range list {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			commands.Add(checkDocument(t, path))
			checked.Add(1)
		})
	}
}

// checkDocument runs the commands of a document in a folder of its own, and returns their number.
func checkDocument(t *testing.T, path string) (commands int64) {
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	text := string(data)
	if !blocks.MatchString(text) {
		return 0
	}
	u := newReader(t)
	actual := blocks.ReplaceAllStringFunc(text, func(b string) string {
		kind, body := blocks.FindStringSubmatch(b)[1], blocks.FindStringSubmatch(b)[2]
		var out strings.Builder
		for line := range strings.Lines(body) {
			line = strings.TrimSuffix(line, "\n")
			switch command, shown := strings.CutPrefix(line, "$ "); {
			case shown:
				out.WriteString(line + "\n" + u.terminal(t, command))
			case kind == "sh":
				out.WriteString(line + "\n")
				u.terminal(t, line)
			default:
				continue // output
			}
			commands++
		}
		return "```" + kind + "\n" + out.String() + "```"
	})
	if golden.Updating() {
		require.NoError(t, os.WriteFile(path, []byte(actual), 0o644))
	} else {
		require.Equal(t, text, actual, "rewrite with: go test ./cmd/psim/e2e -update")
	}
	if filepath.Base(path) == "README.md" {
		checkShown(t, u.path("out/gpipe/timeline.png"), filepath.Join(root(t), "docs", "gpipe.png"))
	}
	for _, m := range images.FindAllStringSubmatch(text, -1) {
		if _, err := os.Stat(u.path(m[1])); err == nil { // drawn by a command of the document
			checkShown(t, u.path(m[1]), filepath.Join(filepath.Dir(path), m[1]))
		}
	}
	return commands
}

// images matches the pictures that a document shows from its own folder.
var images = regexp.MustCompile(`!\[[^]]*\]\(([^/)]+\.png)\)`)

// checkShown compares a picture of a document with the picture that the document's command has drawn.
func checkShown(t *testing.T, drawn, path string) {
	picture, err := os.ReadFile(drawn)
	require.NoError(t, err)
	if golden.Updating() {
		require.NoError(t, os.WriteFile(path, picture, 0o644))
		return
	}
	kept, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, samePicture(t, kept, picture), "%s differs from what psim draws; rewrite with: go test ./cmd/psim/e2e -update", path)
}

// terminal returns what a terminal shows after a line of a document.
func (u user) terminal(t *testing.T, line string) string {
	if stands, ok := notRun[line]; ok {
		data, err := os.ReadFile(filepath.Join(root(t), ".ci", "run"))
		require.NoError(t, err)
		require.Contains(t, string(data), stands+"\n")
		return ""
	}
	shown := ""
	for command := range strings.SplitSeq(line, " && ") {
		command, file, redirected := strings.Cut(command, " > ")
		command, ok := small(strings.Replace(command, "GOEXPERIMENT=simd go run ./cmd/psim", "psim", 1))
		if !ok {
			continue
		}
		stdout, stderr, code := u.played(t, command)
		require.Zero(t, code, "%s: %s", command, stderr)
		if redirected {
			u.write(t, file, stdout)
			stdout = ""
		}
		shown += stdout + stderr
	}
	return shown
}

// small returns the command for a network that trains in a moment, and whether a test can run it.
func small(command string) (string, bool) {
	switch {
	case testing.Short() && (trains(command) || strings.Contains(command, "my-machine.toml")), // for minutes, under the race detector
		strings.Contains(command, "xla"),            // needs a GPU
		strings.HasPrefix(command, "psim status"),   // needs Slurm: .ci/slurm
		strings.Contains(command, "--engine torch"): // needs PyTorch: make peers-python has it
		return "", false
	case strings.HasPrefix(command, "psim validate --executed"):
		command += " exec-mlp --gpus 4 --oversubscribe --steps 1 --runs 1 --set batch.global=8 --set model.layers=8 --set model.hidden=16" // more devices than cores: the machine is not timed
		if !long() {
			command += " fsdp-gloo" // only one of 18 runs
		}
	case strings.HasPrefix(command, "psim reproduce"): // the tests of courses measure
		command, _, _ = strings.Cut(strings.Replace(command, " --measure", "", 1), " --budget")
	case strings.HasPrefix(command, "psim exec"):
		return smallExec(command), true
	case strings.HasPrefix(command, "psim calibrate") && trains(command):
		command += " --repeats 1 --set model.hidden=16 --set model.heads=2 --set model.vocab=32 --set model.sequence_length=8"
	}
	return command, true
}

// smallExec returns the command for an execution that takes a moment: a small network, on devices that
// share cores unless the command gives their number of cores.
func smallExec(command string) string {
	network, shares := tiny, !long() && !strings.Contains(command, "--cores-per-worker")
	switch {
	case strings.Contains(command, "--sizes"): // trains nothing
		network = " --repeats 1"
		if !long() {
			network += " --sizes 8B-32B"
		}
	case strings.HasPrefix(command, "psim exec vgg16-cpu-model"), strings.HasPrefix(command, "psim exec vgg16-cpu-pipeline"):
		network = " --steps 1 --repeats 1 --set batch.global=8 --set model.preset=vgg-mini-pipeline"
	case strings.HasPrefix(command, "psim exec vgg16-cpu-"):
		network = " --steps 1 --repeats 1 --set batch.global=8 --set model.preset=vgg-mini"
	case strings.Contains(command, "--epochs"): // the epochs determine the steps
		network = strings.Replace(tiny, "--steps 2", "", 1)
	}
	if !shares {
		return command + network + " --oversubscribe"
	}
	if !strings.Contains(command, "--out") && !strings.Contains(command, "--sizes") { // pictures take time
		network += " --out -"
	}
	return command + network + untimed
}

// TestHelpExamples runs every example of the command's help, in the order of
// the manual.
func TestHelpExamples(t *testing.T) {
	t.Parallel()
	u := newReader(t)
	examples := 0
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		for line := range strings.Lines(c.Example) {
			command, _, _ := strings.Cut(strings.TrimSpace(line), "   ") // a remark follows after spaces
			command, _, _ = strings.Cut(command, " > ")
			command, ok := small(command)
			if !ok {
				continue
			}
			_, stderr, code := u.played(t, command)
			require.Zero(t, code, "%s: %s", command, stderr)
			examples++
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(cli.New())
	require.Greater(t, examples, 12)
}

// trains reports whether a command runs networks for real.
func trains(command string) bool {
	for _, verb := range []string{"psim exec", "psim validate --executed", "psim calibrate", "psim doctor"} {
		if strings.HasPrefix(command, verb) {
			return !strings.Contains(command, "--nccl") && !strings.Contains(command, "--runs")
		}
	}
	return false
}

// TestREADMEPredictions recomputes the predicted steps of the README's table, and looks up its other
// numbers in the documents that are their source.
func TestREADMEPredictions(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	data, err := os.ReadFile(filepath.Join(root(t), "README.md"))
	require.NoError(t, err)
	rows := regexp.MustCompile(`(?m)^\| ((?:gpt2|vgg16)-\S+) \| (\S+ m?s) \|`).FindAllStringSubmatch(string(data), -1)
	require.Len(t, rows, 7)
	for _, row := range rows {
		stdout, _, code := u.psim(t, "psim run "+row[1]+" --out -")
		require.Zero(t, code)
		require.Regexp(t, `step time +`+regexp.QuoteMeta(row[2])+`\n`, stdout, row[1])
	}
	text := strings.Join(strings.Fields(string(data)), " ")
	accuracy, err := os.ReadFile(filepath.Join(root(t), "docs", "accuracy", "tables.md"))
	require.NoError(t, err)
	tables := strings.Count(string(accuracy), "\n| [")
	require.Contains(t, text, fmt.Sprintf("replays %d published tables", tables))
	executed, err := os.ReadFile(filepath.Join(root(t), "docs", "executed.md"))
	require.NoError(t, err)
	errors := regexp.MustCompile(`Step time: median error (\S+ %), worst (\S+ %)`).FindStringSubmatch(string(executed))
	require.Len(t, errors, 3)
	require.Contains(t, text, fmt.Sprintf("holds %d steps", strings.Count(string(executed), "\n| ")-1))
	require.Contains(t, text, fmt.Sprintf("the median error of the step time is %s, the worst %s", errors[1], errors[2]))
}
