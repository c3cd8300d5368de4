package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/exec/session"
	"psim/results"
)

// untimed lets devices share cores, so that psim does not probe the machine before and after its
// measurements.
const untimed = " --oversubscribe --cores-per-worker 1024"

// tiny makes the networks of exec's examples so small that a test can train
// them.
const tiny = " --steps 2 --repeats 1 --set model.layers=3 --set model.hidden=16 --set model.heads=2 --set model.vocab=32 --set model.sequence_length=8"

const tinyMLP = `
[schedule]
name = "gpipe"
stages = 2
microbatches = 4
[model]
family = "mlp"
layers = 4
hidden = 8
[batch]
global = 12
[machine]
device = "cpu-core"
`

// mlpUser returns a user with mlp.toml.
func mlpUser(t *testing.T) user {
	t.Helper()
	u := newUser(t)
	u.write(t, "mlp.toml", tinyMLP)
	return u
}

// execJSON runs psim exec and reads its result.
func (u user) execJSON(t *testing.T, line string) results.Result {
	t.Helper()
	stdout, stderr, code := u.psim(t, line+" --json")
	require.Zero(t, code, stderr)
	r, err := results.ReadResult(strings.NewReader(stdout))
	require.NoError(t, err)
	return r
}

// Every mode that a configuration can name runs, and passes all checks.
func TestExecModes(t *testing.T) {
	t.Parallel()
	u := mlpUser(t)
	for _, sets := range []string{
		"--gpus 1", "--gpus 2", "--gpus 3", "--gpus 2 --per-layer", "--gpus 2 --set train.recompute=full",
		"--gpus 2 --set schedule.name=1f1b", "--gpus 2 --set schedule.name=model-parallel", "--gpus 3 --set schedule.name=torchgpipe",
		"--gpus 2 --set schedule.name=pipedream", "--gpus 3 --set schedule.name=pipedream --per-layer", "--gpus 2 --set schedule.name=pipedream --set train.recompute=full --set train.optimizer=sgd",
		"--gpus 2 --set schedule.name=hanayo --set schedule.microbatches=2",
		"--gpus 3 --set schedule.synchronous=true", "--gpus 2 --set train.optimizer=sgd-momentum", "--gpus 4 --set parallel.data=2 --set schedule.microbatches=2",
		"--gpus 2 --set schedule.name=ddp --set schedule.stages=1 --set schedule.microbatches=2",
		"--gpus 3 --set schedule.name=ddp --set schedule.stages=1 --set schedule.microbatches=1 --set parallel.bucket=tensor --strided",
		"--gpus 2 --set schedule.name=ddp --set schedule.stages=1 --set schedule.microbatches=2 --set parallel.zero=3",
		"--gpus 3 --set schedule.name=ddp --set schedule.stages=1 --set schedule.microbatches=2 --set parallel.zero=3 --set parallel.collectives=gloo",
	} {
		t.Run(sets, func(t *testing.T) {
			t.Parallel()
			r := u.execJSON(t, "psim exec mlp.toml"+untimed+" --check all --steps 2 --repeats 1 "+sets)
			require.Equal(t, results.Measured, r.Kind)
			require.True(t, r.Checks.Passed)
			stashing := strings.Contains(sets, "pipedream")
			require.Equal(t, map[bool]string{true: "the serial replay"}[stashing], r.Checks.Reference)
			require.Equal(t, stashing, r.SteadyMicrobatch > 0 && r.Predicted.SteadyMicrobatch > 0)
			require.Len(t, r.Steps, 2)
			require.Equal(t, results.Predicted, r.Predicted.Kind)
			require.Equal(t, r.Tasks, r.Predicted.Tasks)
			require.Equal(t, r.Devices, len(r.Ranks))
			for i := range r.Ranks {
				require.Equal(t, r.Predicted.Ranks[i].PersistentMemory, r.Ranks[i].PersistentMemory)
			}
		})
	}
}

