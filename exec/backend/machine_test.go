package backend_test

import (
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/exec/backend"
)

func TestGPUs(t *testing.T) {
	root := t.TempDir()
	require.Empty(t, backend.PluginSearch{Root: root}.GPUs())
	touch(t, root, "dev/nvidiactl")
	touch(t, root, "dev/nvidia0")
	touch(t, root, "dev/nvidia3")
	for address, text := range map[string]string{
		"0000:18:00.0": "Model: \t\t NVIDIA A100-SXM4-80GB\nIRQ:   \t\t 42\nDevice Minor: \t 3\n",
		"0000:19:00.0": "Model: \t\t NVIDIA A100-SXM4-80GB\nDevice Minor: \t 1\n", // not this container's
	} {
		file := touch(t, root, "proc/driver/nvidia/gpus/"+address+"/information")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	version := touch(t, root, "proc/driver/nvidia/version")
	require.NoError(t, os.WriteFile(version, []byte("NVRM version: NVIDIA 580.1\nGCC version: 13\n"), 0o644))
	require.Equal(t, "NVIDIA 580.1", backend.PluginSearch{Root: root}.Driver())
	require.Equal(t, []backend.GPU{{"/dev/nvidia0", ""}, {"/dev/nvidia3", "NVIDIA A100-SXM4-80GB"}},
		backend.PluginSearch{Root: root}.GPUs())
}

// The speed of a product lies between a calculator's and a data centre's.
func TestMatrixSpeed(t *testing.T) {
	flops, err := opened(t).MatrixSpeed(64, 0)
	require.NoError(t, err)
	require.Greater(t, flops, 1e5)
	require.Less(t, flops, 1e16)
}

func TestSIMD(t *testing.T) {
	if !backend.SIMDCompiled {
		require.Empty(t, backend.SIMD())
	} else {
		require.Equal(t, "amd64", runtime.GOARCH)
		require.Contains(t, []string{"", "AVX2", "AVX-512"}, backend.SIMD())
	}
}
