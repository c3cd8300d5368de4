package logged_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/launch/logged"
	"psim/launch/understood"
)

// quoted reads a file of testdata.
func quoted(t testing.TB, name string) []byte {
	data, err := os.ReadFile("../testdata/" + name)
	require.NoError(t, err)
	return data
}

// TestTitan: lines of a public run. Their times give the step, and the settings give the tokens that are printed.
func TestTitan(t *testing.T) {
	l := logged.Read(quoted(t, "torchtitan.log"))
	s := l.Steps
	require.Equal(t, "torchtitan", s.Program)
	require.InDelta(t, 1.121, s.StepTime, 1e-9)
	require.Equal(t, 7, s.Lines)
	require.Equal(t, 1, s.Left)
	require.InEpsilon(t, 9.46*(1<<30), s.Reserved, 1e-9)
	require.Equal(t, 7309.0, s.Rate.Value)
	s.Complete(understood.LoggedPlan{Samples: 4, Tokens: 2048, Devices: 1})
	require.InEpsilon(t, s.Rate.Value, s.Rate.Recomputed, 0.01)
	require.False(t, s.Misread())
	s.Complete(understood.LoggedPlan{Samples: 4, Tokens: 4096, Devices: 1})
	require.True(t, s.Misread())
}

// TestTitanStamps: stamps that stand still or go backwards are noted.
func TestTitanStamps(t *testing.T) {
	whole := quoted(t, "torchtitan.log")
	require.Empty(t, logged.Read(whole).Steps.Notes)
	at := regexp.MustCompile(`\d\d:\d\d:\d\d,\d{3}`)
	notes := logged.Read(at.ReplaceAll(whole, []byte("10:00:00,000"))).Steps.Notes
	require.Len(t, notes, 1)
	require.Contains(t, notes[0], "the time stamps of 7 of 7 intervals between lines stand still or go backwards")
}

// titanLines prints steps as torchtitan does, for a rank.
func titanLines(rank int, colored bool, first, every, last int, step float64) string {
	paint := func(code string) string {
		if colored {
			return "\x1b[" + code + "m"
		}
		return ""
	}
	var b strings.Builder
	at := 0.0
	for n := first; n <= last; n++ {
		took := step
		if n == first {
			took *= 9 // kernels are compiled
		}
		if at += took; n != first && n%every != 0 {
			continue
		}
		seconds := int(at)
		fmt.Fprintf(&b, "[rank%d]:[titan] 2026-05-18 16:%02d:%02d,%03d - root - INFO - %sstep: %2d  %sloss:  3.2  %sgrad_norm:  0.8  "+
			"%smemory: 70.25GiB(88.67%%)  %stps: %s  %stflops: 400.00  %smfu: 128.2%%%s\n", rank, seconds/60, seconds%60,
			int(1000*(at-float64(seconds))), paint("31"), n, paint("32"), paint("38;2;180;60;0"), paint("38;2;54;234;195"), paint("34"),
			"8,192", paint("36"), paint("35"), paint("39"))
	}
	return b.String()
}

