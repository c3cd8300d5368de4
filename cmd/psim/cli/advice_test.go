package cli

import (
	"cmp"
	"encoding/json"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/internal/units"
	"psim/results"
)

// TestMemoryAdvice checks that the advice of a run that does not fit is true.
func TestMemoryAdvice(t *testing.T) {
	userFolder(t)
	line := "psim run gpipe --set machine.device=rtx-2080ti --set train.precision=fp16 --set batch.global=64 --set model.attention=unfused --json"
	stdout, _, code := psim(t, line)
	require.Zero(t, code, "not fitting is a warning")
	var r struct {
		FitsMemory bool     `json:"fits_memory"`
		Warnings   []string `json:"warnings"`
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &r))
	require.False(t, r.FitsMemory)
	require.Len(t, r.Warnings, 2)
	require.Contains(t, r.Warnings[0], "rank 0 needs 14.0 GB of memory and has 11.8 GB, 2.18 GB too little")
	_, advice, found := strings.Cut(r.Warnings[1], "it would fit with ")
	require.True(t, found, r.Warnings[1])
	advice, _, _ = strings.Cut(advice, " (")
	stdout, _, code = psim(t, line+" "+advice)
	require.Zero(t, code)
	require.NoError(t, json.Unmarshal([]byte(stdout), &r))
	require.True(t, r.FitsMemory)
}

// TestNothingFits checks the advice if no change makes a run fit.
func TestNothingFits(t *testing.T) {
	userFolder(t)
	const line = "psim run gpipe --out - --set schedule.name=ddp --set schedule.stages=1 --set schedule.microbatches=8 --set batch.global=8 " +
		"--set machine.compute.memory=1MB --set schedule.partition=[15]"
	stdout, _, code := psim(t, line+" --set train.recompute=full --set train.offload_activations=11")
	require.Zero(t, code)
	require.Contains(t, stdout, "nothing that saves memory is left to change")

	// The memory of the node is too small, however little a rank takes.
	stdout, _, code = psim(t, "psim run gpipe --out - --set machine.memory_per_node=1GB")
	require.Zero(t, code)
	require.Regexp(t, `the closest is --set .*, which is 1\.\d+ GB short`, stdout)
}

// If the network can be divided among the devices in other ways, the advice is one of them. If it finds none, it
// names the search that tries all of them.
func TestNothingFitsAsDivided(t *testing.T) {
	userFolder(t)
	const text = "[schedule]\nname = \"ddp\"\n[model]\npreset = \"llama3-8b\"\nsequence_length = 2048\n[batch]\nglobal = 8\n[parallel]\ndata = 8\nzero = 1\n" +
		"[train]\nstack = \"megatron-te\"\nprecision = \"fp16\"\nrecompute = \"full\"\n[machine]\ndevice = \"v100-32gb-sxm\"\ndevices_per_node = 8\n"
	require.NoError(t, os.WriteFile("v100.toml", []byte(text), 0o644))
	stdout, _, code := psim(t, "psim run v100.toml --out -")
	require.Zero(t, code)
	require.Regexp(t, `\nwarning: it would fit with --set parallel.tensor=\d --set parallel.sequence=true --set parallel.data=\d \([0-9.]+ GB at most, step [^,]*, [0-9.]+ samples/s\)`, stdout)
	stdout, _, code = psim(t, "psim run v100.toml --out - --set model.preset=llama3-70b")
	require.Zero(t, code)
	require.Regexp(t, "\nwarning: none of \\d+ changes that save memory and that stack megatron-te has makes it fit; ", stdout)
	require.Contains(t, stdout, "; psim search CONFIG --devices 8 --trainer megatron-te, with the same settings, tries all ways to divide the network among as many devices\n")
	require.NotContains(t, stdout, "take a smaller model")
	stdout, stderr, code := psim(t, "psim search v100.toml --devices 8 --trainer megatron-te --rows 1")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "\n  --set parallel.tensor=")
}

