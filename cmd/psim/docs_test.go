package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"psim/internal/golden"
)

// psim runs a command line as the program would, and returns what it prints.
func psim(t *testing.T, line string) (stdout, stderr string, code int) {
	t.Helper()
	fields := strings.Fields(line)
	require.Equal(t, "psim", fields[0])
	var out, err bytes.Buffer
	code = run(context.Background(), fields[1:], &out, &err)
	return out.String(), err.String(), code
}

// userFolder moves the test into an empty folder that has the repository's
// configs and a file of the user's own, as the examples in the manual assume.
func userFolder(t *testing.T) (root string) {
	t.Helper()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	folder := t.TempDir()
	require.NoError(t, os.Symlink(filepath.Join(root, "configs"), filepath.Join(folder, "configs")))
	mine, err := os.ReadFile(filepath.Join(root, "configs", "gpipe.toml"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "my.toml"), mine, 0o644))
	t.Chdir(folder)
	return root
}

// notRun are the commands of documents that a test cannot run inside itself, with
// the line of .ci/run that stands for each.
var notRun = map[string]string{
	"GOEXPERIMENT=simd go test ./...":                               "GOEXPERIMENT=simd go test ./...",
	"GOEXPERIMENT=simd CGO_ENABLED=1 go build -tags xla ./cmd/psim": "go build -tags xla -o /dev/null ./cmd/psim",
}