// TestTitanLines: steps are those after the first one, of the last start, once for all ranks, in any colors.
func TestTitanLines(t *testing.T) {
	const start = "[rank0]:[titan] 2026-05-18 16:00:00,000 - root - INFO - Trainer is initialized with local batch size 2, " +
		"global batch size 16, gradient accumulation steps 2, sequence length 8192, total steps 40 (warmup 2).\n"
	const peak = "[titan] - INFO - Peak FLOPS used for computing MFU: 3.120e+14\n"
	lines := titanLines(0, true, 1, 10, 40, 2)
	l := logged.Read([]byte(titanLines(0, true, 1, 10, 20, 7) + start + peak + lines))
	require.InEpsilon(t, 2, l.Steps.StepTime, 1e-3)
	require.Equal(t, []int{4, 1, 16, 8192}, []int{l.Steps.Lines, l.Steps.Left, l.Steps.Batch, l.Steps.Tokens})
	require.Equal(t, []int{2, 2}, []int{l.Micro, l.Rounds})
	require.Contains(t, l.Steps.Notes[0], "its mfu is of 312 TFLOP/s")
	var twice strings.Builder
	for line := range strings.SplitAfterSeq(lines, "\n") {
		twice.WriteString(line + strings.Replace(line, "rank0", "rank1", 1))
	}
	again := logged.Read([]byte(start + twice.String()))
	require.InEpsilon(t, 2, again.Steps.StepTime, 1e-3)
	require.Equal(t, 4, again.Steps.Lines)

	// Without times the rate gives the step: 16 × 8192 tokens on 8 devices, 8192 a second each.
	bare := strings.ReplaceAll(strings.ReplaceAll(start+lines, "2026-", ""), ",000 -", "")
	l = logged.Read([]byte(bare))
	require.Zero(t, l.Steps.StepTime)
	l.Steps.Complete(understood.LoggedPlan{Samples: 16, Tokens: 8192, Devices: 8})
	require.InEpsilon(t, 2, l.Steps.StepTime, 1e-9)
	require.Zero(t, l.Steps.Rate.Recomputed, "nothing is left to compare")
}

// TestPrinted: the configuration that a program prints comes out as JSON, whatever stands before its lines.
func TestPrinted(t *testing.T) {
	const line = "[titan] 2026-05-18 16:04:46,338 - root - INFO - step: 14  loss: 3.2  memory: 9.46GiB(64.99%)  tps: 7,282\n"
	want := map[string]any{"training": map[string]any{"seq_len": 4096.0, "dataset": "it's {here", "steps": nil, "list": []any{1.0, true}}}
	for _, printed := range []string{
		"Running with args: {'training': {'seq_len': 4096, 'dataset': \"it's {here\", 'steps': None, 'list': (1, True)}}\n",
		"Running with configs: {\n  \"training\": {\n    \"seq_len\": 4096,\n    \"dataset\": \"it's {here\",\n    \"steps\": null,\n    \"list\": [1, true]\n  }\n}\n",
	} {
		for _, prefix := range []string{"", "[rank0]:", "0: ", "stdout: "} {
			text := prefix + "[titan] 2026-05-18 16:00:00,000 - root - INFO - " + strings.ReplaceAll(strings.TrimSuffix(printed, "\n"), "\n", "\n"+prefix) + "\n"
			var is map[string]any
			require.NoError(t, json.Unmarshal(logged.Read([]byte(text+line)).Config, &is), text)
			require.Equal(t, want, is)
		}
	}
}

// TestTitanDevices: the mesh tells the devices, or the highest rank, and the network's line its parameters.
func TestTitanDevices(t *testing.T) {
	lines := titanLines(7, false, 1, 10, 40, 2)
	read := func(text string) *logged.Log { return logged.Read([]byte(text + lines)) }
	l := read("[titan] - INFO - Building 2-D device mesh with ['dp_shard', 'tp'], [8, 2]\n" +
		"[titan] - INFO - Model llama3 70B size: 70,553,706,496 total parameters\n")
	require.Equal(t, []int{16, 16, 70553706496}, []int{l.Devices, l.Steps.Devices, int(l.Steps.Parameters)})
	l = read("[titan] - INFO - Building device mesh with parallelism: pp=2, dp_replicate=1, dp_shard=4, cp=1, tp=2, ep=4, etp=1\n")
	require.Equal(t, 16, l.Devices)
	l = read("")
	require.Equal(t, []int{8, 0}, []int{l.Devices, l.Steps.Devices}, "others may print elsewhere")
	lines = titanLines(0, false, 1, 10, 40, 2)
	require.Zero(t, read("").Devices, "rank 0 often prints alone")
}

