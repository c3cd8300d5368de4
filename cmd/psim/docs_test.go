package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

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

// notRun are the commands of the README that a test cannot run inside itself,
// with the file that must contain them word for word.
var notRun = map[string]string{"GOEXPERIMENT=simd go test ./...": ".ci/run"}

var block = regexp.MustCompile("(?s)```console\n(.*?)```")

// TestREADME runs every console block and compares the output.
func TestREADME(t *testing.T) {
	root := userFolder(t)
	path := filepath.Join(root, "README.md")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	text := string(data)
	commands := 0
	actual := block.ReplaceAllStringFunc(text, func(b string) string {
		body := block.FindStringSubmatch(b)[1]
		var out strings.Builder
		for line := range strings.Lines(body) {
			if command, ok := strings.CutPrefix(strings.TrimSpace(line), "$ "); ok {
				commands++
				out.WriteString("$ " + command + "\n" + readmeOutput(t, root, command))
			}
		}
		return "```console\n" + out.String() + "```"
	})
	require.Greater(t, commands, 5)
	picture, err := os.ReadFile("out/gpipe/timeline.png")
	require.NoError(t, err, "the README's first command writes the picture")
	if golden.Updating() {
		require.NoError(t, os.WriteFile(path, []byte(actual), 0o644))
		require.NoError(t, os.WriteFile(filepath.Join(root, "docs", "gpipe.png"), picture, 0o644))
		return
	}
	require.Equal(t, text, actual, "rewrite with: go test ./cmd/psim -update")
	kept, err := os.ReadFile(filepath.Join(root, "docs", "gpipe.png"))
	require.NoError(t, err)
	require.True(t, samePicture(t, kept, picture), "docs/gpipe.png differs from what psim draws; rewrite with: go test ./cmd/psim -update")
}

// readmeOutput is what a terminal shows after a command of the README.
func readmeOutput(t *testing.T, root, command string) string {
	if file, ok := notRun[command]; ok {
		data, err := os.ReadFile(filepath.Join(root, file))
		require.NoError(t, err)
		require.Contains(t, string(data), "\n"+command+"\n", "%s must run the README's own command", file)
		return ""
	}
	command = strings.Replace(command, "GOEXPERIMENT=simd go run ./cmd/psim", "psim", 1)
	stdout, stderr, code := psim(t, command)
	require.Zero(t, code, "%s: %s", command, stderr)
	return stdout + stderr
}

// TestHelpExamples runs every example of the command's help, in the order of
// the manual.
func TestHelpExamples(t *testing.T) {
	userFolder(t)
	for _, saved := range []string{"gpipe", "1f1b"} { // results that psim plot's examples draw
		_, stderr, code := psim(t, "psim run "+saved)
		require.Zero(t, code, stderr)
	}
	saveMeasured(t, "out/measured")
	for _, name := range []string{"2-gpus.txt", "8-gpus.json", "all_reduce.txt", "all_gather.txt", "reduce_scatter.txt"} { // that psim calibrate's examples read, whatever is in them
		require.NoError(t, os.WriteFile(name, []byte(ncclOutput(2, 12, 50)), 0o644))
	}
	examples := 0
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		for line := range strings.Lines(c.Example) {
			command, _, _ := strings.Cut(strings.TrimSpace(line), "   ") // a remark follows after spaces
			command, _, _ = strings.Cut(command, " > ")
			if testing.Short() && (trains(command) || strings.Contains(command, "my-machine.toml")) {
				continue // for minutes, under the race detector, and what calibrate would have written
			}
			if strings.HasPrefix(command, "psim validate --executed") {
				command += " --oversubscribe --steps 1 --runs 1 --set model.layers=4 --set model.hidden=16"
			}
			if strings.HasPrefix(command, "psim exec") {
				if strings.Contains(command, "xla") {
					continue // needs a GPU
				}
				command += tiny
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
			return true
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
		all.WriteString("$ " + command + "\n" + stdout + "\n")
	}
	golden.Equal(t, "help.txt", all.String())
}

// TestREADMEPredictions recomputes the predicted steps of the README's table.
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
}
