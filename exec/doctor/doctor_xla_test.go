//go:build xla && cgo && linux

package doctor

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/exec/backend"
)

// TestDoctorXLA examines the plugin without an accelerator that the tests of package backend
// use.
func TestDoctorXLA(t *testing.T) {
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("this test makes a plugin of C code, and there is no C compiler (cc)")
	}
	headers, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/gomlx/go-xla").Output()
	require.NoError(t, err)
	folder := t.TempDir()
	t.Setenv(backend.PluginVariable, folder)
	file := filepath.Join(folder, "pjrt_c_api_stub_plugin.so")
	out, err := exec.Command("cc", "-shared", "-fPIC", "-o", file,
		"-I"+filepath.Join(strings.TrimSpace(string(headers)), "pjrt"),
		"../backend/testdata/stub/stub.c").CombinedOutput()
	require.NoError(t, err, string(out))

	var text strings.Builder
	require.NoError(t, Examine("test", &text).Err("go"))
	require.Regexp(t, `(?s)backend xla +does not work
  error +a product of float32 is off by .*
  plugins +`+file+`: PJRT 0\.104, platform stub
  devices +xla, StubDevice.*
 +xla, StubDevice.*
`, text.String(), "the stub doubles numbers and cannot multiply matrices")

	t.Setenv("STUB_CHANGE", "1")
	text.Reset()
	require.NoError(t, Examine("test", &text).Err("go"), "XLA is not all there is")
	require.Contains(t, text.String(), "copying from device 0 to device 1 and back: 1009 numbers came back changed")
}
