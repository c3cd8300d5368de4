package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
)

// ncclOutput is nccl-tests' text for a call of so many µs and a bus bandwidth of
// so many GB/s, over sizes of 1 KiB to 256 MiB.
func ncclOutput(ranks int, call, bandwidth float64) string {
	var b strings.Builder
	b.WriteString("# Using devices\n")
	for r := range ranks {
		fmt.Fprintf(&b, "#  Rank %2d Group  0 Pid   4242 on       node device %2d [0000:07:00] NVIDIA GPU\n", r, r)
	}
	b.WriteString("#       size         count      type   redop    root     time   algbw   busbw #wrong\n")
	factor := 2 * float64(ranks-1) / float64(ranks)
	for size := 1 << 10; size <= 1<<28; size *= 2 {
		us := call + factor*float64(size)/bandwidth/1e3
		algbw := float64(size) / us / 1e3
		fmt.Fprintf(&b, "%12d %12d float sum -1 %.3f %.3f %.3f 0\n", size, size/4, us, algbw, algbw*factor)
	}
	return b.String()
}

// Two files make a link whose table has both numbers of ranks, and whose steps
// are what eight ranks take more than two; psim run accepts it.
func TestCalibrateNCCL(t *testing.T) {
	userFolder(t)
	require.NoError(t, os.WriteFile("2-gpus.txt", []byte(ncclOutput(2, 12, 50)), 0o644))
	require.NoError(t, os.WriteFile("8-gpus.txt", []byte(ncclOutput(8, 24, 80)), 0o644))
	stdout, stderr, code := psim(t, "psim calibrate --nccl 2-gpus.txt --nccl 8-gpus.txt")
	require.Zero(t, code, stderr)
	require.Empty(t, stderr)
	require.Contains(t, stdout, "all-reduces: 38 times from 2-gpus.txt, 8-gpus.txt\n")
	require.Contains(t, stdout, "80.0 GB/s, 10.0 µs for a call and 1.00 µs for a step\n")
	require.Contains(t, stdout, "mean 0.0 %, worst 0.0 %; fitted to every second size, 0.0 % on the others\n")
	data, err := os.ReadFile("my-link.toml")
	require.NoError(t, err)
	m, err := configs.ParseMachine("my-link.toml", data)
	require.NoError(t, err)
	require.Len(t, m.Link.AllReduce, 2)
	require.InEpsilon(t, 50e9, float64(m.Link.Bandwidth), 1e-3)
	_, stderr, code = psim(t, "psim run ddp --set machine.file=my-link.toml --set machine.device=a100-80gb-sxm --out -")
	require.Zero(t, code, stderr)

	stdout, stderr, code = psim(t, "psim calibrate --nccl 8-gpus.txt --json --out eight.toml")
	require.Zero(t, code, stderr)
	var read ncclCalibration
	require.NoError(t, json.Unmarshal([]byte(stdout), &read))
	require.Equal(t, "psim calibrate --nccl 8-gpus.txt --out eight.toml", read.Command)
	require.Len(t, read.Ranges, 1)
	require.InEpsilon(t, 24e-6, read.Ranges[0].Call, 1e-3)
	require.Less(t, read.WorstError, 1e-3)
	require.NotNil(t, read.HeldOutError)

	few := strings.Join(strings.SplitAfter(ncclOutput(2, 12, 50), "\n")[:6], "") // two sizes
	require.NoError(t, os.WriteFile("few.txt", []byte(few), 0o644))
	stdout, stderr, code = psim(t, "psim calibrate --nccl few.txt")
	require.Zero(t, code, stderr)
	require.NotContains(t, stdout, "on the others")
}

// Wrong input leaves no file.
func TestCalibrateNCCLErrors(t *testing.T) {
	userFolder(t)
	text := ncclOutput(4, 10, 100)
	require.NoError(t, os.WriteFile("good.txt", []byte(text), 0o644))
	require.NoError(t, os.WriteFile("bad.txt", []byte(strings.Replace(text, " float sum -1 1", " float sum -1 x", 1)), 0o644))
	for _, c := range [][2]string{
		{"--nccl nowhere.txt", "--nccl nowhere.txt: no such file or directory"},
		{"--nccl configs", "--nccl configs: is not a regular file"},
		{"--nccl my.toml", "--nccl my.toml: holds no times"},
		{"--nccl good.txt --nccl bad.txt", "--nccl bad.txt:7: time = \"x"},
		{"--nccl good.txt gpipe", "--nccl fits a link to files and measures nothing here; leave out CONFIG"},
		{"--nccl good.txt --set model.layers=1", "leave out CONFIG, --set"},
		{"--nccl good.txt --out my.toml", "--out my.toml: is there, and psim calibrate has not written it"},
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
