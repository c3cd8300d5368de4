package memory

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a container leaves goes before what the system has, in both layouts of
// control groups, with cache that can be freed counted as free.
func TestContainer(t *testing.T) {
	const system = 16 << 30
	for folder, want := range map[string]int64{
		"v1":        3e9,   // by the group around the own one
		"v2":        1.4e9, // by the own group
		"container": 6e8,   // by the mounted root, since the path is the host's
		"none":      system,
	} {
		require.Equal(t, want, freeIn(os.DirFS("testdata/"+folder)), folder)
	}
	require.EqualValues(t, 8<<30, freeIn(os.DirFS(t.TempDir())), "assumed")
}
