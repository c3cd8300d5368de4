package e2e

import (
	"encoding/csv"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/cmd/psim/cli"
)

// speedRows reads the rows whose speed docs/speed.md has.
func speedRows(t testing.TB) [][]string {
	file, err := os.Open("tools/speed/rows.csv")
	require.NoError(t, err)
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	require.NoError(t, err)
	return rows[1:]
}

// BenchmarkRows does the work of every row in this process. Rows that take long are for PSIM_LONG=1, with
// -benchtime 1x.
func BenchmarkRows(b *testing.B) {
	b.Chdir(root(b))
	for _, row := range speedRows(b) {
		b.Run(row[0], func(b *testing.B) {
			if row[4] != "" && !long() {
				b.Skip("PSIM_LONG=1 runs it")
			}
			b.ReportAllocs()
			for b.Loop() {
				runRow(b, row[1])
			}
		})
	}
}

// runRow runs commands that are joined by &&.
func runRow(b *testing.B, commands string) {
	folder := b.TempDir()
	for command := range strings.SplitSeq(commands, " && ") {
		env, args, _ := strings.Cut(strings.ReplaceAll(command, "DIR", folder), "psim ")
		if cores, ok := strings.CutPrefix(env, "GOMAXPROCS="); ok {
			n, err := strconv.Atoi(strings.TrimSpace(cores))
			require.NoError(b, err)
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(n))
		}
		require.Less(b, cli.Run(b.Context(), strings.Fields(args), io.Discard, io.Discard), exitUsage, command)
	}
}