// TestFirstStep: the first step alone is no measurement, and a second line is.
func TestFirstStep(t *testing.T) {
	first := []byte(titanLines(0, false, 1, 10, 1, 2))
	require.Nil(t, logged.Read(first))
	require.Contains(t, logged.Lacks(first), "only the first step is printed, in which torchtitan compiles kernels")
	require.NotNil(t, logged.Read([]byte(titanLines(0, false, 1, 10, 10, 2))))
}

// TestMixedRanks: of ranks that print by turns, the lines of one make the configuration; without ranks it is mixed.
func TestMixedRanks(t *testing.T) {
	dump := "Running with args: {\n  \"training\": {\n    \"seq_len\": 4096\n  }\n}\n"
	var of, bare strings.Builder
	for line := range strings.SplitAfterSeq(strings.TrimSuffix(dump, "\n"), "\n") {
		for rank := range 8 {
			fmt.Fprintf(&of, "[rank%d]:%s\n", rank, strings.TrimSuffix(line, "\n"))
			fmt.Fprintf(&bare, "%s\n", strings.TrimSuffix(line, "\n"))
		}
	}
	lines := titanLines(0, false, 1, 10, 40, 2)
	l := logged.Read([]byte(of.String() + lines))
	require.JSONEq(t, `{"training": {"seq_len": 4096}}`, string(l.Config))
	require.False(t, l.Mixed)
	l = logged.Read([]byte(bare.String() + lines))
	require.Nil(t, l.Config)
	require.True(t, l.Mixed)
}

// TestOwnRate: a rate that the step was taken from is no proof of the settings.
func TestOwnRate(t *testing.T) {
	s := logged.Read([]byte("DeepSpeedEngine configuration:\n  json = {\n    \"train_batch_size\": 64\n}\n" + string(quoted(t, "deepspeed.log")))).Steps
	s.Complete(understood.LoggedPlan{Samples: 64})
	var b strings.Builder
	require.NoError(t, s.WriteText(&b))
	require.NotContains(t, b.String(), "as much")
	require.Contains(t, b.String(), "and no longer: the batch was misread")
}

// TestOthers: what a log says otherwise than a plan is named, and where devices differ they are why the batch does.
func TestOthers(t *testing.T) {
	s := logged.Read([]byte("***** Running training *****\n  Instantaneous batch size per device = 4\n" +
		"  Total train batch size (w. parallel, distributed & accumulation) = 128\n  Gradient Accumulation steps = 2\n" +
		"  Total optimization steps = 10\n  Number of trainable parameters = 7,615,616,512\n" + barLine(8, 10, 12, 1.5))).Steps
	s.Complete(understood.LoggedPlan{Samples: 64, Devices: 8, Replicas: 8, Parameters: 7615616512})
	require.Equal(t, []string{"the log's steps are of 128 samples, and the configuration says 64"}, s.OtherWork())
	require.Len(t, s.OtherPlan(), 1)
	require.Contains(t, s.OtherPlan()[0], "the log shows 16 devices, and the configuration has 8: --devices 16")
	s.Complete(understood.LoggedPlan{Samples: 64, Devices: 16, Replicas: 16, Parameters: 13015864320})
	require.Contains(t, s.OtherWork()[0], "another network: it trains 7,615,616,512 parameters, and the configuration 13,015,864,320")
	require.Contains(t, s.OtherWork()[1], "--set batch.global=128 predicts these")
	s.Complete(understood.LoggedPlan{Samples: 128, Devices: 16, Replicas: 16, Parameters: 16 * 7615616512})
	require.Empty(t, s.OtherWork(), "FSDP may leave a share of the parameters on a device")
}