// If no network joins the nodes, the advice says why it does not add devices, and so does psim
// search.
func TestNothingFitsInNode(t *testing.T) {
	userFolder(t)
	const text = "[schedule]\nname = \"ddp\"\n[model]\npreset = \"gpt2-xl\"\nsequence_length = 1024\n[batch]\nglobal = 8\n" +
		"[train]\nprecision = \"fp16\"\n[machine]\ndevice = \"t4\"\ndevices_per_node = 1\n"
	require.NoError(t, os.WriteFile("t4.toml", []byte(text), 0o644))
	stdout, _, code := psim(t, "psim run t4.toml --out -")
	require.Zero(t, code)
	require.Contains(t, stdout, " short; machine.network is not given, so that there can be no more than the 1 device of a node\n")
	_, stderr, code := psim(t, "psim search t4.toml --devices 2")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "machine.network: 2 devices take 2 nodes (devices_per_node = 1), and no network joins them; name one")
	stdout, _, code = psim(t, "psim search t4.toml --devices 1 --set machine.compute.memory=1GB")
	require.Equal(t, exitFailed, code)
	require.Contains(t, stdout, "machine.network is not given, so that no plan has more than the 1 device of a node; name one (psim list devices -v) to try more\n")
	stdout, stderr, code = psim(t, "psim search t4.toml")
	require.Equal(t, exitFailed, code)
	require.Contains(t, stdout, "no plan fits: of all 4, parameters")
	require.Empty(t, stderr)
}

// TestWouldFit checks every change that psim advises: with it the run fits, and its peak, time and
// devices are as the advice says.
func TestWouldFit(t *testing.T) {
	userFolder(t)
	for _, line := range []string{
		"psim run gpipe --json --set machine.memory_margin=0.92",
		"psim run gpipe --json --set machine.compute.memory=1.5GB --set parallel.data=2 --set model.vocab=50304 --set batch.global=64",
		"psim run gpipe --json --set schedule.name=ddp --set schedule.stages=1 --set batch.global=8 --set model.vocab=50304 --set machine.compute.memory=1.5GB",
	} {
		stdout, stderr, code := psim(t, line)
		require.Zero(t, code, stderr)
		before, err := results.ReadResult(strings.NewReader(stdout))
		require.NoError(t, err)
		require.False(t, before.Fits())
		require.NotEmpty(t, before.WouldFit)
		for _, change := range before.WouldFit {
			stdout, stderr, code = psim(t, line+" --set "+strings.Join(change.Set, " --set "))
			require.Zero(t, code, stderr)
			after, err := results.ReadResult(strings.NewReader(stdout))
			require.NoError(t, err)
			require.True(t, after.Fits())
			require.Empty(t, after.WouldFit)
			peak := int64(0)
			for _, r := range after.Ranks {
				peak = max(peak, r.PeakMemory)
			}
			require.Equal(t, change, results.Remedy{
				Set: change.Set, PeakMemory: peak, StepTime: after.StepTime, Samples: after.Throughput.Samples,
				Devices: len(after.Ranks) * after.TensorParallel,
			})
			require.Contains(t, strings.Join(before.Warnings, "\n"), "--set "+strings.Join(change.Set, " --set ")+" (")
		}
	}
}