// Without a configuration three modes run; the result is that of 1F1B, and holds all three.
func TestExecWithoutConfig(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	stdout, stderr, code := u.psim(t, "psim exec --gpus 2 --check weights,output,grads,loss --course-rates --out out/exec"+tiny+untimed)
	require.Zero(t, code, stderr)
	for _, name := range []string{"model-parallel", "gpipe", "1f1b", "passed", "where the error comes from"} {
		require.Contains(t, stdout, name)
	}
	data := u.read(t, "out/exec/result.json")
	var r map[string]any
	require.NoError(t, json.Unmarshal([]byte(data), &r))
	require.Equal(t, "measured", r["kind"])
	require.Equal(t, "1f1b", r["schedule"])
	require.Len(t, r["runs"], 3)
	for _, key := range []string{"steps", "step_time_mean_s", "step_time_std_s", "step_time_median_s", "checks", "predicted", "heap_growth_bytes", "course_tokens_per_s"} {
		require.Contains(t, r, key)
	}
	checks := r["checks"].(map[string]any)
	for _, key := range []string{"weights", "outputs", "gradients", "loss_first", "loss_last", "passed"} {
		require.Contains(t, checks, key)
	}
	for _, name := range []string{"compare.png", "timeline.png", "trace.csv", "memory.png", "comparison.json", "modes.png", "predicted/trace.csv", "gpipe/compare.png", "1f1b/predicted/result.json"} {
		require.FileExists(t, u.path(filepath.Join("out/exec", name)))
	}
	for _, line := range []string{"psim compare out/exec", "psim compare out/exec/gpipe out/exec/1f1b", "psim plot timeline out/exec/gpipe"} {
		_, stderr, code := u.psim(t, line)
		require.Zero(t, code, "%s: %s", line, stderr)
	}
	for verb, want := range map[string]string{"timeline": "  ·  the median of 2 steps<", "memory": "  ·  the median of 2 steps<", "compare": ">A:  Predicted  ·  step "} {
		_, stderr, code := u.psim(t, "psim plot "+verb+" out/exec/gpipe --out p.svg")
		require.Zero(t, code, stderr)
		picture := u.read(t, "p.svg")
		require.Contains(t, picture, want)
	}
}

// Without a configuration, but with --set schedule.name, only that schedule runs.
func TestExecOneSchedule(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	r := u.execJSON(t, "psim exec --gpus 2 --out - --set schedule.name=gpipe"+tiny+untimed)
	require.Equal(t, "gpipe", r.Schedule)
	require.Empty(t, r.Runs)
}

// A run of one mode into a folder with three modes leaves the folders of the others. A prediction does
// not replace a measurement, nor a measurement a prediction. The CSV of three modes has the ranks of all.
func TestExecAfterModes(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	stdout, stderr, code := u.psim(t, "psim exec --gpus 2 --csv --out o"+tiny+untimed)
	require.Zero(t, code, stderr)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	require.Len(t, lines, 1+3*2)
	for i, mode := range session.Modes() {
		require.True(t, strings.HasSuffix(lines[1+2*i], ","+mode), lines[1+2*i])
	}
	require.FileExists(t, u.path("o/model-parallel/predicted/result.json"))
	u.write(t, "o/gpipe/mine.txt", "")
	require.NoError(t, os.Mkdir(u.path("o/zb-h1"), 0o755))
	u.write(t, "o/zb-h1/timeline.png", "")

	u.write(t, "mlp.toml", tinyMLP)
	_, stderr, code = u.psim(t, "psim exec mlp.toml --gpus 2 --oversubscribe --steps 1 --repeats 1 --out o")
	require.Zero(t, code, stderr)
	require.FileExists(t, u.path("o/compare.png"))
	require.FileExists(t, u.path("o/gpipe/mine.txt"))
	require.FileExists(t, u.path("o/zb-h1/timeline.png"))
	require.NoFileExists(t, u.path("o/modes.png"))
	for _, mode := range session.Modes() {
		require.FileExists(t, u.path(filepath.Join("o", mode, "predicted/result.json")))
	}
	before := u.contents(t, "o")
	_, stderr, code = u.psim(t, "psim run mlp.toml --out o")
	require.Equal(t, exitUsage, code)
	require.Equal(t, "psim: --out o: timeline.png is of psim exec; name another folder, or replace it with --overwrite\n", stderr)
	require.Equal(t, before, u.contents(t, "o"))
	_, stderr, code = u.psim(t, "psim run mlp.toml --out p")
	require.Zero(t, code, stderr)
	_, stderr, code = u.psim(t, "psim exec mlp.toml --out p")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "of psim run; name another folder")
}

// The changes that exec makes in a configuration are printed at once, and are in the result.
func TestExecWarnings(t *testing.T) {
	t.Parallel()
	u := mlpUser(t)
	stdout, stderr, code := u.psim(t, "psim exec mlp.toml --gpus 1 --steps 1 --repeats 1 --per-layer --json --set machine.device=t4 --set train.precision=bf16")
	require.Zero(t, code, stderr)
	r, err := results.ReadResult(strings.NewReader(stdout))
	require.NoError(t, err)
	want := []string{"runs on 1 device instead of 2 stages", "runs in fp32, not bf16", "runs on the devices of this machine, not on t4"}
	quiet := slices.DeleteFunc(slices.Clone(r.Warnings), func(w string) bool { return strings.HasPrefix(w, "the machine was disturbed: ") })
	require.Equal(t, want, quiet)
	require.Equal(t, "per-layer", r.Config["train"].(map[string]any)["backward"])
	require.Equal(t, r.Disturbed, len(quiet) < len(r.Warnings), "it is said if the machine was")
	for _, warning := range want {
		require.Contains(t, stderr, "mlp: "+warning+"\n")
	}
}

