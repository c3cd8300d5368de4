package psim_test

import (
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPredictsWithoutBackend follows the imports of package psim: predicting needs
// neither gomlx nor what executes.
func TestPredictsWithoutBackend(t *testing.T) {
	imports := map[string][]string{} // of the program code of a folder
	for _, file := range goFiles(t) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, spec := range parsed.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			imports[path.Dir(file)] = append(imports[path.Dir(file)], name)
		}
	}
	seen := map[string]bool{}
	var visit func(folder string)
	visit = func(folder string) {
		seen[folder] = true
		for _, name := range imports[folder] {
			require.False(t, strings.HasPrefix(name, "github.com/gomlx/"), "psim reaches %s through %s", name, folder)
			if inside, ok := strings.CutPrefix(name, "psim/"); ok && !seen[inside] {
				visit(inside)
			}
		}
	}
	visit(".")
	require.True(t, seen["configs"] && seen["sim"] && seen["reports"])
	for folder := range seen {
		require.False(t, folder == "exec" || strings.HasPrefix(folder, "exec/"), "psim reaches %s", folder)
	}
}

// TestOtherModule builds and runs a program of another module that predicts,
// searches and plots through the library.
func TestOtherModule(t *testing.T) {
	root, err := os.Getwd()
	require.NoError(t, err)
	folder := t.TempDir()
	for from, to := range map[string]string{"testdata/example/main.go": "main.go", "go.sum": "go.sum"} {
		data, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(folder, to), data, 0o644))
	}
	module, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	text := strings.Replace(string(module), "module psim", "module example", 1) + "\nrequire psim v0.0.0\n\nreplace psim => " + root + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(folder, "go.mod"), []byte(text), 0o644))
	cmd := exec.Command("go", "run", ".")
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Regexp(t, `^\S+ instead of gpipe: step time -\d+\.\d %\n\[pareto.png plans.json\]\n$`, string(out))
	for _, file := range []string{"both.svg", "plans/pareto.png", "plans/plans.json"} {
		require.FileExists(t, filepath.Join(folder, filepath.FromSlash(file)))
	}
}
