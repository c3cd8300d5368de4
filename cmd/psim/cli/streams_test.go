package cli

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestVisible checks that no name can command the terminal.
func TestVisible(t *testing.T) {
	require.Equal(t, "a\tb\nµ …", visible("a\tb\nµ …"))
	require.Equal(t, `\u001b[31m\u007f\u009b\u000d`, visible("\x1b[31m\x7f\u009b\r"))
	require.Equal(t, `a\u202eb\u2066`, visible("a\u202eb\u2066"), "what turns text around")
	text, err := os.ReadFile("testdata/advice-changes-batch.toml")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("a\x1b[31m.toml", text, 0o600))
	for _, args := range [][]string{{"run", "a\x1b[31m.toml", "--out", "o\x1b]0;\a"}, {"run", "nope\x1b[31m"}, {"plot", "timeline", "o\x1b]0;\a", "--out", "\x1b.png"}} {
		var stdout, stderr strings.Builder
		Run(t.Context(), args, &stdout, &stderr)
		require.NotContains(t, stdout.String()+stderr.String(), "\x1b", args)
		require.Contains(t, stdout.String()+stderr.String(), `\u001b`, args)
	}
	for _, args := range [][]string{{"compare", "no\nname", "a"}, {"run", "no\nname"}, {"merge", "no\nname", "--out", "m"}} {
		var stderr strings.Builder
		require.Equal(t, exitUsage, Run(t.Context(), args, io.Discard, &stderr))
		require.Contains(t, stderr.String(), `no\nname`, args)
		require.Equal(t, 1, strings.Count(stderr.String(), "\n"), args)
	}
}

// TestRefused checks that wrong arguments are errors.
func TestRefused(t *testing.T) {
	for _, c := range [][2]string{
		{"psim completion nope", `unknown shell "nope"; use one of bash, fish, powershell, zsh`},
		{"psim calibrate --repeats 100001", "--repeats 100001: must be between 1 and 100000"},
	} {
		stdout, stderr, code := psim(t, c[0])
		require.Equal(t, exitUsage, code)
		require.Empty(t, stdout)
		require.Contains(t, stderr, c[1])
	}
	stdout, _, code := psim(t, "psim completion")
	require.Zero(t, code)
	require.Contains(t, stdout, "completion prints a script with which a shell completes verbs")
	for _, s := range shells() {
		stdout, stderr, code := psim(t, "psim completion "+s.name)
		require.Zero(t, code, stderr)
		require.Contains(t, stdout, "__complete")
		require.NotContains(t, stdout, `\u00`)
	}
}
