package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/calibrate"
	"psim/configs"
	"psim/costmodel"
	"psim/schedules/graph"
)

// ncclOutput is the text that nccl-tests prints for all-reduces of 1 KiB to 256 MiB, with a start-up
// in µs and a bus bandwidth in GB/s.
func ncclOutput(ranks int, call, bandwidth float64) string {
	return ncclOutputOf("all_reduce_perf", "sum", 2, ranks, call, bandwidth)
}

// ncclOutputOf is the text of a collective that moves its tensor once or twice.
func ncclOutputOf(test, redop string, moves float64, ranks int, call, bandwidth float64) string {
	var b strings.Builder
	b.WriteString("# Collective test starting: " + test + "\n# Using devices\n")
	for r := range ranks {
		fmt.Fprintf(&b, "#  Rank %2d Group  0 Pid   4242 on       node device %2d [0000:07:00] NVIDIA GPU\n", r, r)
	}
	b.WriteString("#       size         count      type   redop    root     time   algbw   busbw #wrong\n")
	factor := moves * float64(ranks-1) / float64(ranks)
	for size := 1 << 10; size <= 1<<28; size *= 2 {
		us := call + factor*float64(size)/bandwidth/1e3
		algbw := float64(size) / us / 1e3
		fmt.Fprintf(&b, "%12d %12d float %s -1 %.3f %.3f %.3f 0\n", size, size/4, redop, us, algbw, algbw*factor)
	}
	return b.String()
}

// linked is the machine of an A100 and a machine file that has a link.
func linked(t *testing.T, file string) costmodel.Machine {
	c, err := configs.Load("ddp", "machine.file="+file, "machine.device=a100-80gb-sxm")
	require.NoError(t, err)
	experiment, err := c.Build()
	require.NoError(t, err)
	return experiment.Machine
}

// Two files make a link whose table has both numbers of ranks, and whose time per step follows from
// the difference between eight ranks and two; psim run accepts it.
func TestCalibrateNCCL(t *testing.T) {
	userFolder(t)
	require.NoError(t, os.WriteFile("2-gpus.txt", []byte(ncclOutput(2, 12, 50)), 0o644))
	require.NoError(t, os.WriteFile("8-gpus.txt", []byte(ncclOutput(8, 24, 80)), 0o644))
	stdout, stderr, code := psim(t, "psim calibrate --nccl 2-gpus.txt --nccl 8-gpus.txt")
	require.Zero(t, code, stderr)
	require.Empty(t, stderr)
	require.Contains(t, stdout, "all-reduces: 38 measured times, of 1KiB to 256MiB, from 2-gpus.txt, 8-gpus.txt\n")
	require.Contains(t, stdout, "80.0 GB/s, 10.0 µs for a call and 1.00 µs for a step\n")
	require.Contains(t, stdout, "mean 0.0 %, worst 0.0 %; fitted to every second size, 0.0 % on the others\n")
	m := linked(t, "my-link.toml")
	require.Len(t, m.Link.AllReduce, 2)
	require.InEpsilon(t, 50e9, float64(m.Link.Bandwidth), 1e-3)
	_, stderr, code = psim(t, "psim run ddp --set machine.file=my-link.toml --set machine.device=a100-80gb-sxm --out -")
	require.Zero(t, code, stderr)

	stdout, stderr, code = psim(t, "psim calibrate --nccl 8-gpus.txt --json --out eight.toml")
	require.Zero(t, code, stderr)
	var read calibrate.LinkFit
	require.NoError(t, json.Unmarshal([]byte(stdout), &read))
	require.Equal(t, "psim calibrate --nccl 8-gpus.txt --out eight.toml", read.Command)
	require.Len(t, read.Ranges, 1)
	require.InEpsilon(t, 24e-6, read.Ranges[0].Call, 1e-3)
	require.Less(t, read.WorstError, 1e-3)
	require.NotNil(t, read.HeldOutError)

	few := strings.Join(strings.SplitAfter(ncclOutput(2, 12, 50), "\n")[:7], "") // two sizes
	require.NoError(t, os.WriteFile("few.txt", []byte(few), 0o644))
	stdout, stderr, code = psim(t, "psim calibrate --nccl few.txt")
	require.Zero(t, code, stderr)
	require.NotContains(t, stdout, "on the others")
}

