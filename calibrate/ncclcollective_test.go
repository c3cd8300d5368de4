package calibrate_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/calibrate"
	"psim/schedules/graph"
)

// ncclSized is a row of a number of bytes, as a test with an operation and a factor
// between its bandwidths prints it.
func ncclSized(size int, redop string, us, factor float64) string {
	algbw := float64(size) / us / 1e3
	return fmt.Sprintf("%12d  %12d  %8s  %6s  %6d  %7.2f  %6.2f  %6.2f  %6s", size, size/4, "float", redop, -1, us, algbw, factor*algbw, "N/A")
}

// ncclRun is a run over sizes, the first two of which are too slow to be recognised, under
// the test's name if it has one.
func ncclRun(ranks int, name, redop string, factor float64) string {
	text := ncclText(ranks, ncclSized(64, redop, 9.5, factor), ncclSized(256, redop, 9.75, factor), ncclSized(1<<20, redop, 25, factor), ncclSized(1<<26, redop, 800, factor))
	if name == "" {
		return text
	}
	return "# nccl-tests version 2.17.6 nccl-headers=22807 nccl-library=22807\n# Collective test starting: " + name + "\n" + text +
		"# Collective test concluded: " + name + "\n"
}

// The collective of a run follows from its name, or from its operation and the factor
// between its bandwidths.
func TestReadNCCLCollectives(t *testing.T) {
	for _, c := range []struct {
		ranks       int
		name, redop string
		factor      float64
		want        graph.Kind
	}{
		{8, "", "none", 7. / 8, graph.AllGather},
		{8, "", "sum", 7. / 8, graph.ReduceScatter},
		{8, "", "avg", 14. / 8, graph.AllReduce},
		{2, "", "none", 0.5, graph.AllGather},
		{2, "", "max", 0.5, graph.ReduceScatter},
		{2, "", "sum", 1, graph.AllReduce},
		{256, "", "none", 255. / 256, graph.AllGather},
		{256, "", "sum", 255. / 256, graph.ReduceScatter},
		{8, "all_gather_perf", "none", 7. / 8, graph.AllGather},
		{8, "all_gather_perf_mpi", "none", 7. / 8, graph.AllGather},
		{8, "reduce_scatter_perf", "sum", 7. / 8, graph.ReduceScatter},
		{2, "all_reduce_perf", "sum", 1, graph.AllReduce},
	} {
		want := []calibrate.CollectiveTiming{
			{Kind: c.want, Ranks: c.ranks, Bytes: 64, Time: 9500}, {Kind: c.want, Ranks: c.ranks, Bytes: 256, Time: 9750},
			{Kind: c.want, Ranks: c.ranks, Bytes: 1 << 20, Time: 25_000}, {Kind: c.want, Ranks: c.ranks, Bytes: 1 << 26, Time: 800_000},
		}
		for i := range want { // alltoall has the same numbers
			want[i].Guessed = c.name == "" && c.want == graph.AllGather
		}
		list, err := calibrate.ReadNCCLTests("x", []byte(ncclRun(c.ranks, c.name, c.redop, c.factor)))
		require.NoError(t, err, c)
		require.Equal(t, want, list, c)
	}
}

// Versions that have no column for the operation leave it out for all-gathers
// alone. In JSON it is a key, and the arguments need not name the test.
func TestReadNCCLOperations(t *testing.T) {
	old := strings.NewReplacer("  redop    root ", " ", "    none      -1", "").Replace(ncclRun(4, "", "none", 0.75))
	require.NotContains(t, old, "redop")
	list, err := calibrate.ReadNCCLTests("x", []byte(old))
	require.NoError(t, err)
	require.Equal(t, graph.AllGather, list[3].Kind)

	gather := strings.NewReplacer(`"sum"`, `"none"`, "0.13", "0.06", "221.86", "110.93", "all_reduce_perf", "run").Replace(ncclJSON)
	scatter := strings.NewReplacer("0.13", "0.06", "221.86", "110.93", `"out_of_place":{"time":7259.4`, `"redop":"sum","out_of_place":{"time":7259.4`, `"args"`, `"argv"`).Replace(ncclJSON)
	list, err = calibrate.ReadNCCLTests("x", []byte(gather+scatter+ncclJSON))
	require.NoError(t, err)
	for i, kind := range []graph.Kind{graph.AllGather, graph.ReduceScatter, graph.AllReduce} {
		guessed := kind == graph.AllGather
		require.Equal(t, calibrate.CollectiveTiming{Kind: kind, Ranks: 4, Bytes: 1024, Time: 12_100, Guessed: guessed}, list[2*i])
		require.Equal(t, calibrate.CollectiveTiming{Kind: kind, Ranks: 4, Bytes: 1 << 30, Time: 7_259_400, Guessed: guessed}, list[2*i+1])
	}
}