// A run that is interrupted before it begins leaves no file.
func TestExecInterrupted(t *testing.T) {
	t.Parallel()
	u := mlpUser(t)
	_, _, code := u.interrupted(t, "psim exec mlp.toml --oversubscribe --out p", 0)
	require.Equal(t, exitFailed, code)
	require.NoFileExists(t, u.path("p/result.json"))
}

// A network that does not fit in memory is refused before anything is allocated.
func TestExecTooLarge(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	_, stderr, code := u.psim(t, "psim exec gpipe --gpus 2 --oversubscribe --out - --set model.hidden=24576 --set model.heads=16 --set model.layers=200")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "of this machine's memory are free")
}

// A failed check gives exit code 1, and the message names the mode.
func TestExecCheckFails(t *testing.T) {
	t.Parallel()
	u := mlpUser(t)
	_, stderr, code := u.psim(t, "psim exec mlp.toml --gpus 2"+untimed+" --steps 3 --repeats 1 --check loss --learning-rate 30 --set train.optimizer=sgd --out -")
	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr, "gpipe: a check failed: ")
	require.Contains(t, stderr, "a smaller learning rate may help")
}

// A check of several starts counts them, in text and JSON, and fails if one of them does.
func TestExecRepeat(t *testing.T) {
	t.Parallel()
	u := mlpUser(t)
	const line = "psim exec mlp.toml --gpus 2" + untimed + " --steps 3 --repeats 1 --out - --repeat 3"
	r := u.execJSON(t, line+" --check output,weights --processes 2")
	require.Equal(t, &results.CheckedStarts{Count: 3, Passed: 3}, r.Checks.Starts)
	require.True(t, r.Checks.Passed)
	require.Less(t, *r.Checks.Outputs, 1e-4)
	stdout, stderr, code := u.psim(t, line+" --check loss --learning-rate 30 --set train.optimizer=sgd")
	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr, "gpipe: a check failed: in 3 of 3 starts, first in start 1 of 3: the loss")
	require.Contains(t, stdout, "checks         FAILED, passed in 0 of 3 starts; off the unsplit run at most: loss by ")
	for _, c := range [][2]string{
		{line, "--repeat 3: nothing is compared; say what with --check output"},
		{line + " --repeat 0", "--repeat 0: must be 1 to 100000 starts"},
		{"psim exec ring-allreduce --gpus 2 --repeat 2", "--repeat: does not apply to a collective by itself"},
	} {
		_, stderr, code := u.psim(t, c[0])
		require.Equal(t, exitUsage, code)
		require.Contains(t, stderr, c[1])
	}
}

// A loss that is NaN or infinite ends the run, and the message says where it begins. Earlier
// measurements are kept.
func TestExecDiverges(t *testing.T) {
	t.Parallel()
	u := mlpUser(t)
	const line, says = "psim exec mlp.toml" + untimed + " --steps 30 --repeats 1 --learning-rate 999 --set train.optimizer=sgd --quiet --json --out ", `step \d+ of 31: .*the loss is (NaN|[+-]Inf); run again task by task, .*; a smaller learning rate may help\n$`
	stdout, stderr, code := u.psim(t, line+"o")
	require.Equal(t, exitFailed, code)
	require.Regexp(t, "^psim: "+says, stderr)
	require.Contains(t, stdout, `"partial": true`)
	require.Contains(t, u.contents(t, "o")["result.json"], `"partial": true`)
	_, stderr, code = u.psim(t, line+"- --processes 2") // the second process notices it, and looks for the cause by itself
	require.Equal(t, exitFailed, code)
	require.Regexp(t, `^psim: process 1 \(pid \d+ on .*, rank 1\) ended the run: `+says, stderr)
}

// A folder in the place of a file is found before anything is measured.
func TestExecCannotWrite(t *testing.T) {
	t.Parallel()
	u := mlpUser(t)
	require.NoError(t, os.MkdirAll(u.path("o/memory.png"), 0o755))
	stdout, stderr, code := u.psim(t, "psim exec mlp.toml"+untimed+" --steps 2 --repeats 1 --quiet --out o --trace t.json")
	require.Equal(t, exitUsage, code)
	require.Equal(t, "psim: --out o: memory.png is a folder; name another folder\n", stderr)
	require.Empty(t, stdout)
	require.Empty(t, u.contents(t, "o"))
	require.NoDirExists(t, u.path("o/predicted"))
	require.NoFileExists(t, u.path("t.json"))
}