// Every remedy that a run of a preset prints works when it is appended to the command, and gives the
// figures that it names. It replaces --devices where it needs other devices.
func TestRemediesOfPresets(t *testing.T) {
	userFolder(t)
	printed := regexp.MustCompile(`((?:--devices \d+ )?--set [^(]*) \((\S+ \S+) at most, step ([^,)]*), ` +
		`(\S+) samples/s(?:, on (\d+) devices? instead of \d+)?\)`)
	tried := 0
	for _, line := range []string{
		"llama2-13b --device rtx-4090 --devices 8", "gpt2-xl --device rtx-4090 --devices 1",
		"llama3-8b --device tpu-v5e --devices 4", "gpt3-13b --device a100-40gb-sxm --devices 2",
		"gpt-oss-20b --device rtx-4090 --devices 8", "llama3-8b --device rtx-4090 --devices 8 --set parallel.tensor=2",
		"llama3-8b --device rtx-4090 --set parallel.data=8", "llama2-13b --device rtx-4090",
		"llama3-8b --device rtx-4090 --devices 4 --set parallel.zero=1",
		"llama3-8b --device rtx-4090 --devices 4 --set schedule.name=1f1b --set schedule.stages=4",
	} {
		line = "psim run " + line + " --json"
		before := predicted(t, line)
		require.False(t, before.Fits(), line)
		advice := before.Warnings[len(before.Warnings)-1]
		remedies := printed.FindAllStringSubmatch(advice, -1)
		require.Len(t, remedies, len(before.WouldFit), advice)
		for i, r := range remedies {
			tried++
			flags := append(before.WouldFit[i].Flags, "--set "+strings.Join(before.WouldFit[i].Set, " --set "))
			require.Equal(t, strings.Join(flags, " "), r[1])
			after := predicted(t, line+" "+r[1])
			require.Equal(t, []string{r[2], r[3], r[4]}, []string{
				units.FormatBytes(after.PeakMemory()), units.FormatSeconds(after.StepTime),
				units.FormatPerSecond(after.Throughput.Samples),
			}, "%s %s", line, r[1])
			require.Equal(t, cmp.Or(r[5], strconv.Itoa(before.Devices)), strconv.Itoa(after.Devices))
		}
	}
	require.Greater(t, tried, 20)
}

// Replicas of a preset are sharded, however their number was given, unless another plan was asked for
// or the stack cannot.
func TestReplicasOfPresets(t *testing.T) {
	userFolder(t)
	const line = "psim run gpt2 --device h100-80gb-sxm --json"
	flag, set := predicted(t, line+" --devices 8"), predicted(t, line+" --set parallel.data=8")
	require.Equal(t, flag.PeakMemory(), set.PeakMemory())
	require.Equal(t, flag.StepTime, set.StepTime)
	for _, r := range []results.Result{flag, set} {
		require.Contains(t, r.Warnings[0], `assumed: schedule.name = "ddp", parallel.zero = 3, batch.micro = 1`)
	}
	split := predicted(t, line+" --devices 8 --set schedule.name=1f1b --set schedule.stages=4")
	require.Equal(t, []int{8, 2}, []int{split.Devices, split.DataParallel})
	for _, asked := range []string{"schedule.name=ddp", "parallel.zero=0", "train.stack=megatron-2021"} {
		r := predicted(t, line+" --devices 8 --set "+asked)
		require.Greater(t, r.PeakMemory(), flag.PeakMemory(), asked)
		require.NotContains(t, strings.Join(r.Warnings, "\n"), "parallel.zero = 3")
	}
	stdout, _, code := psim(t, "psim sweep llama3-8b --device h100-80gb-sxm --vary parallel.data=1,8")
	require.Zero(t, code)
	require.Regexp(t, `(?m)^ *1 .* no .*\n *8 .* yes `, stdout)
	_, stderr, code := psim(t, line+" --devices 8 --set parallel.data=4")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "--devices 8: the settings make a plan for 4 devices")
}