// Several tests in one file, named and not, are runs by themselves; what other
// programs print after a run is not read.
func TestReadNCCLMixed(t *testing.T) {
	text := ncclRun(4, "all_gather_perf", "none", 0.75) + "3.25 seconds, 9 errors\n" + ncclRun(2, "", "sum", 0.5) + ncclRun(8, "all_reduce_perf", "sum", 1.75)
	list, err := calibrate.ReadNCCLTests("x", []byte(text))
	require.NoError(t, err)
	var kinds []graph.Kind
	for _, r := range list {
		kinds = append(kinds, r.Kind)
	}
	const g, s, r = graph.AllGather, graph.ReduceScatter, graph.AllReduce
	require.Equal(t, []graph.Kind{g, g, g, g, s, s, s, s, r, r, r, r}, kinds)
}

// Small bandwidths are enough where the factors are far apart.
func TestReadNCCLSlow(t *testing.T) {
	list, err := calibrate.ReadNCCLTests("x", []byte(ncclText(4, smallRow)))
	require.NoError(t, err)
	require.Equal(t, []calibrate.CollectiveTiming{{Kind: graph.AllReduce, Ranks: 4, Bytes: 1024, Time: 12_100 * time.Nanosecond}}, list)
}

func TestReadNCCLCollectivesErrors(t *testing.T) {
	slow := ncclText(8, ncclSized(64, "none", 9.5, 7./8), ncclSized(128, "none", 9.5, 7./8))
	for _, c := range [][2]string{
		{ncclRun(4, "alltoall_perf", "none", 0.75), "x:2: this is the output of alltoall_perf, which prices no collective of a link; use that of all_reduce_perf, all_gather_perf or reduce_scatter_perf"},
		{"# Collective test starting: \x1b[31mevil\x07_perf", `x:1: this is the output of "\x1b[31mevil\a_perf", which`},
		{ncclRun(2, "reduce_perf", "sum", 1), "x:2: this is the output of reduce_perf"},
		{ncclRun(4, "all_gather_perf", "none", 1), "x:16: busbw is 1 times algbw, where an all-gather over 4 ranks has 0.75; is it another"},
		{ncclRun(4, "all_gather_perf", "sum", 0.75), "x:14: redop = sum, which all_gather_perf does not print"},
		{strings.Replace(ncclJSON, "all_reduce_perf", "all_gather_perf", 1), "x: results[0]: "},
		{ncclRun(4, "", "none", 1), "x:15: busbw is 1 times algbw, where an all-gather over 4 ranks has 0.75; is it another"},
		{ncclRun(256, "", "none", 1), "x:267: busbw is 1 times algbw, where an all-gather over 256 ranks has 0.996; is it another"},
		{ncclRun(4, "", "none", 1.5), "x:15: busbw is 1.5 times algbw, where an all-gather over 4 ranks has 0.75"},
		{ncclRun(4, "", "sum", 1), "an all-reduce over 4 ranks has 1.5 and a reduce-scatter over 4 ranks has 0.75"},
		{slow, "x:17: busbw = 0.01 is too small or too near to algbw to distinguish an all-gather from other collectives; measure larger sizes"},
		{ncclText(4, ncclSized(1<<20, "sum", 25, 1.5), ncclSized(1<<26, "sum", 800, 0.75)), "x:12: busbw is 1.5 times algbw, where a reduce-scatter over 4 ranks has 0.75; is it another"},
		{ncclText(4, ncclSized(1<<20, "sum", 25, 0.75), ncclSized(1<<26, "none", 800, 0.75)), "x:12: redop = sum, but other rows of the run are of an all-gather"},
	} {
		list, err := calibrate.ReadNCCLTests("x", []byte(c[0]))
		require.ErrorContains(t, err, c[1])
		require.NotContains(t, err.Error(), "\n")
		require.Empty(t, list)
	}
}

// A gather has the factor of an all-gather, and a reduce over two ranks that of an
// all-reduce: only the root tells them.
func TestReadNCCLRooted(t *testing.T) {
	for _, file := range []string{"testdata/gather_unnamed_8.txt", "testdata/reduce_unnamed_2_ranks.txt"} {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		list, err := calibrate.ReadNCCLTests("x", data)
		require.ErrorContains(t, err, "root = 0, so this is a reduce, broadcast, gather or scatter, which prices no collective of a link; use the output of all_reduce_perf")
		require.Empty(t, list)
	}
	for _, root := range []string{`"     3"`, "3"} {
		_, err := calibrate.ReadNCCLTests("x", []byte(strings.Replace(ncclJSON, `"    -1"`, root, 1)))
		require.ErrorContains(t, err, "x: results[0]: root = 3, but all_reduce_perf has no root; is the file put together from two?")
	}
	_, err := calibrate.ReadNCCLTests("x", []byte(strings.Replace(ncclJSON, `"    -1"`, "-1", 1)))
	require.NoError(t, err)
}