// An interrupt before any measurement leaves no folder, not even the parents of --out.
func TestExecInterruptedEarly(t *testing.T) {
	t.Parallel()
	u := mlpUser(t)
	for _, line := range []string{"exec mlp.toml --oversubscribe --out a/b/c", "search mlp.toml --out a/b/c", "exec mlp.toml --oversubscribe"} {
		_, stderr, code := u.interrupted(t, "psim "+line, 0)
		require.Equal(t, exitFailed, code, line)
		require.Contains(t, stderr, "psim: interrupted\n")
		require.NoDirExists(t, u.path("a"), line)
		require.NoDirExists(t, u.path("out"), line)
	}
}

// Whole epochs are measured after a first one that is dropped, and predicted.
func TestExecEpochs(t *testing.T) {
	t.Parallel()
	u := mlpUser(t)
	r := u.execJSON(t, "psim exec mlp.toml"+untimed+" --repeats 1 --epochs 2 --shards --validation 5 --set data.samples=30")
	require.Len(t, r.Steps, 2*3)
	require.Equal(t, []int{2, 1}, []int{r.Epochs.Number, r.Epochs.Dropped})
	require.Equal(t, []int64{3, 12, 6}, []int64{r.Epochs.Steps, r.Epochs.Batch, r.Epochs.LastBatch})
	require.InDelta(t, 3*r.StepTime, r.Epochs.Time, 2e-9, "the mean is in whole nanoseconds")
	require.Len(t, r.Epochs.Each, 2)
	require.Len(t, r.Epochs.Ranks, 2)
	for _, rank := range r.Epochs.Ranks {
		require.LessOrEqual(t, rank.Time, r.Epochs.Time)
	}
	require.Equal(t, 3*r.Predicted.StepTime, r.Predicted.Epochs.Time)
	require.Len(t, r.ValidationLoss, 3)
	require.Equal(t, 5, r.ValidationSamples)
	require.Len(t, r.Shards, 1)
	require.Len(t, r.Shards[0].Samples, 30)
	stdout, _, code := u.psim(t, "psim exec mlp.toml"+untimed+" --repeats 1 --steps 1 --shards --csv --set data.samples=30 --out -")
	require.Zero(t, code)
	require.Len(t, strings.Split(strings.TrimSpace(stdout), "\n"), 1+30)
}

// The first step's gradients of every rank are files in a folder of their own: the same bytes from
// every run. They never replace files that psim has not written.
func TestExecSavesGradients(t *testing.T) {
	t.Parallel()
	u := mlpUser(t)
	line := "psim exec mlp.toml" + untimed + " --repeats 1 --steps 1 --quiet --json --save-gradients "
	for _, folder := range []string{"a", "b/c"} {
		_, stderr, code := u.psim(t, line+folder)
		require.Zero(t, code, stderr)
	}
	saved := u.contents(t, "a")
	require.Contains(t, saved, "model0_gradients.pth")
	require.Contains(t, saved, "model1_gradients.pth")
	require.Equal(t, saved, u.contents(t, "b/c"))
	require.NoError(t, os.Mkdir(u.path("mine"), 0o755))
	u.write(t, "mine/model1_gradients.pth", "")
	_, stderr, code := u.psim(t, line+"mine")
	require.Equal(t, exitUsage, code)
	require.Equal(t, "psim: --save-gradients mine: model1_gradients.pth was not written by psim; name another folder, or replace it with --overwrite\n", stderr)
}

// A schedule of --set runs on the number of devices of --gpus.
func TestTypedSchedule(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	for _, name := range []string{"ddp", "fsdp"} {
		_, stderr, code := u.psim(t, "psim exec exec --gpus 2 --out - --set schedule.name="+name+tiny+untimed)
		require.Zero(t, code, stderr)
		require.Contains(t, stderr, "exec: runs 2 replicas instead of 1, of 16 samples each as before: batch.global = 32 instead of 16\n")
	}
	_, stderr, code := u.psim(t, "psim exec gpipe --gpus 20 --out -")
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "psim: --gpus 20: schedule.stages = 20: gpt2 has 15 layers")
}

// With --verbose exec prints its inputs, assumptions and decisions on stderr.
func TestVerboseExec(t *testing.T) {
	if testing.Short() {
		t.Skip("trains")
	}
	t.Parallel()
	u := newUser(t)
	_, stderr, code := u.psim(t, "psim exec exec --gpus 2 --json --verbose"+tiny+untimed)
	require.Zero(t, code, stderr)
	require.Regexp(t, regexp.MustCompile(`(?s)^reads    example exec\nreads    setting model.layers=3\n.*`+
		`\ndecides  3, 3 layers on stages 0 to 1, balanced by time\n.*`+
		`\nassumes  made-up samples, the same batch in every step\ndecides  backend go, 2 devices of \d+ cores? of this machine\n`+
		`decides  every task measured alone 1 time, then 1 step to warm up and 2 to measure\ndecides  seed 1390, learning rate 0.0001\n`), stderr)
	require.NotContains(t, stderr, "catalog")
}
