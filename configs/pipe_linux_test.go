package configs_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
)

// A named pipe is read to its end, and one without a writer is not waited for.
func TestNamedPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	_, err := configs.Load(pipe)
	require.EqualError(t, err, pipe+": is a pipe that nothing is written to")

	_, err = configs.Example(pipe)
	require.EqualError(t, err, pipe+": is a pipe that nothing is written to")

	written := make(chan error)
	go func() {
		written <- os.WriteFile(pipe, []byte("[schedule]\nname = \"gpipe\"\n[times]\nforward = \"1ms\"\n"), 0o600)
	}()
	c, err := configs.Load(pipe)
	require.NoError(t, <-written)
	require.NoError(t, err)
	require.Equal(t, "gpipe", c.Schedule.Name)
}
