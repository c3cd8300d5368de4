package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/exec/backend"
)

// Without XLA, doctor says what it could use.
func TestPluginIsFound(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pjrt_c_api_cuda_plugin.so")
	require.NoError(t, os.WriteFile(file, []byte("no library"), 0o644))
	t.Setenv(backend.PluginVariable, filepath.Dir(file))
	var text strings.Builder
	require.NoError(t, Examine("test", &text).Err("go"), "a plugin that does not work is no failure")
	require.Contains(t, text.String(), file)
	if backend.XLACompiled {
		require.Contains(t, text.String(), "it does not load: ")
	} else {
		require.Contains(t, text.String(),
			"to use GPUs, build with GOEXPERIMENT=simd CGO_ENABLED=1 go build -tags xla ./cmd/psim\n")
	}
}

func TestErr(t *testing.T) {
	require.NoError(t, Diagnosis{GoBack: GoBackend{Works: true}, XLA: XLA{Error: "broken"}}.Err("go"))
	require.EqualError(t, Diagnosis{GoBack: GoBackend{Works: true}, XLA: XLA{Error: "broken", Compiled: true}}.Err("xla"),
		"the backend xla does not work: broken")
	require.EqualError(t, Diagnosis{GoBack: GoBackend{Works: true}}.Err("xla"), "the backend xla does not work: this build is without it")
	require.NoError(t, Diagnosis{XLA: XLA{Works: true}}.Err("xla"))
	require.EqualError(t, Diagnosis{GoBack: GoBackend{Error: "out of memory"}}.Err("go"),
		"the backend go does not work: out of memory")
}

func TestCCompiler(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("PATH", folder)
	t.Setenv("CC", "")
	require.Empty(t, cCompiler())
	for _, name := range []string{"cc", "mine"} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), nil, 0o755))
	}
	require.Equal(t, filepath.Join(folder, "cc"), cCompiler())
	t.Setenv("CC", "mine -O2")
	require.Equal(t, filepath.Join(folder, "mine"), cCompiler())
}

// Advice about GPUs depends on whether there are any.
func TestAdvice(t *testing.T) {
	search := backend.PluginSearch{Getenv: func(string) string { return "" }, Root: t.TempDir()}
	gpu := []backend.GPU{{Device: "/dev/nvidia0"}}
	for name, c := range map[string]struct {
		xla  XLA
		want []string
	}{
		"no GPU": {XLA{CCompiler: "gcc"}, nil},
		"no GPU, XLA built in": {XLA{Compiled: true},
			[]string{"no NVIDIA GPU was found (no /dev/nvidia0); if this machine has one"}},
		"no GPU, and the second plugin loads": {XLA{Compiled: true, Works: false, Error: "no GPU", Plugins: []PluginCheck{
			{File: "/cuda.so", Error: "no GPU"}, {File: "/cores.so"}, {File: "/old.so", Error: "old"},
		}}, []string{"no NVIDIA GPU was found", "this one loads: --backend xla:/cores.so"}},
		"a GPU": {XLA{CCompiler: "gcc", GPUs: gpu},
			[]string{"build with GOEXPERIMENT=simd CGO_ENABLED=1 go build -tags xla", "pip install \"jax[cuda12]\""}},
		"a GPU and no compiler": {XLA{GPUs: gpu, Plugins: []PluginCheck{{}}},
			[]string{"install a C compiler", "-tags xla"}},
		"a GPU, XLA built in":         {XLA{Compiled: true, GPUs: gpu}, []string{"pip install \"jax[cuda12]\""}},
		"all of it":                   {XLA{Compiled: true, Works: true, GPUs: gpu, Plugins: []PluginCheck{{}}}, nil},
		"a plugin for something else": {XLA{Compiled: true, Works: true, Plugins: []PluginCheck{{}}}, nil},
	} {
		d := Diagnosis{GoBack: GoBackend{SIMDCompiled: true}, XLA: c.xla}
		d.advise(search)
		require.Len(t, d.Advice, len(c.want), "%s: %s", name, d.Advice)
		for i, want := range c.want {
			require.Contains(t, d.Advice[i], want, name)
		}
	}
}

// Other systems than linux are told what psim does not do there.
func TestMissingOn(t *testing.T) {
	require.Empty(t, missingOn("linux"))
	require.Len(t, missingOn("darwin"), 1)
	windows := missingOn("windows")
	require.Len(t, windows, 2)
	require.Contains(t, windows[1], "psim locks folders on linux and darwin only: on windows ")
}
