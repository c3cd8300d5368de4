package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/exec/backend"
	"psim/exec/doctor"
)

// nowhere makes doctor find no plugin of the machine that the test runs on.
func nowhere(t *testing.T) (folder string) {
	folder = t.TempDir()
	t.Setenv(backend.PluginVariable, folder)
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
  memory +\S.* free.*, for all devices.*
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
	var d doctor.Diagnosis
	require.NoError(t, json.Unmarshal([]byte(stdout), &d))
	require.True(t, d.GoBack.Works)
	require.Equal(t, backend.SIMDCompiled, d.GoBack.SIMDCompiled)
	require.Greater(t, d.GoBack.MatrixSpeed, 1e6)
	require.Equal(t, backend.XLACompiled, d.XLA.Compiled)
	require.Equal(t, []string{folder}, d.XLA.Looked)
	require.NotContains(t, stdout, "null")
}
