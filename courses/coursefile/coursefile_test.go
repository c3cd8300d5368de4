package coursefile_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/courses/coursefile"
	"psim/internal/files"
	"psim/results"
	"psim/results/compare"
	"psim/schedules/graph"
)

// The parts of a step, and the passes of the timelines, in CS1390's reference graphs
// (testdata/README.md).
func TestStats(t *testing.T) {
	list, err := coursefile.Load("testdata/cs1390")
	require.NoError(t, err)
	require.Len(t, list, 5)
	two := list[1].Run.Result
	require.Equal(t, "stats_ddp2", list[1].Label)
	require.InDelta(t, 23.95, two.StepTime, 1e-9)
	require.InDelta(t, 128/23.95, two.Throughput.Samples, 1e-9)
	require.InDelta(t, 22.64, two.Ranks[1].Compute, 1e-9)
	require.InDelta(t, 1.31, two.Ranks[1].ExposedCommunication, 1e-9)
	require.Equal(t, 2, two.DataParallel)
	require.True(t, two.Bubble.IsZero())
	require.Nil(t, list[1].Run.Trace)

	model, pipeline := list[3].Run, list[4].Run
	require.InDelta(t, 28.77, model.Result.StepTime, 1e-9)
	require.InDelta(t, 1-(1.47+3.91+.51+5.82+14.44+2.39)/(3*28.75), model.Result.Bubble.Makespan, 1e-9)
	require.InDelta(t, 44.06, pipeline.Result.StepTime, 1e-9)
	require.InDelta(t, 3.13+2.92+12.58+13.07, pipeline.Result.Ranks[1].Compute, 1e-9)
	require.Equal(t, "1F0", pipeline.Trace.Graph.Task(4).String())
	for _, r := range []results.Run{model, pipeline} {
		require.Equal(t, r.Trace.Graph.Ranks(), 3)
		require.NoError(t, r.Trace.Graph.Validate())
	}
}

// The step times, true rates and overstatements that follow from published epochs.
func TestHomework(t *testing.T) {
	type want struct {
		label               string
		step, tokens, times float64 // times is how far the printed rate is too high
	}
	for path, wants := range map[string][]want{
		"testdata/homework4.txt": {
			{"ddp=1", 0.26129, 31004.7, 7.02}, {"ddp=2", 0.35596, 44948.9, 9.67},
			{"pipeline=2", 0.23225, 17552.2, 0}, {"model=2", 0.13543, 30100.2, 0},
		},
		"testdata/workdir_single_gpu":                         {{"workdir_single_gpu", 0.18629, 43486.7, 5.86}},
		"testdata/workdir_dual_gpu/rank1_results_epoch1.json": {{"workdir_dual_gpu", 0.20219, 79133.2, 6.34}},
		"testdata/pipeline_parallel.log":                      {{"pipeline_parallel", 0.25167, 16197.6, 0}},
		"testdata/performance_summary.json": {
			{"ddp=1", 0.60889, 13305.0, 6.29}, {"ddp=2", 0.70005, 22855.6, 12.65},
			{"model=2", 0.8829, 13677.1, 0}, {"pipeline=2", 0.85094, 14190.7, 0},
		},
	} {
		list, err := coursefile.Load(path)
		require.NoError(t, err)
		require.Len(t, list, len(wants), path)
		for i, w := range wants {
			r := list[i].Run.Result
			require.Equal(t, w.label, list[i].Label)
			require.InEpsilon(t, w.step, r.StepTime, 1e-4, w.label)
			require.InEpsilon(t, w.tokens, r.Throughput.Tokens, 1e-4, w.label)
			require.False(t, r.HasBreakdown())
			require.True(t, r.Bubble.IsZero())
			if w.times == 0 {
				require.Nil(t, r.UnwaitedTokens, w.label)
			} else {
				require.InDelta(t, w.times, *r.UnwaitedTokens/r.Throughput.Tokens, 0.006, w.label)
			}
		}
	}
}

