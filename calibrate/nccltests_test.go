package calibrate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/calibrate"
	"psim/schedules/graph"
)

// ncclText is a run as nccl-tests print it.
func ncclText(ranks int, rows ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# nThread 1 nGpus %d minBytes 8 maxBytes 1024 step: 2(factor) warmup iters: 5 iters: 20\n#\n# Using devices\n", ranks)
	for r := range ranks {
		fmt.Fprintf(&b, "#  Rank %2d Group  0 Pid   4242 on       node device %2d [0000:07:00] NVIDIA A100-SXM4-80GB\n", r, r)
	}
	b.WriteString("#\n#                                                   out-of-place                       in-place\n" +
		"#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n" +
		"#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n")
	for _, row := range rows {
		b.WriteString(row + "\n")
	}
	return b.String() + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 0.5\n#\n"
}

const (
	smallRow = "        1024           256     float     sum      -1    12.10    0.08    0.13      0    11.98    0.09    0.13      0"
	largeRow = "  1073741824     268435456     float     sum      -1  7259.4  147.91  221.86      0   7275.5  147.58  221.37      0"
)

func TestReadNCCLTests(t *testing.T) {
	want := []calibrate.CollectiveTiming{
		{Kind: graph.AllReduce, Ranks: 4, Bytes: 1024, Time: 12_100 * time.Nanosecond}, {Kind: graph.AllReduce, Ranks: 4, Bytes: 1 << 30, Time: 7_259_400 * time.Nanosecond},
	}
	text := ncclText(4, smallRow, "node:1:2 [0] NCCL INFO something", largeRow)
	list, err := calibrate.ReadNCCLTests("x", []byte(text))
	require.NoError(t, err)
	require.Equal(t, want, list)

	for _, tag := range []string{"[1,0]<stdout>:", "[prterun-node1-4242@1,0]<stdout>: ", "0: ", "[0] "} { // Open MPI 4 and 5, srun -l, hydra
		tagged := tag + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\r\n"+tag)
		list, err = calibrate.ReadNCCLTests("x", []byte(tagged))
		require.NoError(t, err)
		require.Equal(t, want, list)
	}
	// A run that crashed before its first row does not count.
	list, err = calibrate.ReadNCCLTests("x", []byte("\ufeff"+text[:strings.Index(text, "#\n#   ")]+text))
	require.NoError(t, err)
	require.Equal(t, want, list)

	// Two runs in one file; sizes of 0 bytes are left out; old versions have no
	// column for the root.
	old := strings.NewReplacer("   root ", " ", "      -1 ", " ").Replace(ncclText(2, "           0             0     float     sum      -1     5.00    0.00    0.00      0", "     4194304       1048576     float     sum      -1    61.18   68.55   68.55      0"))
	list, err = calibrate.ReadNCCLTests("x", []byte(text+old))
	require.NoError(t, err)
	require.Equal(t, append(want, calibrate.CollectiveTiming{Kind: graph.AllReduce, Ranks: 2, Bytes: 4 << 20, Time: 61_180}), list)
}

// ncclJSON is a report as -J writes it: two processes of two GPUs.
const ncclJSON = `{"version":2,"args":["all_reduce_perf"],"config":{"nthreads":1,"ngpus":2,"devices":[{"rank":0},{"rank":2}]},
"results":[
{"size":1024,"count":256,"type":"float","redop":"sum","root":"    -1","out_of_place":{"time":12.1,"alg_bw":0.08,"bus_bw":0.13,"nwrong":0},"in_place":{"time":1}},
{"size":1073741824,"out_of_place":{"time":7259.4,"alg_bw":147.91,"bus_bw":221.86,"nwrong":null}},
{"size":2048,"out_of_place":null,"in_place":{"time":1}}
],"end_time":"x"}`

func TestReadNCCLTestsJSON(t *testing.T) {
	list, err := calibrate.ReadNCCLTests("x", []byte("\ufeff "+ncclJSON+"\n"+ncclJSON))
	require.NoError(t, err)
	want := []calibrate.CollectiveTiming{{Kind: graph.AllReduce, Ranks: 4, Bytes: 1024, Time: 12_100}, {Kind: graph.AllReduce, Ranks: 4, Bytes: 1 << 30, Time: 7_259_400}}
	require.Equal(t, append(want, want...), list)
}

