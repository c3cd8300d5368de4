package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The lines are the 92 of the list and the 14 more sentences, and the document has their table.
func TestDocument(t *testing.T) {
	lines, err := parse(data)
	require.NoError(t, err)
	require.Len(t, lines, 92+14+1) // BLEU is a line of its own
	saved, err := os.ReadFile("../../docs/courses.md")
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(string(saved), "\n\n"+markdown(lines)), "run make course-lines")
}

func TestParse(t *testing.T) {
	const start = "[[line]]\nnumber = \"1\"\nasks = \"x\"\n"
	for text, want := range map[string]string{
		"[[line]]\nnumber = \"1\"\n":   "needs a number of its own",
		start:                          "line 1 needs a command",
		start + "command = \"true\"\n": "line 1 needs a command",
		start + "command = \"true\"\nprints = \"x\"\nleft_out=\"y\"": "line 1 needs a command",
		start + "left_out = \"y\"\n" + start + "left_out = \"y\"":    "a number of its own",
		start + "left_out = \"y\"\nfigure = 1":                       "unknown key line.figure",
		"[[line]":                                                    "line 1",
	} {
		_, err := parse(text)
		require.ErrorContains(t, err, want, text)
	}
}

// A line is done if its command succeeds and makes and prints what the line says.
func TestRun(t *testing.T) {
	bin := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(bin, "psim"), []byte("#!/bin/sh\necho \"$@\"\n"), 0o700))
	for _, c := range []struct {
		line line
		want string
	}{
		{line{Command: "psim run x > y", Makes: []string{"y"}}, ""},
		{line{Command: "psim run x", Prints: "run x"}, ""},
		{line{Command: "psim run x", Prints: "run y"}, `does not print "run y", but: run x`},
		{line{Command: "psim run x", Makes: []string{"y"}}, "no such file"},
		{line{Command: "touch y", Makes: []string{"y"}}, "y is empty"},
		{line{Command: "psim x > y.png", Makes: []string{"y.png"}}, "unexpected EOF"},
		{line{Command: "echo why >&2; exit 3", Prints: "x"}, "exit status 3: why"},
	} {
		err := c.line.run(t.Context(), bin)
		if c.want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, c.want)
		}
	}
}