// Epochs have times by rank, and the deviation that numpy's std computes.
func TestEpochs(t *testing.T) {
	run, err := coursefile.LoadRun("testdata/workdir_dual_gpu")
	require.NoError(t, err)
	e := run.Result.Epochs
	require.Equal(t, []results.RankEpoch{{Rank: 0, Time: 8.0876}, {Rank: 1, Time: 7.562}}, e.Ranks)
	require.EqualValues(t, []int64{5000, 40, 128, 8}, []int64{e.Samples, e.Steps, e.Batch, e.LastBatch})
	require.InDelta(t, *run.Result.UnwaitedTokens, e.Unwaited.Tokens, 1e-6)
	require.Zero(t, e.UnwaitedStd.Tokens, "of a single epoch")
	run, err = coursefile.LoadRun("testdata/pipeline_parallel.log")
	require.NoError(t, err)
	require.EqualValues(t, []int64{1, 1, 157}, []int64{int64(run.Result.Epochs.Number), int64(run.Result.Epochs.Dropped), run.Result.Epochs.Steps})
	require.Equal(t, results.Losses{5.6731, 5.395}, run.Result.ValidationLoss)
	list, err := coursefile.Load("testdata/performance_summary.json")
	require.NoError(t, err)
	require.InDelta(t, 0.0345, list[0].Run.Result.Epochs.TimeStd, 1e-9)
	list, err = coursefile.Load("testdata/homework4.txt")
	require.NoError(t, err)
	require.Equal(t, 5, list[1].Run.Result.Epochs.Number)
	pipeline := list[2].Run.Result.Epochs // the command does not say how many
	require.Equal(t, []float64{0, 36.4626, 0.0093}, []float64{float64(pipeline.Number), pipeline.Time, pipeline.TimeStd})
}

// The passes and the step of any pipeline are read back as they were written.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		stages, microbatches := rapid.IntRange(1, 4).Draw(rt, "stages"), rapid.IntRange(1, 5).Draw(rt, "microbatches")
		run := predict("model-parallel", "schedule.name="+rapid.SampledFrom([]string{"gpipe", "model-parallel"}).Draw(rt, "schedule"),
			fmt.Sprintf("schedule.stages=%d", stages), fmt.Sprintf("schedule.microbatches=%d", microbatches),
			fmt.Sprintf(`times.forward="%dms"`, rapid.IntRange(1, 999).Draw(rt, "forward")), fmt.Sprintf(`times.backward="%dms"`, rapid.IntRange(1, 999).Draw(rt, "backward")))
		file, err := coursefile.Stats(run)
		require.NoError(rt, err)
		back := readBack(rt, file)
		require.InDelta(rt, run.Result.StepTime, back.Result.StepTime, 1e-8)
		require.InDelta(rt, run.Result.Bubble.Makespan, back.Result.Bubble.Makespan, 1e-6)
		c := compare.Compare(run, back)
		require.Zero(rt, c.Tasks.OnlyB)
		require.InDelta(rt, 0, c.ByKind["F"].Error, 1e-6)
		require.InDelta(rt, 0, c.ByKind["B"].Error, 1e-6)
	})
}

// The same for data parallelism, in every format.
func TestRoundTripData(t *testing.T) {
	for _, name := range []string{"vgg16-cpu-ddp", "vgg16-cpu-fsdp"} {
		run := predict(name)
		file, err := coursefile.Stats(run)
		require.NoError(t, err)
		back := readBack(t, file)
		require.Equal(t, run.Result.FullySharded, back.Result.FullySharded)
		require.InDelta(t, run.Result.StepTime, back.Result.StepTime, 1e-8)
		require.InDelta(t, run.Result.Throughput.Samples, back.Result.Throughput.Samples, 1e-6)
		require.InDelta(t, run.Result.Ranks[3].ExposedCommunication, back.Result.Ranks[3].ExposedCommunication, 1e-9)
		require.Empty(t, back.Result.Warnings)
	}
	require.Empty(t, coursefile.Epochs(predict("gpt2-4090d-data-parallel").Result), "its epochs are not known")
	two, pipeline := predict("gpt2-4090d-data-parallel", "data.samples=5000").Result, predict("gpt2-4090d-pipeline", "data.samples=5000").Result
	folder := t.TempDir()
	for _, file := range append(coursefile.Epochs(two), coursefile.Summary(two, pipeline)) {
		var data bytes.Buffer
		require.NoError(t, file.Render(&data))
		require.NoError(t, os.WriteFile(filepath.Join(folder, file.Path), data.Bytes(), 0o644))
	}
	list, err := coursefile.Load(folder)
	require.NoError(t, err)
	require.Len(t, list, 3)
	for _, f := range list {
		wanted := two
		if f.Run.Result.Schedule != "ddp" {
			wanted = pipeline
		}
		e := f.Run.Result.Epochs
		require.InDelta(t, wanted.Epochs.Time, e.Time, 1e-8)
		require.InEpsilon(t, wanted.Epochs.Throughput.Tokens, e.Throughput.Tokens, 1e-9)
		require.Equal(t, []int64{wanted.Epochs.Steps, wanted.Epochs.LastBatch}, []int64{e.Steps, e.LastBatch})
	}
}

