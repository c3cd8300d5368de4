//go:build !race

package e2e

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A limit of address space, of which a Go program needs more than a gigabyte to begin with,
// refuses a graph before the work, or all work, with one line.
func TestUlimit(t *testing.T) {
	u := newUser(t)
	const large = "run gpipe --quiet --out - --set batch.global=600000 --set schedule.microbatches=600000"
	for _, c := range []struct {
		kilobytes int
		line      string
		code      int
		want      string
	}{
		{3_000_000, "run gpipe --quiet --out -", exitDone, ""},
		{3_000_000, large, exitUsage, "the graph would have about 6e+06 tasks and need about 2.52 GB of memory, but only "},
		// Under some 1.7 GB one run in thirty ends in Go's runtime, before psim can say anything.
		{2_000_000, "run gpipe --quiet --out -", exitFailed, "psim: ulimit -v 2000000 leaves too little memory to begin with"},
		{2_499_999, "run gpipe --quiet --out -", exitFailed, "; run ulimit -v 2500000 or more, or unlimited"},
		{2_499_999, "search gpipe --quiet", exitFailed, "; run ulimit -v 2500000 or more, or unlimited"},
		{2_499_999, "schedule gpipe --stages 2 --microbatches 2", exitFailed, "; run ulimit -v 2500000 or more, or unlimited"},
		{2_500_000, "run gpipe --quiet --out -", exitDone, ""},
		{2_500_000, "search gpipe --quiet", exitDone, ""},
		{2_500_000, "search gpipe --quiet --devices 4", exitDone, ""},
		{2_500_000, "sweep gpipe --quiet --vary schedule.microbatches=4,8", exitDone, ""},
		{2_500_000, "schedule gpipe --stages 2 --microbatches 2", exitDone, ""},
	} {
		limited := fmt.Sprintf(`ulimit -v %d; exec "$0" "$@"`, c.kilobytes)
		psim := u.command(t, strings.Fields(c.line)...)
		psim.Path, psim.Args = "/bin/sh", append([]string{"sh", "-c", limited, program}, psim.Args[1:]...)
		var said strings.Builder
		psim.Stderr = &said
		err := psim.Run()
		if exit := (&exec.ExitError{}); err != nil {
			require.ErrorAs(t, err, &exit, c.line)
		}
		require.Equal(t, c.code, psim.ProcessState.ExitCode(), "%s\n%s", c.line, said.String())
		require.Contains(t, said.String(), c.want)
		require.LessOrEqual(t, strings.Count(said.String(), "\n"), 1)
		if c.code == exitUsage {
			require.Contains(t, said.String(), " are free under ulimit -v 3000000; make it smaller")
		}
	}
}
