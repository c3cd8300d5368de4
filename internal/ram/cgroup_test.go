package ram

import (
	"os"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// What a container or a limit of the process leaves goes before what the system has, in both
// layouts of control groups, with cache that can be freed counted as free.
func TestContainer(t *testing.T) {
	const system = 16 << 30
	pages := int64(os.Getpagesize())
	for folder, want := range map[string]Room{
		"v1":        {Free: 3e9, Container: 4e9},   // by the group around the own one
		"v2":        {Free: 1.4e9, Container: 2e9}, // by the own group
		"container": {Free: 6e8, Container: 1e9},   // by the mounted root, since the path is the host's
		"none":      {Free: system},
		"ulimit-v":  {Free: 4096e6 - pages*300000 - spared, Ulimit: "ulimit -v 4000000"}, // of what is mapped
		"ulimit-d":  {Free: 1024e6 - pages*10000 - spared, Ulimit: "ulimit -d 1000000"},  // of data
	} {
		require.Equal(t, want, roomIn(os.DirFS("testdata/"+folder)), folder)
	}
	require.Equal(t, Room{Free: 8 << 30}, roomIn(os.DirFS(t.TempDir())), "assumed")
}

// A limit is refused for what it is: at the least one, every verb runs, whatever is mapped by then.
func TestTooLow(t *testing.T) {
	for limits, want := range map[string]string{
		"Max address space         unlimited            unlimited            bytes\n": "",
		"Max address space         2560000000           unlimited            bytes\n": "",
		"Max address space         2559999999           unlimited            bytes\n": "ulimit -v 2499999 leaves too little memory",
		"Max data size             512000000            unlimited            bytes\n": "",
		"Max data size             511999999            unlimited            bytes\n": "; run ulimit -d 500000 or more, or unlimited",
		"": "",
	} {
		err := tooLow(fstest.MapFS{"proc/self/limits": {Data: []byte(limits)}})
		if want == "" {
			require.NoError(t, err, limits)
			continue
		}
		require.ErrorContains(t, err, want)
	}
}
