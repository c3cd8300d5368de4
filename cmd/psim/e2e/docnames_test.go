package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"psim/cmd/psim/cli"
)

var (
	inline = regexp.MustCompile("`((?:psim|--)[^`]*)`")
	links  = regexp.MustCompile(`\]\(([^)#]+)(?:#[^)]*)?\)`)
	fences = regexp.MustCompile("(?s)```.*?```")
)

// The commands and flags that a document's sentences name exist, and so do the files that it links
// to. All of docs is reached from the README.
func TestDocumentsName(t *testing.T) {
	t.Parallel()
	reached := map[string]bool{}
	for _, path := range documents(t) {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		text := fences.ReplaceAllString(string(data), "")
		for _, m := range inline.FindAllStringSubmatch(text, -1) {
			checkNames(t, filepath.Base(path), strings.Join(strings.Fields(m[1]), " "))
		}
		for _, m := range links.FindAllStringSubmatch(text, -1) {
			require.FileExists(t, filepath.Join(filepath.Dir(path), m[1]), path)
			if filepath.Base(path) == "README.md" {
				reached[m[1]] = true
			}
		}
	}
	for _, path := range documents(t)[1:] {
		name, err := filepath.Rel(root(t), path)
		require.NoError(t, err)
		require.True(t, reached[name], "the README does not lead to %s", path)
	}
}

// checkNames checks the verb and flags of a command in a sentence. A flag without a verb must be a
// flag of some verb.
func checkNames(t *testing.T, path, command string) {
	words := strings.Fields(command)
	commands := cli.New().Commands()
	if words[0] == "psim" {
		if len(words) == 1 || strings.ToUpper(words[1]) == words[1] {
			return // as in psim VERB
		}
		verb, _, err := cli.New().Find(words[1:2])
		require.NoError(t, err, "%s: %s", path, command)
		commands = []*cobra.Command{verb}
	}
	for _, word := range words {
		name, ok := strings.CutPrefix(word, "--")
		if name, _, _ = strings.Cut(name, "="); !ok || name == "help" {
			continue
		}
		var found *pflag.Flag
		for _, c := range commands {
			if f := c.Flags().Lookup(name); f != nil {
				found = f
			}
		}
		require.NotNil(t, found, "%s: no flag --%s: %s", path, name, command)
	}
}

// The README is short.
func TestREADMELength(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join(root(t), "README.md"))
	require.NoError(t, err)
	require.LessOrEqual(t, strings.Count(string(data), "\n"), 220)
}
