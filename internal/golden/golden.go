// Package golden compares what tests make with files of testdata, and writes
// these files when go test is given -update.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// Updating reports whether the test is to write the files that it compares with.
func Updating() bool { return *update }

// Read returns the file testdata/name. With -update it writes made there first.
func Read(t testing.TB, name string, made []byte) []byte {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, made, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "write it with: go test -update")
	return want
}

// Equal compares made with testdata/name, and shows the first line that differs.
func Equal[T string | []byte](t testing.TB, name string, made T) {
	t.Helper()
	want, got := strings.Split(string(Read(t, name, []byte(made))), "\n"), strings.Split(string(made), "\n")
	for i := range min(len(want), len(got)) {
		require.Equal(t, want[i], got[i], "testdata/%s, line %d; rewrite it with: go test -update", name, i+1)
	}
	require.Len(t, got, len(want), "lines of testdata/%s; rewrite it with: go test -update", name)
}
