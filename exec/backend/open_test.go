package backend_test

import (
	"io"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/exec/backend"
)

func TestOpenDevices(t *testing.T) {
	read, write, err := os.Pipe()
	require.NoError(t, err)
	stdout := os.Stdout
	os.Stdout = write
	devices, err := backend.Open(3, backend.Options{Oversubscribe: true})
	os.Stdout = stdout
	require.NoError(t, err)
	defer backend.Close(devices)
	require.NoError(t, write.Close())
	printed, err := io.ReadAll(read)
	require.NoError(t, err)
	require.Empty(t, string(printed), "a library prints on stdout")
	require.Len(t, devices, 3)
	for _, d := range devices {
		require.Zero(t, d.Bytes(), "the self-test frees its tensors")
	}
}

func TestTooManyDevices(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	_, err := backend.Open(3, backend.Options{})
	require.EqualError(t, err, "3 devices on 2 cores: a device computes on a core of its own; use at most 2, or --oversubscribe where times do not matter")
	_, err = backend.Open(0, backend.Options{})
	require.EqualError(t, err, "0 devices: there must be at least 1")
}

func TestBadBackend(t *testing.T) {
	_, err := backend.Open(1, backend.Options{Backend: "cuda"})
	require.EqualError(t, err, `--backend cuda: unknown backend; use go, xla or xla:/absolute/path/of/plugin.so`)
	_, err = backend.Open(1, backend.Options{Backend: "go", Share: true})
	require.EqualError(t, err, "only devices of the backend xla can be shared: one of the backend go has a core of its own")
	if !backend.XLACompiled {
		_, err = backend.Open(1, backend.Options{Backend: "xla"})
		require.ErrorContains(t, err, "backend xla: this psim is built without XLA")
	}
}
