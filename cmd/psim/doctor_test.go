package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/exec/programs"
)

// nowhere makes doctor find no plugin of the machine that the test runs on.
func nowhere(t *testing.T) (folder string) {
	folder = t.TempDir()
	t.Setenv(programs.PluginVariable, folder)
	return folder
}

func TestDoctor(t *testing.T) {
	nowhere(t)
	stdout, stderr, code := psim(t, "psim doctor")
	require.Zero(t, code, stderr)
	require.Empty(t, stderr)
	require.Regexp(t, `(?s)^psim `+version+`, go1\.\S+, \w+/\w+

backend go +works
  virtual devices +\d+, one per core
  vector kernels +\S.*
  matrix product +[\d.]+ [A-Z]?FLOP/s \(float32, 512×512, one device\)
.*
backend xla +(not compiled in|does not work)
  C compiler +\S.*
  GPUs +\S.*
  plugins +none
`, stdout)
	if strings.Contains(stdout, "GPUs        none") {
		require.NotContains(t, stdout, "jax", "without a GPU there is nothing to install")
	}
}

func TestDoctorJSON(t *testing.T) {
	folder := nowhere(t)
	stdout, stderr, code := psim(t, "psim doctor --json")
	require.Zero(t, code, stderr)
	var d diagnosis
	require.NoError(t, json.Unmarshal([]byte(stdout), &d))
	require.True(t, d.GoBack.Works)
	require.Equal(t, programs.SIMDCompiled, d.GoBack.SIMDCompiled)
	require.Greater(t, d.GoBack.MatrixSpeed, 1e6)
	require.Equal(t, programs.XLACompiled, d.XLA.Compiled)
	require.Equal(t, []string{folder}, d.XLA.Looked)
	require.NotContains(t, stdout, "null")
}

// Without XLA compiled in, doctor says what there would be to use.
func TestDoctorFindsPlugin(t *testing.T) {
	file := filepath.Join(nowhere(t), "pjrt_c_api_cuda_plugin.so")
	require.NoError(t, os.WriteFile(file, []byte("no library"), 0o644))
	stdout, _, code := psim(t, "psim doctor")
	require.Zero(t, code, "a plugin that does not work is no failure")
	require.Contains(t, stdout, file)
	if programs.XLACompiled {
		require.Contains(t, stdout, "it does not load: ")
	} else {
		require.Contains(t, stdout, "to use GPUs, build with GOEXPERIMENT=simd CGO_ENABLED=1 go build -tags xla ./cmd/psim\n")
	}
}

func TestDoctorVerdict(t *testing.T) {
	require.NoError(t, (&diagnosis{GoBack: goHealth{Works: true}, XLA: xlaState{Error: "broken"}}).verdict())
	err := (&diagnosis{GoBack: goHealth{Error: "out of memory"}}).verdict()
	require.EqualError(t, err, "the backend go does not work: out of memory")
	require.ErrorAs(t, err, new(failure), "it exits with 1")
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

// What is advised about GPUs depends on whether there are any.
func TestDoctorAdvice(t *testing.T) {
	search := programs.Search{Getenv: func(string) string { return "" }, Root: t.TempDir()}
	gpu := []programs.GPU{{Device: "/dev/nvidia0"}}
	for name, c := range map[string]struct {
		xla  xlaState
		want []string
	}{
		"no GPU":                      {xlaState{CCompiler: "gcc"}, nil},
		"no GPU, XLA built in":        {xlaState{Compiled: true}, []string{"there is no NVIDIA GPU here (no /dev/nvidia0), so --backend go is what there is; if"}},
		"a GPU":                       {xlaState{CCompiler: "gcc", GPUs: gpu}, []string{"build with GOEXPERIMENT=simd CGO_ENABLED=1 go build -tags xla", "pip install \"jax[cuda12]\""}},
		"a GPU and no compiler":       {xlaState{GPUs: gpu, Plugins: []pluginState{{}}}, []string{"install a C compiler", "-tags xla"}},
		"a GPU, XLA built in":         {xlaState{Compiled: true, GPUs: gpu}, []string{"pip install \"jax[cuda12]\""}},
		"all of it":                   {xlaState{Compiled: true, Works: true, GPUs: gpu, Plugins: []pluginState{{}}}, nil},
		"a plugin for something else": {xlaState{Compiled: true, Works: true, Plugins: []pluginState{{}}}, nil},
	} {
		d := diagnosis{GoBack: goHealth{SIMDCompiled: true}, XLA: c.xla}
		d.advise(search)
		require.Len(t, d.Advice, len(c.want), "%s: %s", name, d.Advice)
		for i, want := range c.want {
			require.Contains(t, d.Advice[i], want, name)
		}
	}
}