// TestDeepSpeed: lines of a public run. The last step counts and not the mean since the start, whose rate is another.
func TestDeepSpeed(t *testing.T) {
	l := logged.Read(quoted(t, "deepspeed.log"))
	s := l.Steps
	require.Equal(t, "deepspeed", s.Program)
	require.Zero(t, s.StepTime, "the log does not say the batch")
	require.InDelta(t, 155.1244, s.Rate.Value, 1e-3)
	require.InDelta(t, 0.209, s.Stamped, 1e-9)
	require.InEpsilon(t, 2.62*(1<<30), s.Allocated, 1e-9)
	s.Complete(understood.LoggedPlan{Samples: 32, Tokens: 512, Devices: 2})
	require.InEpsilon(t, s.Stamped, s.StepTime, 0.02, "little goes by between steps")
	require.Less(t, s.StepTime, s.Stamped)
	require.False(t, s.Misread())
	s = logged.Read(quoted(t, "deepspeed.log")).Steps
	s.Complete(understood.LoggedPlan{Samples: 64, Devices: 2})
	require.True(t, s.Misread(), "twice the batch would take longer than there was time")

	dump := "[2022-12-20 08:26:20,101] [INFO] [config.py:1008:print] DeepSpeedEngine configuration:\n" +
		"[2022-12-20 08:26:20,101] [INFO] [config.py:1012:print]   world_size ................... 4\n" +
		"[2022-12-20 08:26:20,101] [INFO] [config.py:997:print_user_config]   json = {\n    \"train_batch_size\":32,\n" +
		"    \"zero_optimization\":{\n        \"stage\":2,\n        \"reduce_bucket_size\":5.000000e+08\n    }\n}\n"
	slow := "[2022-12-20 08:26:26,101] [INFO] [logging.py:69:log_dist] [Rank 0] time (ms) | fwd_microstep: 50.1 | bwd_microstep: 101.2\n"
	l = logged.Read([]byte(dump + slow + string(quoted(t, "deepspeed.log"))))
	require.InEpsilon(t, 32/l.Steps.Rate.Value, l.Steps.StepTime, 1e-9)
	require.Equal(t, []int{4, 32}, []int{l.Devices, l.Steps.Batch})
	require.Contains(t, strings.Join(l.Steps.Notes, "\n"), "wall_clock_breakdown is on")
	require.JSONEq(t, `{"train_batch_size": 32, "zero_optimization": {"stage": 2, "reduce_bucket_size": 5e8}}`, string(l.Config))
	l.Steps.Complete(understood.LoggedPlan{Samples: 32})
	require.False(t, l.Steps.Misread())
	l.Steps.Complete(understood.LoggedPlan{Samples: 64})
	require.True(t, l.Steps.Misread())

	old := logged.Read([]byte("[2022-03-11 02:07:14,130] [INFO] [timer.py:189:stop] 0/50, SamplesPerSec=83.73, MemAllocated=0.26GB, MaxMemAllocated=9.02GB\n"))
	require.Contains(t, old.Steps.Notes[0], "prints the mean of all steps so far")
}

// barLine draws a bar as tqdm does.
func barLine(n, total int, after, each float64) string {
	rate := fmt.Sprintf("%.2fs/it", each)
	if each < 1 {
		rate = fmt.Sprintf("%.2fit/s", 1/each)
	}
	left := int(float64(total-n) * each)
	return fmt.Sprintf("\r %2d%%|█▊        | %d/%d [%02d:%02d<%02d:%02d, %7s]", 100*n/total, n, total, int(after)/60, int(after)%60, left/60, left%60, rate)
}