// The summary has the homework's own pipeline where the assignment asks for the pipeline, and
// GPipe's under its own name.
func TestSummary(t *testing.T) {
	const epoch = "data.samples=5000"
	model, own := predict("gpt2-4090d-model-parallel", epoch).Result, predict("gpt2-4090d-pipeline", epoch).Result
	gpipe := predict("gpt2-4090d-pipeline", epoch, "schedule.name=gpipe", "schedule.whole_last=false", "machine.host.operation=0us").Result
	var data bytes.Buffer
	require.NoError(t, coursefile.Summary(model, own, gpipe).Render(&data))
	var file struct {
		Split struct {
			Time  float64 `json:"speedup_time_reduction_x"`
			GPipe struct {
				Epoch float64 `json:"time_mean"`
				Time  float64 `json:"speedup_time_reduction_x"`
			} `json:"gpipe"`
		} `json:"pipeline_parallel"`
	}
	require.NoError(t, json.Unmarshal(data.Bytes(), &file))
	require.InDelta(t, model.Epochs.Time/own.Epochs.Time, file.Split.Time, 1e-12)
	require.InDelta(t, model.Epochs.Time/gpipe.Epochs.Time, file.Split.GPipe.Time, 1e-12)
	require.InDelta(t, gpipe.Epochs.Time, file.Split.GPipe.Epoch, 1e-12)

	path := filepath.Join(t.TempDir(), "performance_summary.json")
	require.NoError(t, os.WriteFile(path, data.Bytes(), 0o600))
	list, err := coursefile.Load(path)
	require.NoError(t, err)
	var labels []string
	for _, f := range list {
		labels = append(labels, f.Label)
	}
	require.Equal(t, []string{"model=2", "pipeline=2", "gpipe"}, labels)
	require.InDelta(t, gpipe.Epochs.Time, list[2].Run.Result.Epochs.Time, 1e-9)
}

// Files have the fields that train.py saves, for the assignment's five batches.
func TestStatsFields(t *testing.T) {
	for _, name := range []string{"vgg16-cpu-ddp", "vgg16-cpu-model"} {
		file, err := coursefile.Stats(predict(name))
		require.NoError(t, err)
		var data bytes.Buffer
		require.NoError(t, file.Render(&data))
		var own, course map[string]any
		require.NoError(t, json.Unmarshal(data.Bytes(), &own))
		text, err := os.ReadFile("testdata/cs1390/" + map[string]string{"vgg16-cpu-ddp": "stats_ddp4.json", "vgg16-cpu-model": "stats_model3.json"}[name])
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &course))
		require.ElementsMatch(t, slices.Collect(maps.Keys(course)), slices.Collect(maps.Keys(own)))
		require.ElementsMatch(t, slices.Collect(maps.Keys(course["0"].(map[string]any))), slices.Collect(maps.Keys(own["0"].(map[string]any))))
		require.Equal(t, []any{5., 1e-3, 1., 64.}, []any{own["num_batches"], own["learning_rate"], own["cores_per_worker"], own["batch_size"]})
	}
}

// readBack writes a file and reads it.
func readBack(t require.TestingT, file files.File) results.Run {
	var data bytes.Buffer
	require.NoError(t, file.Render(&data))
	runs, err := coursefile.Read(file.Path, data.Bytes())
	require.NoError(t, err)
	require.Len(t, runs, 1)
	return runs[0]
}

// If a file has the parts of a step as well as their total, sums over batches are recognised.
func TestSums(t *testing.T) {
	const text = `{"0": {"rank": 0, "computation_time": 2, "communication_time": 1, "optimizer_update_time": 0.5, "total_time": %g}, "num_workers": 1, "num_batches": 5, "batch_size": 64}`
	for total, doubts := range map[float64]int{17.5: 0, 3.5: 1} {
		runs, err := coursefile.Read("stats_ddp1.json", fmt.Appendf(nil, text, total))
		require.NoError(t, err)
		require.InDelta(t, 3.5, runs[0].Result.StepTime, 1e-12)
		require.Len(t, runs[0].Result.Warnings, doubts)
	}
}

