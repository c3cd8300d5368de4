package files

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A folder below /proc is refused before anything is written.
func TestKernelsFolders(t *testing.T) {
	require.ErrorContains(t, Folder{Path: "/proc/x"}.Check(), "/proc/x: cannot be made: ")
	require.NoError(t, Folder{Path: t.TempDir() + "/x"}.Check())
}
