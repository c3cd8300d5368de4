//go:build !(xla && cgo)

package programs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/exec/programs"
)

func TestXLAMissing(t *testing.T) {
	const want = "this psim is built without XLA: build one with\n  CGO_ENABLED=1 go build -tags xla ./cmd/psim\nwhich needs a C compiler"
	_, err := programs.OpenXLA(programs.Plugin{}, programs.ClientOptions{})
	require.EqualError(t, err, want)
	_, err = programs.PluginVersion(programs.Plugin{})
	require.EqualError(t, err, want)
	require.False(t, programs.XLACompiled)
}
