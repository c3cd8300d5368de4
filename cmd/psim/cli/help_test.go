package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"psim/internal/golden"
)

// psim runs a command line as the program would, and returns what it prints.
func psim(t *testing.T, line string) (stdout, stderr string, code int) {
	t.Helper()
	fields := strings.Fields(line)
	require.Equal(t, "psim", fields[0])
	var out, err bytes.Buffer
	code = Run(context.Background(), fields[1:], &out, &err)
	return out.String(), err.String(), code
}

// userFolder moves the test into an empty folder that has the repository's
// configs and a file of the user's own, as the examples in the manual assume.
func userFolder(t *testing.T) (root string) {
	t.Helper()
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	folder := t.TempDir()
	require.NoError(t, os.Symlink(filepath.Join(root, "configs"), filepath.Join(folder, "configs")))
	mine, err := os.ReadFile(filepath.Join(root, "configs", "gpipe.toml"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "my.toml"), mine, 0o644))
	t.Chdir(folder)
	return root
}

// TestHelp compares the manual with a golden file, so that changes are noticed.
func TestHelp(t *testing.T) {
	var all strings.Builder
	for _, verb := range append([]string{""}, verbNames(New())...) {
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
