package ram

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a container leaves goes before what the system has, in both layouts of
// control groups, with cache that can be freed counted as free.
func TestContainer(t *testing.T) {
	const system = 16 << 30
	for folder, want := range map[string]Room{
		"v1":        {3e9, 4e9},   // by the group around the own one
		"v2":        {1.4e9, 2e9}, // by the own group
		"container": {6e8, 1e9},   // by the mounted root, since the path is the host's
		"none":      {Free: system},
	} {
		require.Equal(t, want, roomIn(os.DirFS("testdata/"+folder)), folder)
	}
	require.Equal(t, Room{Free: 8 << 30}, roomIn(os.DirFS(t.TempDir())), "assumed")
}