// A row that other output is glued to is read, or refused where it is not whole.
func TestReadNCCLGlued(t *testing.T) {
	const info = "node:1:2 [0] NCCL INFO Channel 00/02 : 0 1"
	want, err := calibrate.ReadNCCLTests("x", []byte(ncclText(4, smallRow, largeRow)))
	require.NoError(t, err)
	for _, row := range []string{info + smallRow, smallRow + info, info + smallRow + info} {
		list, err := calibrate.ReadNCCLTests("x", []byte(ncclText(4, row, largeRow)))
		require.NoError(t, err, row)
		require.Equal(t, want, list, row)
	}
	half := strings.Index(smallRow, " 12.10")
	_, err = calibrate.ReadNCCLTests("x", []byte(ncclText(4, info+smallRow[:half], smallRow[half:], largeRow)))
	require.ErrorContains(t, err, "x:12: the row has no time")
	_, err = calibrate.ReadNCCLTests("x", []byte(ncclText(4, info+smallRow[:half]+info, smallRow[half:], largeRow)))
	require.ErrorContains(t, err, `x:12: time = "node:1:2": must be a number`)
}

func TestReadNCCLTestsErrors(t *testing.T) {
	text := ncclText(4, smallRow, largeRow)
	first := 3 + 4 + 4 + 1 // the line of the first row
	edit := func(old, by string) string { return strings.Replace(text, old, by, 1) }
	for _, c := range [][2]string{
		{"", "x: holds no times"},
		{"{}", "x: config is missing"},
		{`{"kind": "predicted", "config": {"batch": {"global": 32}}}`, "x: this is a predicted result of psim run or exec, which has no times of separate collectives; give "},
		{"hello\n", "x: holds no times"},
		{edit("12.10", "12.1O"), fmt.Sprintf(`x:%d: time = "12.1O": must be a number`, first)},
		{edit("12.10", "0.00"), fmt.Sprintf("x:%d: time = 0: must be a number of microseconds above 0", first)},
		{edit("12.10", "NaN"), fmt.Sprintf("x:%d: time = NaN: must be a number", first)},
		{edit("12.10", "1e300"), fmt.Sprintf("x:%d: time = 1e+300: must be a number", first)},
		{edit("        1024 ", "99999999999999999999 "), fmt.Sprintf("x:%d: size = 1e+20: must be a number of bytes", first)},
		{edit("  256  ", "  2S6  "), fmt.Sprintf(`x:%d: count = "2S6": must be a number`, first)},
		{edit("  1024  ", "  1O24  "), fmt.Sprintf(`x:%d: size = "1O24": must be a number`, first)},
		{edit("221.86", "221.8G"), fmt.Sprintf(`x:%d: busbw = "221.8G": must be a number`, first+1)},
		{edit(smallRow, "        1024"), fmt.Sprintf("x:%d: the row has no count", first)},
		{edit("0.13      0", "0.13      3"), fmt.Sprintf("x:%d: 3 wrong results: the measured collective is broken", first)},
		{edit("0.13      0", "0.13      x"), fmt.Sprintf(`x:%d: #wrong = "x": must be a number`, first)},
		{edit(smallRow, "        1024           256     float"), fmt.Sprintf("x:%d: the row has no time", first)},
		{edit("221.86", "333.85"), fmt.Sprintf("x:%d: busbw is 2.26 times algbw, where an all-reduce over 4 ranks has 1.5 and a reduce-scatter over 4 ranks has 0.75; is it another collective", first+1)},
		{edit("7259.4", "7.2594"), fmt.Sprintf("x:%d: size = 1.073741824e+09 in time = 7.2594 microseconds are 1.48e+05 GB/s, where algbw is 148; is the time in another unit?", first+1)},
		{edit("#  Rank  1", "#"), "x:6: rank 2, where rank 1 is next: the number of ranks is unknown; were lines lost"},
		{edit("#  Rank  3", "#  Rank  2"), "x:7: rank 2, where rank 3 is next"},
		{edit("values : 0 OK", "values : 12 FAILED"), fmt.Sprintf("x:%d: nccl-tests found wrong results: the measured collective", first+2)},
		{edit("    0.08    0.13 ", "    0.50    0.75 "), fmt.Sprintf("x:%d: size = 1024 in time = 12.1 microseconds are 0.0846 GB/s, where algbw is 0.5; is the time in another unit?", first)},
		{edit("    0.08    0.13 ", "    -5    0.13 "), fmt.Sprintf("x:%d: size = 1024 in time = 12.1 microseconds are 0.0846 GB/s, where algbw is -5", first)},
		{strings.Replace(ncclJSON, `"results":[`, `"out_of_bounds":{"count":4,"okay":false},"results":[`, 1), "x: out_of_bounds.okay is false: the measured collective"},
		{edit("#  Rank  3", "#"), fmt.Sprintf("x:%d: busbw is 1.5 times algbw, where an all-reduce over 3 ranks has 1.33", first+1)},
		{strings.ReplaceAll(text, "Rank", "GPU"), fmt.Sprintf("x:%d: a row before the lines", first)},
		{strings.ReplaceAll(text, "busbw", "bus"), fmt.Sprintf("x:%d: a row before the heading", first)},
		{strings.ReplaceAll(text, " time ", " cputime "), fmt.Sprintf("x:%d: these are times of the CPU", first-2)},
		{ncclText(1, smallRow), "x:9: one rank has nothing to exchange with"},
		{strings.Replace(ncclJSON, `"nwrong":0`, `"nwrong":3.000000`, 1), "x: results[0]: 3 wrong results: the measured collective is broken"},
		{strings.Replace(ncclJSON, `"nwrong":0`, `"wrong":2`, 1), "x: results[0]: 2 wrong results: the measured collective is broken"},
		{strings.Replace(ncclJSON, "all_reduce_perf", "./build/alltoall_perf", 1), "x: this is the output of alltoall_perf, which prices no collective"},
		{ncclJSON[:200], "x:3: the file ends within the JSON"},
		{strings.Replace(ncclJSON, `"time":12.1`, `"time":"nan"`, 1), "x:3: results.out_of_place.time: must be a number, not string"},
		{strings.Replace(ncclJSON, `"time":12.1`, `"time":-1`, 1), "x: results[0]: time = -1: must be a number of microseconds"},
		{strings.Replace(ncclJSON, `"time":12.1`, `"cpu_time":12`, 1), "x: results[0]: these are times of the CPU"},
		{strings.Replace(ncclJSON, `"time":12.1,`, ``, 1), "x: results[0].out_of_place: time is missing"},
		{strings.Replace(ncclJSON, `"ngpus":2`, `"ngpus":1.5`, 1), "x:1: config.ngpus: must be an integer, not number 1.5"},
		{strings.Replace(ncclJSON, `"ngpus":2`, `"ngpus":0`, 1), "x: config: nthreads = 1, ngpus = 0"},
		{strings.Replace(ncclJSON, `"nthreads":1,"ngpus":2`, `"nthreads":1000000,"ngpus":1000000`, 1), "x: results[0]: 2000000000000 ranks are more than"},
		{strings.Replace(ncclJSON, `"results":[`, `"results":[,`, 1), "x:2: invalid JSON: invalid character"},
	} {
		list, err := calibrate.ReadNCCLTests("x", []byte(c[0]))
		require.ErrorContains(t, err, c[1])
		require.NotContains(t, err.Error(), "\n")
		require.Empty(t, list)
	}
}

// Whatever a file holds, reading it ends with timings that can be fitted, or an
// error that names the file.
func FuzzReadNCCLTests(f *testing.F) {
	f.Add([]byte(ncclText(4, smallRow, largeRow)))
	f.Add([]byte(ncclRun(8, "all_gather_perf", "none", 7./8)))
	f.Add([]byte(ncclRun(2, "", "sum", 0.5) + ncclRun(2, "", "sum", 1)))
	f.Add([]byte("#  Rank 0 \n#  Rank 1 \n# size count time algbw busbw redop\n1 1 1 1 1\n"))
	f.Add([]byte(ncclJSON))
	f.Add([]byte("{\"config\":{}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := calibrate.ReadNCCLTests("x", data)
		if err != nil {
			require.True(t, strings.HasPrefix(err.Error(), "x:"), err.Error())
			return
		}
		require.NotEmpty(t, list)
		if len(list) < 50 {
			_, err = calibrate.FitTimings(list)
			require.NoError(t, err)
		}
	})
}