// documents lists the README and what it leads to.
func documents(t *testing.T, root string) []string {
	list, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	require.Greater(t, len(list), 10)
	developers, err := filepath.Glob(filepath.Join(root, "docs", "dev", "*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, developers)
	return slices.Concat([]string{filepath.Join(root, "README.md")}, list, developers)
}

// blocks are commands with their output (console), and commands alone (sh), whose
// output differs from run to run.
var blocks = regexp.MustCompile("(?s)```(console|sh)\n(.*?)```")

// TestDocuments runs every command of every document, in its order, and compares
// the output.
func TestDocuments(t *testing.T) {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	commands, list := 0, documents(t, root)
	for _, path := range list {
		t.Run(filepath.Base(path), func(t *testing.T) {
			commands += checkDocument(t, path)
			list = list[1:]
		})
	}
	require.True(t, commands > 25 || len(list) > 0, "of all documents")
}

// checkDocument runs the commands of a document in a folder of its own, and returns
// how many there are.
func checkDocument(t *testing.T, path string) (commands int) {
	root := userFolder(t)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	text := string(data)
	if blocks.MatchString(text) {
		userFiles(t)
	}
	actual := blocks.ReplaceAllStringFunc(text, func(b string) string {
		kind, body := blocks.FindStringSubmatch(b)[1], blocks.FindStringSubmatch(b)[2]
		var out strings.Builder
		for line := range strings.Lines(body) {
			line = strings.TrimSuffix(line, "\n")
			switch command, shown := strings.CutPrefix(line, "$ "); {
			case shown:
				out.WriteString(line + "\n" + terminal(t, root, command))
			case kind == "sh":
				out.WriteString(line + "\n")
				terminal(t, root, line)
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
		require.Equal(t, text, actual, "rewrite with: go test ./cmd/psim -update")
	}
	if filepath.Base(path) == "README.md" {
		checkShown(t, "out/gpipe/timeline.png", filepath.Join(root, "docs", "gpipe.png"))
	}
	for _, m := range images.FindAllStringSubmatch(text, -1) {
		if _, err := os.Stat(m[1]); err == nil { // drawn by a command of the document
			checkShown(t, m[1], filepath.Join(filepath.Dir(path), m[1]))
		}
	}
	return commands
}

// images are the pictures that a document shows from its own folder.
var images = regexp.MustCompile(`!\[[^]]*\]\(([^/)]+\.png)\)`)

// checkShown compares a picture of a document with the one that a command of it has
// drawn.
func checkShown(t *testing.T, drawn, path string) {
	picture, err := os.ReadFile(drawn)
	require.NoError(t, err)
	if golden.Updating() {
		require.NoError(t, os.WriteFile(path, picture, 0o644))
		return
	}
	kept, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, samePicture(t, kept, picture), "%s differs from what psim draws; rewrite with: go test ./cmd/psim -update", path)
}

// terminal returns what a terminal shows after a line of a document.
func terminal(t *testing.T, root, line string) string {
	if stands, ok := notRun[line]; ok {
		data, err := os.ReadFile(filepath.Join(root, ".ci", "run"))
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
		stdout, stderr, code := psim(t, command)
		require.Zero(t, code, "%s: %s", command, stderr)
		if redirected {
			require.NoError(t, os.WriteFile(file, []byte(stdout), 0o644))
			stdout = ""
		}
		shown += stdout + stderr
	}
	return shown
}

// small returns a command that does the same with networks that train in a moment,
// and whether a test can run it.
func small(command string) (string, bool) {
	switch {
	case testing.Short() && (trains(command) || strings.Contains(command, "my-machine.toml")), // for minutes, under the race detector
		strings.Contains(command, "xla"): // needs a GPU
		return "", false
	case strings.HasPrefix(command, "psim validate --executed"):
		command += " exec-mlp --gpus 4 --oversubscribe --steps 1 --runs 1 --set batch.global=8 --set model.layers=8 --set model.hidden=16" // more devices than cores: the machine is not timed
	case strings.HasPrefix(command, "psim reproduce"): // courses tests what is measured
		command, _, _ = strings.Cut(strings.Replace(command, " --measure", "", 1), " --budget")
	case strings.HasPrefix(command, "psim exec vgg16-cpu-"):
		_, mode, _ := strings.Cut(strings.Fields(command)[2], "vgg16-cpu-")
		command += " --oversubscribe --steps 1 --repeats 1 --set batch.global=8 --set model.preset=vgg-mini"
		if mode == "model" || mode == "pipeline" {
			command += "-pipeline"
		}
	case strings.HasPrefix(command, "psim exec") && strings.Contains(command, "--sizes"): // trains nothing
		command += " --oversubscribe --repeats 1"
	case strings.HasPrefix(command, "psim exec") && strings.Contains(command, "--epochs"): // which has its steps
		command += strings.Replace(tiny, "--steps 2", "", 1)
	case strings.HasPrefix(command, "psim exec"):
		command += tiny
	case strings.HasPrefix(command, "psim calibrate") && !strings.Contains(command, "--nccl"):
		command += " --repeats 1 --set model.hidden=16 --set model.heads=2 --set model.vocab=32 --set model.sequence_length=8"
	}
	return command, true
}

// userFiles writes what the documents' commands read beside configurations: results, those
// of a course's scripts too, and the output of nccl-tests.
func userFiles(t *testing.T) {
	const shard = "psim sweep gpipe --vary parallel.data=1,2,4 --out out/parts --shard "
	for _, line := range []string{"psim run gpipe", "psim run 1f1b", shard + "1/2", shard + "2/2"} {
		_, stderr, code := psim(t, line)
		require.Zero(t, code, stderr)
	}
	saveMeasured(t, "out/measured")
	configs, err := filepath.EvalSymlinks("configs")
	require.NoError(t, err)
	saved := filepath.Join(filepath.Dir(configs), "courses", "coursefile", "testdata")
	for name, folder := range map[string]string{"data": "cs1390", "workdir_single_gpu": "workdir_single_gpu", "workdir_dual_gpu": "workdir_dual_gpu"} {
		require.NoError(t, os.Symlink(filepath.Join(saved, folder), name))
	}
	for _, name := range []string{"2-gpus.txt", "8-gpus.json", "all_reduce.txt", "all_gather.txt", "reduce_scatter.txt"} { // whatever is in them
		require.NoError(t, os.WriteFile(name, []byte(ncclOutput(2, 12, 50)), 0o644))
	}
}

// TestHelpExamples runs every example of the command's help, in the order of
// the manual.
func TestHelpExamples(t *testing.T) {
	userFolder(t)
	userFiles(t)
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
			_, stderr, code := psim(t, command)
			require.Zero(t, code, "%s: %s", command, stderr)
			examples++
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newRoot())
	require.Greater(t, examples, 12)
}

// trains reports whether a command runs networks for real.
func trains(command string) bool {
	for _, verb := range []string{"psim exec", "psim validate --executed", "psim calibrate", "psim doctor"} {
		if strings.HasPrefix(command, verb) {
			return !strings.Contains(command, "--nccl")
		}
	}
	return false
}

// TestHelp compares the manual with a golden file, so that a change of it is
// seen.
func TestHelp(t *testing.T) {
	var all strings.Builder
	for _, verb := range append([]string{""}, verbs(newRoot())...) {
		command := strings.TrimSpace("psim " + verb + " --help")
		stdout, _, code := psim(t, strings.Join(strings.Fields(command), " "))
		require.Zero(t, code)
		manual, _, _ := strings.Cut(stdout, "\nUsage:")
		for line := range strings.Lines(manual) {
			table := strings.HasPrefix(line, " ") || verb == "config" || verb == "result"
			require.True(t, table || utf8.RuneCountInString(line) <= 91, "%s: %s", command, line)
		}
		all.WriteString("$ " + command + "\n" + stdout + "\n")
	}
	golden.Equal(t, "help.txt", all.String())
}

// TestREADMEPredictions recomputes the predicted steps of the README's table, and finds
// its other numbers in the documents that they are from.
func TestREADMEPredictions(t *testing.T) {
	root := userFolder(t)
	data, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	rows := regexp.MustCompile(`(?m)^\| ((?:gpt2|vgg16)-\S+) \| (\S+ m?s) \|`).FindAllStringSubmatch(string(data), -1)
	require.Len(t, rows, 7)
	for _, row := range rows {
		stdout, _, code := psim(t, "psim run "+row[1]+" --out -")
		require.Zero(t, code)
		require.Regexp(t, `step time +`+regexp.QuoteMeta(row[2])+`\n`, stdout, row[1])
	}
	text := strings.Join(strings.Fields(string(data)), " ")
	accuracy, err := os.ReadFile(filepath.Join(root, "docs", "accuracy.md"))
	require.NoError(t, err)
	tables := strings.Count(string(accuracy), "\n| [")
	require.Contains(t, text, fmt.Sprintf("replays %d published tables", tables))
	executed, err := os.ReadFile(filepath.Join(root, "docs", "executed.md"))
	require.NoError(t, err)
	errors := regexp.MustCompile(`Step time: median error (\S+ %), worst (\S+ %)`).FindStringSubmatch(string(executed))
	require.Len(t, errors, 3)
	require.Contains(t, text, fmt.Sprintf("holds %d steps", strings.Count(string(executed), "\n| ")-1))
	require.Contains(t, text, fmt.Sprintf("the median error of the step time is %s, the worst %s", errors[1], errors[2]))
}
