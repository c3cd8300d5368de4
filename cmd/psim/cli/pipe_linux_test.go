package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// An interrupt ends the wait for the writer of a named pipe.
func TestPipeInterrupted(t *testing.T) {
	for _, args := range []string{"run", "sweep --vary schedule.microbatches=1,2 --out -", "search --devices 2"} {
		pipe := filepath.Join(t.TempDir(), "pipe")
		require.NoError(t, syscall.Mkfifo(pipe, 0o600))
		ctx, interrupt := context.WithCancel(t.Context())
		ended := make(chan int)
		var stderr strings.Builder
		fields := strings.Fields(args)
		go func() {
			ended <- Run(ctx, append([]string{fields[0], pipe}, fields[1:]...), new(strings.Builder), &stderr)
		}()
		interrupt()
		require.Equal(t, exitFailed, <-ended)
		require.Equal(t, "psim: interrupted\n", stderr.String())
		if writer, err := os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil { // ends the reader
			writer.Close()
		}
	}
}
