package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/cmd/psim/cli"
)

// recipe returns the text of a recipe, with the values of its variables.
func recipe(t *testing.T, name string, values ...string) string {
	data, err := os.ReadFile(filepath.Join(root(t), "docs", "recipes", name))
	require.NoError(t, err)
	return strings.NewReplacer(values...).Replace(string(data))
}

// The recipes of two machines ask their schedulers for what homework 4 asks, and every command of
// psim in them is one, flags and values and all; it runs here on a small network, without GPUs.
func TestRecipesMachines(t *testing.T) {
	t.Parallel()
	python := recipe(t, "modal_psim.py", "{EPOCHS}", regexp.MustCompile(`(?m)^EPOCHS = "(.*)"$`).FindStringSubmatch(recipe(t, "modal_psim.py"))[1])
	python = strings.NewReplacer("{world_size}", "2", "{n_epochs}", "1").Replace(python)
	for _, asked := range []string{
		`gpu="A10G:2", cpu=16, memory=64 * 1024, timeout=4 * 60 * 60, volumes={"/workdir": workdir}`,
		"def main(world_size: int = 2, n_epochs: int = 5", "go build -tags xla",
	} {
		require.Contains(t, python, asked)
	}
	script := recipe(t, "bridges-2.sbatch", `"$gpus"`, "2", `"$out/`, "out/", `"`, "")
	for _, asked := range []string{"--partition=GPU-shared", "--gres=gpu:2", "--time=1:00:00"} {
		require.Contains(t, script, "\n#SBATCH "+asked+"\n")
	}
	require.Contains(t, script, "go build -tags xla")
	if path, err := exec.LookPath("python3"); err == nil {
		out, err := exec.Command(path, "-c", "import ast, sys; ast.parse(open(sys.argv[1]).read())", filepath.Join(root(t), "docs", "recipes", "modal_psim.py")).CombinedOutput()
		require.NoError(t, err, string(out))
	}
	if path, err := exec.LookPath("bash"); err == nil {
		out, err := exec.Command(path, "-n", filepath.Join(root(t), "docs", "recipes", "bridges-2.sbatch")).CombinedOutput()
		require.NoError(t, err, string(out))
	}
	for name, c := range map[string]struct {
		commands []string
		count    int
	}{
		"modal":     {regexp.MustCompile(`f?"(psim [^"]*)"`).FindAllString(python, -1), 9},
		"bridges-2": {regexp.MustCompile(`(?m)^psim .*$`).FindAllString(script, -1), 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Len(t, c.commands, c.count)
			u := newUser(t)
			for _, command := range c.commands {
				command = strings.Trim(strings.TrimPrefix(command, "f"), `"`)
				requireFlags(t, command)
				u.terminal(t, strings.NewReplacer(" --backend xla", "", "data.samples=5000", "data.samples=128", "--validation 100", "--validation 8").Replace(command))
			}
		})
	}
}

// requireFlags parses a command line as psim does.
func requireFlags(t *testing.T, command string) {
	words := strings.Fields(command)
	verb, rest, err := cli.New().Find(words[1:])
	require.NoError(t, err, command)
	require.Equal(t, words[1], verb.Name(), command)
	require.NoError(t, verb.ParseFlags(rest), command)
	require.NoError(t, verb.Args(verb, verb.Flags().Args()), command)
}