// TestTrainerBar: the bar of training gives the step, not the bar of evaluation, and what goes by beside is kept apart.
func TestTrainerBar(t *testing.T) {
	var b strings.Builder
	after := 5.0
	for n := 1; n <= 100; n++ {
		each := 1.5
		if n == 1 {
			each = 5
		}
		after += 1.5
		b.WriteString(barLine(n, 100, after, each))
		if n%50 == 0 {
			for e := range 20 {
				b.WriteString(barLine(e+1, 20, float64(e), 0.1))
			}
			after += 30
		}
	}
	b.WriteString("\n{'train_runtime': '180.2', 'train_samples_per_second': '4.439', 'train_steps_per_second': '0.555', 'train_loss': '2.1', 'epoch': '2'}\n")
	said := "***** Running training *****\n  Num examples = 400\n  Instantaneous batch size per device = 2\n" +
		"  Total train batch size (w. parallel, distributed & accumulation) = 8\n  Gradient Accumulation steps = 2\n  Total optimization steps = 100\n"
	for _, text := range []string{b.String(), said + b.String()} {
		s := logged.Read([]byte(text)).Steps
		require.Equal(t, "trainer", s.Program)
		require.InEpsilon(t, 1.5, s.StepTime, 1e-9)
		require.InDelta(t, 30, s.Lost, 2)
		s.Complete(understood.LoggedPlan{Samples: 8, Devices: 2})
		require.False(t, s.Misread(), "100 steps of 8 samples in 180.2 s are 4.439 a second")
		s.Complete(understood.LoggedPlan{Samples: 16, Devices: 2})
		require.True(t, s.Misread())
	}
	l := logged.Read([]byte(said + b.String()))
	require.Equal(t, []int{8, 2, 2, 2}, []int{l.Steps.Batch, l.Micro, l.Rounds, l.Devices})
}

// TestTrainer: the log of our own run, with evaluation and saving every 30 of its 60 steps.
func TestTrainer(t *testing.T) {
	l := logged.Read(quoted(t, "trainer.log"))
	s := l.Steps
	require.InDelta(t, 1/8.2, s.StepTime, 0.01, "the bar stands at 8.2 steps a second most of the time")
	require.Equal(t, []int{8, 4, 2, 1}, []int{s.Batch, l.Micro, l.Rounds, l.Devices})
	s.Complete(understood.LoggedPlan{Samples: 8})
	require.InEpsilon(t, 8*60/7.49, s.Rate.Recomputed, 1e-9)
	require.False(t, s.Misread())
	var arguments map[string]any
	require.NoError(t, json.Unmarshal(l.Config, &arguments))
	require.Equal(t, 4.0, arguments["per_device_train_batch_size"])
	require.Equal(t, "adamw_torch_fused", arguments["optim"])
}

// TestTrainerSummary: the summary alone, also of a trainer_state.json, gives a mean that says what is in it.
func TestTrainerSummary(t *testing.T) {
	for _, text := range []string{
		"***** Running training *****\n  Total optimization steps = 1,000\n{'train_runtime': 2000.0, 'train_samples_per_second': 4.0}\n",
		"***** Running training *****\n  Total optimization steps = 1,000\n***** train metrics *****\n  train_runtime            = 0:33:20.00\n  train_samples_per_second =      4.0\n",
		`{"global_step": 1000, "log_history": [{"loss": 3.1, "step": 10}, {"step": 1000, "train_runtime": 2000.0, "train_samples_per_second": 4.0}]}`,
	} {
		s := logged.Read([]byte(text)).Steps
		require.InEpsilon(t, 2, s.StepTime, 1e-9, text)
		require.Contains(t, s.Notes[0], "evaluation and saving are in it")
		s.Complete(understood.LoggedPlan{Samples: 8})
		require.False(t, s.Misread())
	}
	saves := ""
	for n := range 4 {
		saves += fmt.Sprintf("[INFO|trainer.py:3353] 2024-07-12 10:%02d:00,123 >> Saving model checkpoint to out/checkpoint-%d\n", 5*n, 100*(n+1))
	}
	s := logged.Read([]byte(saves)).Steps
	require.InEpsilon(t, 3, s.StepTime, 1e-9)
	require.Contains(t, s.Notes[0], "saving")
}