// Tests of three collectives, in one file or several, make a table each, and a step that runs on the
// link takes the times in them.
func TestCalibrateNCCLCollectives(t *testing.T) {
	userFolder(t)
	gather, scatter := ncclOutputOf("all_gather_perf", "none", 1, 8, 15, 90), ncclOutputOf("reduce_scatter_perf", "sum", 1, 8, 18, 70)
	require.NoError(t, os.WriteFile("8-gpus.txt", []byte(ncclOutput(8, 24, 80)), 0o644))
	require.NoError(t, os.WriteFile("halves.txt", []byte(gather+scatter), 0o644))
	stdout, stderr, code := psim(t, "psim calibrate --nccl halves.txt --nccl 8-gpus.txt --json")
	require.Zero(t, code, stderr)
	var read calibrate.LinkFit
	require.NoError(t, json.Unmarshal([]byte(stdout), &read))
	require.Equal(t, 57, read.Sizes)
	require.Len(t, read.Ranges, 3)
	for i, want := range []calibrate.FittedRange{{Collective: "all_reduce", Call: 24e-6, Bandwidth: 80e9}, {Collective: "all_gather", Call: 15e-6, Bandwidth: 90e9}, {Collective: "reduce_scatter", Call: 18e-6, Bandwidth: 70e9}} {
		require.Equal(t, want.Collective, read.Ranges[i].Collective)
		require.InEpsilon(t, want.Call, read.Ranges[i].Call, 1e-3)
		require.InEpsilon(t, want.Bandwidth, read.Ranges[i].Bandwidth, 1e-3)
		require.Equal(t, want.Collective, read.Tables[i].Collective)
		require.Equal(t, 19, read.Tables[i].Sizes)
		require.Less(t, read.Tables[i].WorstError, 1e-3)
		require.Less(t, *read.Tables[i].HeldOutError, 1e-3)
	}
	require.InEpsilon(t, 80e9, read.Link.Collective, 1e-3, "of all-reduces")
	require.Equal(t, []string{"8-gpus.txt"}, read.Tables[0].Inputs)

	data, err := os.ReadFile("my-link.toml")
	require.NoError(t, err)
	require.Contains(t, string(data), "\n# reduce_scatter is from 19 times of 1KiB to 256MiB in halves.txt: off by 0.0 % on average, 0.0 % at worst.\n")
	m := linked(t, "my-link.toml")
	require.NotEmpty(t, m.Link.AllGather)
	require.Equal(t, 8, m.Link.AllGather[0].Ranks, "measured")
	took := m.Link.CollectiveTime(graph.AllGather, 8, 1<<20).Seconds()
	require.InEpsilon(t, 15e-6+7./8*(1<<20)/90e9, took, 1e-3)

	stdout, stderr, code = psim(t, "psim calibrate --nccl halves.txt")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "all-gathers: 19 measured times, of 1KiB to 256MiB, from halves.txt\n")
	require.Contains(t, stdout, "reduce-scatters: 19 measured times, of 1KiB to 256MiB, from halves.txt\n")
	require.NotContains(t, stdout, "all-reduces")
	require.Contains(t, stdout, "other numbers of ranks  90.0 GB/s")
}

