//go:build !(xla && cgo)

package backend_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/exec/backend"
)

func TestXLAMissing(t *testing.T) {
	const want = "this psim is built without XLA: build one with\n  CGO_ENABLED=1 go build -tags xla ./cmd/psim\nwhich needs a C compiler"
	_, err := backend.OpenXLA(backend.Plugin{}, backend.ClientOptions{})
	require.EqualError(t, err, want)
	_, err = backend.Plugin{}.Inspect()
	require.EqualError(t, err, want)
	require.False(t, backend.XLACompiled)
}