// Errors are one line, and name the key and what it must be.
func TestErrors(t *testing.T) {
	const rest = `"num_workers": 1, "num_batches": 1, "batch_size": 64`
	for _, x := range []struct{ name, text, message string }{
		{"stats_ddp1.json", `{"0": {}, "num_batches": 1}`, "num_workers is missing; it must be the number of workers, as train.py saves it"},
		{"stats_ddp1.json", `{"0": {}, "num_workers": 0}`, "num_workers is 0; it must be the number of workers, as train.py saves it"},
		{"stats_ddp1.json", `{"0": {}, "num_workers": "two"}`, "num_workers is a JSON string; it must be a whole number"},
		{"stats_ddp1.json", "{\n" + rest + ",\n nan: 1}", "line 3: no JSON: invalid character 'n' looking for beginning of object key string"},
		{"stats_ddp1.json", `{` + rest + `}`, `"0" is missing: num_workers is 1, so there must be workers 0 to 0`},
		{"stats_ddp1.json", `{"0": {}, ` + rest + `}`, `"0": total_time is missing; it must be seconds, as train.py saves it`},
		{"stats_ddp1.json", `{"0": {"total_time": -1}, ` + rest + `}`, `"0": total_time is -1; it must be seconds, 0 to 9.2e+09`},
		{"stats_ddp1.json", `{"0": {"total_time": 1e300}, ` + rest + `}`, `"0": total_time is 1e+300; it must be seconds, 0 to 9.2e+09`},
		{"stats_model1.json", `{"0": {}, "1": {}, ` + rest + `}`, `"1" is there: num_workers is 1, so there must be workers 0 to 0`},
		{"stats_model1.json", `{"0": {"batches_times": [1, 2, null, 4]}, ` + rest + `}`, `"0": batches_times[2] is null; it must be a time in seconds`},
		{"stats_model1.json", `{"0": {"batches_times": [1, 2, 3]}, ` + rest + `}`, `"0": batches_times has 3 times; it must have a start and an end for every forward and backward, so a multiple of 4 for each of num_batches = 1`},
		{"stats_model1.json", `{"0": {"batches_times": [2, 1, 3, 4]}, ` + rest + `}`, `"0": batches_times[1] ends at 1, before it starts at 2; there must be a start and an end for every forward and backward`},
		{"stats_model1.json", `{"0": {"batches_times": [1, 3, 2, 4]}, ` + rest + `}`, `"0": batches_times: a pass starts at 2 s, before the one before it ends at 3 s; a worker does one at a time`},
		{"mine.json", `{` + rest + `}`, "is a file of CS1390's train.py that does not say of which mode; name it stats_ddp4.json, or with fsdp, model or pipeline and the number of workers"},
		{"mine.json", `{"training_time": 3}`, "is homework 4's file of an epoch that does not say of which rank; name it rank0_results_epoch0.json, or with its rank and epoch"},
		{"rank0_results_epoch0.json", `{"training_time": 3}`, "training_time or tokens_per_sec is missing; run_data_parallel.py saves both"},
		{"rank1_results_epoch0.json", `{"training_time": 3, "tokens_per_sec": 4}`, "no epoch is there of all ranks 0 to 1; run_data_parallel.py saves rank0_results_epoch0.json and so on for each"},
		{"performance_summary.json", `{}`, "holds none of data_parallel.single_gpu, .two_gpu, pipeline_parallel.model_parallel and .pipeline_parallel, as run_benchmarks.py saves them"},
		{"performance_summary.json", `{"pipeline_parallel": {"gpipe": {"time_mean": -1}}}`, "pipeline_parallel.gpipe: time_mean is -1, time_std 0 and tok_mean 0; they must be the seconds of an epoch, above 0, their deviation, and tokens per second"},
		{"performance_summary.json", `{"data_parallel": {"two_gpu": {"time_mean": 0}}}`, "data_parallel.two_gpu: time_mean is 0, time_std 0 and tok_mean 0; they must be the seconds of an epoch, above 0, their deviation, and tokens per second"},
		{"model_parallel.log", "Epoch 0: Training Time = 1e300, Tokens_per_sec = 3", "epoch 0 of rank 0: its time is 1e+300 s and its rate 3 tokens/s; the time must be above 0 and at most 9.2e+09 s, the rate 0 or more"},
		{"run.log", "run_data_parallel.py --world_size 2\nRank 0 training time: avg:2, std:1, tokens_per_second: avg: 3, std:1", "the command has --world_size 2, and there are lines of 1 of these ranks; there must be one of each"},
		{"run.log", "run_data_parallel.py --world_size 2\nEpoch 0 on Rank 0: Training Time = 2, Tokens_per_sec = 3", "the command has --world_size 2, and there are lines of 1 of these ranks; there must be one of each"},
		{"run.log", "hello", `holds no line of a program whose logs are known: of Megatron-LM, torchtitan, DeepSpeed or transformers' Trainer (docs/logs.md), or of homework 4's scripts, such as "Epoch 0 on Rank 0: Training Time = 20.6, Tokens_per_sec = 217800.3"`},
		{"run.log", "Epoch 0: Training Time = 1.5, Tokens_per_sec = 3", "does not say whether the run was model or pipeline parallel; name it model_parallel.log or pipeline_parallel.log"},
	} {
		_, err := coursefile.Read(x.name, []byte(x.text))
		require.EqualError(t, err, x.message)
	}
	_, err := coursefile.LoadRun("testdata/performance_summary.json")
	require.ErrorContains(t, err, "holds 4 results (ddp=1, ddp=2, model=2, pipeline=2)")
	_, _, err = coursefile.LoadMeasured("testdata/pipeline_parallel.log")
	require.EqualError(t, err, "testdata/pipeline_parallel.log: is of a course's scripts, which predict nothing; name two results: psim compare A B")
}