// TestTrainerArguments: what a script prints of its arguments is what a file of them would say.
func TestTrainerArguments(t *testing.T) {
	text := "Training/evaluation parameters TrainingArguments(\n_n_gpu=1,\nbf16=True,\nfsdp=[<FSDPOption.FULL_SHARD: 'full_shard'>],\n" +
		"fsdp_config={'min_num_params': 0, 'xla': False},\nhub_token=<HUB_TOKEN>,\nlr_scheduler_type=SchedulerType.LINEAR,\nmax_grad_norm=1.0,\n" +
		"optim=OptimizerNames.ADAMW_TORCH,\noutput_dir=out/a.b,\nper_device_train_batch_size=4,\n)\n" + barLine(5, 10, 9, 1.5)
	var is map[string]any
	require.NoError(t, json.Unmarshal(logged.Read([]byte(text)).Config, &is))
	require.Equal(t, map[string]any{
		"bf16": true, "fsdp": []any{"full_shard"}, "fsdp_config": map[string]any{"min_num_params": 0.0, "xla": false}, "hub_token": "<HUB_TOKEN>",
		"lr_scheduler_type": "linear", "max_grad_norm": 1.0, "optim": "adamw_torch", "output_dir": "out/a.b", "per_device_train_batch_size": 4.0,
	}, is)
}

// TestNoLog: other texts are no log.
func TestNoLog(t *testing.T) {
	for _, text := range []string{"", "#!/bin/bash\ntorchrun train.py\n", "step: 1 loss: 2", "a: 1\n", `{"log_history": []}`, "10/20 [00:01<00:01, ?it/s]"} {
		require.Nil(t, logged.Read([]byte(text)), text)
	}
}

// TestAnyStep: whatever the step, the interval between lines, the ranks and colors, the step comes out.
func TestAnyStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		step := rapid.Float64Range(0.05, 20).Draw(t, "step")
		every := rapid.IntRange(1, 10).Draw(t, "every")
		text := titanLines(0, rapid.Bool().Draw(t, "colored"), 1, every, every*rapid.IntRange(2, 6).Draw(t, "lines"), step)
		if strings.Count(text, "\n") < 2 {
			t.Skip("one line")
		}
		require.InDelta(t, step, logged.Read([]byte(text)).Steps.StepTime, 0.0011)
	})
}

// FuzzRead: any bytes end in a log with a step or a rate, or in none.
func FuzzRead(f *testing.F) {
	f.Add([]byte(mlperfLine(0, "global_batch_size", "32", "") + mlperfLine(10, "run_start", "null", "") + mlperfBlock(10, 30, `{"throughput": 16.1, "train_step_time": 2}`, `, "step": 0`, `, "step": 9`)))
	f.Add([]byte(`{"iteration-time": {"values": {"1": 9.0, "5": 0.2, "10": "nan", "15": 0.3}}, "mem-max-allocated-bytes": {"values": {"1": 1e9}}}`))
	for _, name := range []string{"torchtitan.log", "deepspeed.log", "trainer.log"} {
		f.Add(quoted(f, name))
	}
	f.Add([]byte(titanLines(1, true, 1, 2, 6, 3) + "Running with args: {'a': (1, None)}"))
	f.Add([]byte("***** Running training *****\n  Total optimization steps = 9\n" + barLine(8, 9, 99, 3) + "\nTrainingArguments(\nbf16=True,\n)"))
	f.Add([]byte(`{"global_step": 10, "log_history": [{"train_runtime": 2.0}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		l := logged.Read(data)
		if l == nil {
			return
		}
		l.Steps.Complete(understood.LoggedPlan{Samples: 8, Tokens: 128, Devices: 2})
		require.Positive(t, l.Steps.StepTime)
		if l.Config != nil {
			require.True(t, json.Valid(l.Config) || l.Config[0] == '{')
		}
	})
}

// TestNoRate: a log of DeepSpeed whose rates are none is told from one without lines.
func TestNoRate(t *testing.T) {
	for _, rate := range []string{"0", "nan", "0.0"} {
		log := []byte("[timer.py] 0/10, RunningAvgSamplesPerSec=" + rate + ", CurrSamplesPerSec=" + rate + ", MemAllocated=1.0GB, MaxMemAllocated=2.0GB\n")
		require.Nil(t, logged.Read(log))
		require.Contains(t, logged.Lacks(log), "its SamplesPerSec is 0 or nan")
	}
}