// Doubts about the measurements are printed, and written into the link's file. From a single size only
// a bandwidth is fitted.
func TestCalibrateNCCLWarnings(t *testing.T) {
	userFolder(t)
	text := ncclOutput(4, 10, 100)
	lines := strings.SplitAfter(text, "\n")
	small := strings.Join(lines[:10], "")
	one := strings.Replace(small, lines[8], "", 1)
	one = strings.Replace(one, lines[9], "", 1)
	hosts := strings.Replace(text, " node device", " other device", 1)
	slow := strings.Replace(text, lines[7], strings.SplitAfter(ncclOutput(4, 10_000, 100), "\n")[7], 1)
	for name, c := range map[string][2]string{
		"small.txt": {small, "all-reduces over 4 ranks end at 4KiB: the times of larger tensors are unknown"},
		"one.txt":   {one, "all-reduces over 4 ranks have one size, 1KiB: all of its time counts as bandwidth"},
		"slow.txt":  {slow, "all-reduces over 4 ranks take 10.0 ms at 1KiB and only "},
		"fast.txt":  {ncclOutput(4, 10, 3000), "all-reduces over 4 ranks reach 3.00 TB/s at the largest sizes, more than any link does: check"},
		"hosts.txt": {hosts, "all-reduces over 4 ranks are of 2 nodes, and go into [machine.network]: set machine.devices_per_node = 2 and nics_per_node in addition"},
	} {
		require.NoError(t, os.WriteFile(name, []byte(c[0]), 0o644))
		stdout, stderr, code := psim(t, "psim calibrate --nccl "+name+" --json")
		require.Zero(t, code, stderr)
		var read calibrate.LinkFit
		require.NoError(t, json.Unmarshal([]byte(stdout), &read))
		require.Len(t, read.Warnings, 1, name)
		require.Contains(t, read.Warnings[0], c[1])
		data, err := os.ReadFile("my-link.toml")
		require.NoError(t, err)
		require.Contains(t, string(data), "\n# Warning: "+c[1])
		stdout, _, _ = psim(t, "psim calibrate --nccl "+name)
		require.Contains(t, stdout, "\nwarning: all-reduces over 4 ranks")
		if name == "one.txt" {
			require.Zero(t, read.Ranges[0].Call)
			require.InEpsilon(t, 2*3./4*1024/(10e-6+2*3./4*1024/100e9), read.Ranges[0].Bandwidth, 1e-3)
		}
	}
}

// If the times of small sizes hardly grow, calibrate warns that the fitted bandwidth is no rate. It
// also reports that it replaced an earlier file.
func TestCalibrateNCCLSteep(t *testing.T) {
	userFolder(t)
	flat, rising := strings.SplitAfter(ncclOutput(2, 30, 5000), "\n"), strings.SplitAfter(ncclOutput(2, 12, 50), "\n")
	require.NoError(t, os.WriteFile("steep.txt", []byte(strings.Join(append(flat[:13], rising[13:]...), "")), 0o644))
	stdout, stderr, code := psim(t, "psim calibrate --nccl steep.txt")
	require.Zero(t, code, stderr)
	const note = "how little times grow with the bytes: it is not a rate of the link"
	require.Regexp(t, `2 +0B  30.0 µs +\*4.36 TB/s\n`, stdout)
	require.Contains(t, stdout, "\n  * "+note+"\n")
	require.Contains(t, stdout, "\nwrote my-link.toml; use it with\n")
	data, err := os.ReadFile("my-link.toml")
	require.NoError(t, err)
	require.Contains(t, string(data), "\n# A bandwidth far above that of the largest sizes says "+note+".\n")

	require.NoError(t, os.WriteFile("plain.txt", []byte(strings.Join(rising, "")), 0o644))
	stdout, _, code = psim(t, "psim calibrate --nccl plain.txt")
	require.Zero(t, code)
	require.NotContains(t, stdout, "*")
	require.Contains(t, stdout, "\nreplaced my-link.toml; use it with\n")
}

