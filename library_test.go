package psim_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim"
	"psim/configs"
)

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
	text := strings.Replace(strings.ReplaceAll(string(module), "=> ./", "=> "+root+"/"), "module psim", "module example", 1) + "\nrequire psim v0.0.0\n\nreplace psim => " + root + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(folder, "go.mod"), []byte(text), 0o644))
	cmd := exec.Command("go", "run", ".")
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Regexp(t, `^\S+ instead of gpipe: step time -\d+\.\d %\n\[pareto.png (plan-\d+.toml )+plans.json\]\n$`, string(out))
	for _, file := range []string{"both.svg", "plans/pareto.png", "plans/plans.json"} {
		require.FileExists(t, filepath.Join(folder, filepath.FromSlash(file)))
	}
}

// TestEmptyConfig: a configuration that nothing has read is an error, and no panic.
func TestEmptyConfig(t *testing.T) {
	_, err := psim.Predict(t.Context(), &configs.Config{})
	require.ErrorContains(t, err, "Load or Parse")
}