// TestMargin checks that a margin reduces the memory. Without a margin a peak just below the memory
// fits, with a warning that it is close.
func TestMargin(t *testing.T) {
	userFolder(t)
	const tight = "psim run gpipe --out - --set model.attention=unfused --set machine.compute.memory=10GB" // its peak is 9.04 GB
	stdout, _, _ := psim(t, tight)
	require.Contains(t, stdout, "close; the highest peak is 9.04 GB of 10.0 GB, on rank 3\n")
	require.Contains(t, stdout, "warning: rank 3 needs 9.04 GB of memory and has 10.0 GB, of which less than 13.0 % is left for what is not counted, such as fragmentation (--set machine.memory_margin=0.13 finds changes that leave it free)\n")
	require.NotContains(t, stdout, "it would fit with")
	stdout, _, _ = psim(t, tight+" --set machine.memory_margin=0.13")
	require.Contains(t, stdout, "it would fit with --set ")
	stdout, _, _ = psim(t, "psim run gpt2-xl --device rtx-4090 --out -")
	require.Regexp(t, `no change makes it fit on 1 device; it would fit with .* samples/s, on 2 devices instead of 1\); `+
		`it would be close with --set train.recompute=full \(`, stdout)
	stdout, _, _ = psim(t, "psim search gpt2-xl --device rtx-4090 --devices 1")
	require.Regexp(t, `\n  with --devices 2: .*\n  with --margin 0%: .* \(close, `, stdout)
	stdout, _, _ = psim(t, "psim search gpipe --set machine.compute.memory=2GB")
	require.Regexp(t, `\n  zb-h1 .* close\n(.*\n)+\nthe best: --set schedule.name=zb-h1 `, stdout, "a close one is taken")
	require.Regexp(t, `\nwarning: rank \d needs \S+ GB of memory and has 2.00 GB, of which less than 13.0 % is left`, stdout)
	stdout, _, _ = psim(t, tight+" --set machine.memory_margin=0.05")
	require.Contains(t, stdout, "fits; the highest peak is 9.04 GB of 9.50 GB (a margin of 5.0 % stays free), on rank 3\n")
	require.NotContains(t, stdout, "warning")
	stdout, _, _ = psim(t, tight+" --set machine.memory_margin=0.1")
	require.Contains(t, stdout, "close; the highest peak is 9.04 GB of 10.0 GB, which is within the margin of 10.0 %, on rank 3\n")
	require.Contains(t, stdout, "warning: rank 3 needs 9.04 GB of memory and has 10.0 GB, of which machine.memory_margin is to leave 10.0 % free\n")
	stdout, _, _ = psim(t, tight+" --set machine.memory_margin=0.1 --set machine.compute.memory=9GB")
	require.Contains(t, stdout, "does not fit; the highest peak is 9.04 GB of 9.00 GB, on rank 3\n")
	require.Contains(t, stdout, "warning: rank 3 needs 9.04 GB of memory and has 9.00 GB, ")
}

// TestAdviceKeepsBatch checks that no advice changes the samples of a step, where
// halves of the microbatches do not divide it or only its microbatches are given.
func TestAdviceKeepsBatch(t *testing.T) {
	const line = "psim run testdata/advice-changes-batch.toml --json"
	for _, c := range []struct {
		sets    string
		samples float64
		want    []string // of the remedies' settings
	}{
		{"", 56, []string{"batch.micro=4", "schedule.microbatches=14"}},
		{" --set schedule.microbatches=1 --set machine.compute.memory=3.5GB", 7, []string{"batch.micro=1", "schedule.microbatches=7"}},
		{" --set batch.global=56", 56, []string{"batch.micro=4", "schedule.microbatches=14"}},
	} {
		before := predicted(t, line+c.sets)
		require.False(t, before.Fits())
		require.NotEmpty(t, before.WouldFit)
		var sets []string
		for _, change := range before.WouldFit {
			after := predicted(t, line+c.sets+" --set "+strings.Join(change.Set, " --set "))
			require.True(t, after.FitsMemory)
			require.InDelta(t, c.samples, after.Throughput.Samples*after.StepTime, 1e-6, change.Set)
			sets = append(sets, change.Set...)
		}
		require.Subset(t, sets, c.want, before.WouldFit)
	}
}

func predicted(t *testing.T, line string) results.Result {
	t.Helper()
	stdout, stderr, code := psim(t, line)
	require.Zero(t, code, stderr)
	r, err := results.ReadResult(strings.NewReader(stdout))
	require.NoError(t, err)
	return r
}