// A link measured over several nodes is that of the network, and a machine of such nodes takes as
// long.
func TestCalibrateNCCLOverNodes(t *testing.T) {
	userFolder(t)
	hosts := strings.Replace(ncclOutput(4, 10, 100), " node device", " other device", 1)
	require.NoError(t, os.WriteFile("hosts.txt", []byte(hosts), 0o644))
	_, stderr, code := psim(t, "psim calibrate --nccl hosts.txt --out network.toml")
	require.Zero(t, code, stderr)
	config := "[schedule]\nname = \"ddp\"\n[model]\nfamily = \"mlp\"\nlayers = 2\nhidden = 4096\n[batch]\nglobal = 4\n[parallel]\ndata = 4\nbucket = \"1GB\"\n" +
		"[machine]\nfile = \"network.toml\"\ndevice = \"h100-80gb-sxm\"\ndevices_per_node = 2\nnics_per_node = 2\n"
	require.NoError(t, os.WriteFile("ddp.toml", []byte(config), 0o644))
	stdout, stderr, code := psim(t, "psim run ddp.toml --json")
	require.Zero(t, code, stderr)
	var read struct {
		Groups []struct {
			Time float64 `json:"time_s"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &read))
	const bytes = 2 * (4096*4096 + 4096) * 4 // in a bucket for each layer
	require.InEpsilon(t, 2*10e-6+2*3./4*bytes/100e9, read.Groups[0].Time, 1e-6)
}

// Wrong input leaves no file.
func TestCalibrateNCCLErrors(t *testing.T) {
	userFolder(t)
	text := ncclOutput(4, 10, 100)
	require.NoError(t, os.WriteFile("good.txt", []byte(text), 0o644))
	require.NoError(t, os.WriteFile("bad.txt", []byte(strings.Replace(text, " float sum -1 1", " float sum -1 x", 1)), 0o644))
	require.NoError(t, os.WriteFile("other.txt", []byte(strings.Replace(text, "all_reduce", "alltoall", 1)), 0o644))
	require.NoError(t, os.WriteFile("wrong.txt", []byte(strings.Replace(text, " 0\n", " 3\n", 1)), 0o644))
	require.NoError(t, os.WriteFile("all-to-all.json", []byte(`{"collective": "all-to-all", "devices": 2, "sizes": []}`), 0o644))
	require.NoError(t, os.WriteFile("half.json", []byte(`{"collective": "ring-allreduce", "devices": 2, "sizes": [`), 0o644))
	require.NoError(t, os.WriteFile("measured.toml", []byte("# A machine file, written by psim calibrate.\n"), 0o644))
	for _, c := range [][2]string{
		{"--nccl nowhere.txt", "--nccl nowhere.txt: no such file or directory"},
		{"--nccl configs", "--nccl configs: is not a regular file"},
		{"--nccl my.toml", "--nccl my.toml: holds no times"},
		{"--nccl good.txt --nccl bad.txt", "--nccl bad.txt:8: time = \"x"},
		{"--nccl good.txt --nccl other.txt", "--nccl other.txt:1: this is the output of alltoall_perf, which prices no collective of a link"},
		{"--nccl wrong.txt", "--nccl wrong.txt:8: 3 wrong results: the measured collective is broken"},
		{"--nccl good.txt gpipe", "--nccl fits a link to files and measures nothing here; leave out CONFIG"},
		{"--nccl good.txt --set model.layers=1", "leave out CONFIG, --set"},
		{"--nccl good.txt --repeats 3", "leave out CONFIG, --set, --samples and --repeats"},
		{"--nccl good.txt --nccl ./good.txt", "--nccl ./good.txt: is given twice, and its times would count twice; give every file once"},
		{"--nccl all-to-all.json", "--nccl all-to-all.json: this is the output of all-to-all, which prices no collective of a link; use that of an all-reduce"},
		{"--nccl half.json", "--nccl half.json:1: the file ends within the JSON"},
		{"--nccl good.txt --out my.toml", "--out my.toml: was not written by psim; name another file, or replace it with --overwrite"},
		{"--nccl good.txt --out measured.toml", "--out measured.toml: was not written by psim; name another file, or replace it with --overwrite"},
		{"--nccl good.txt --out " + os.DevNull, "is not a regular file; name another file"},
		{"--nccl good.txt --out nowhere/x.toml", "--out nowhere/x.toml: there is no folder"},
	} {
		stdout, stderr, code := psim(t, "psim calibrate "+c[0])
		require.Equal(t, exitUsage, code, c[0])
		require.Empty(t, stdout)
		require.Contains(t, stderr, c[1])
		require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
	}
	require.NoFileExists(t, defaultLinkFile)
}