// Numbers that psim reproduce has marked as predicted are not measurements.
func TestPredicted(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{
		"stats_ddp1.json":           `{"0": {"total_time": 3}, "num_workers": 1, "num_batches": 1, "batch_size": 64, "kind": "predicted"}`,
		"rank0_results_epoch0.json": `{"training_time": 3, "tokens_per_sec": 4, "kind": "predicted"}`,
		"performance_summary.json":  `{"data_parallel": {"two_gpu": {"time_mean": 3}}, "kind": "predicted"}`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644))
	}
	list, err := coursefile.Load(folder)
	require.NoError(t, err)
	require.Len(t, list, 3)
	for _, f := range list {
		require.Equal(t, results.Predicted, f.Run.Result.Kind, f.Label)
	}
}

// Other files are left to other readers.
func TestOthers(t *testing.T) {
	for name, text := range map[string]string{"a.json": `{"kind": "measured", "num_workers": 2}`, "b.json": `[]`, "c.csv": "a,b", "d.json": ""} {
		runs, err := coursefile.Read(name, []byte(text))
		require.NoError(t, err)
		require.Empty(t, runs)
	}
	list, err := coursefile.Load(t.TempDir())
	require.NoError(t, err)
	require.Empty(t, list)
}

func FuzzStats(f *testing.F) {
	seed(f, "cs1390/stats_ddp2.json", "cs1390/stats_model3.json", "cs1390/stats_pipeline3.json")
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, mode := range []string{"ddp", "pipeline"} {
			fuzz(t, "stats_"+mode+"2.json", data)
		}
	})
}

func FuzzEpoch(f *testing.F) {
	seed(f, "workdir_dual_gpu/rank0_results_epoch1.json")
	f.Fuzz(func(t *testing.T, data []byte) { fuzz(t, "rank0_results_epoch1.json", data) })
}

func FuzzSummary(f *testing.F) {
	seed(f, "performance_summary.json")
	f.Fuzz(func(t *testing.T, data []byte) { fuzz(t, "performance_summary.json", data) })
}

func FuzzLog(f *testing.F) {
	seed(f, "homework4.txt", "pipeline_parallel.log")
	f.Fuzz(func(t *testing.T, data []byte) { fuzz(t, "model_parallel.log", data) })
}

func seed(f *testing.F, names ...string) {
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(f, err)
		f.Add(data)
	}
}

// fuzz reads a file. Its results can be compared, and psim can read them.
func fuzz(t *testing.T, name string, data []byte) {
	runs, err := coursefile.Read(name, data)
	if err != nil {
		require.NotContains(t, err.Error(), "\n")
		return
	}
	for _, run := range runs {
		var b bytes.Buffer
		require.NoError(t, run.Result.WriteJSON(&b))
		_, err := results.ReadResult(&b)
		require.NoError(t, err)
		require.NoError(t, compare.Compare(run, run).WriteJSON(&b))
		if run.Trace != nil {
			require.NoError(t, run.Trace.Graph.Validate())
			graph.Summarize(run.Trace)
		}
	}
}
