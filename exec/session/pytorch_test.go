package session

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim"
	"psim/exec/measure"
	"psim/exec/pytorch"
	"psim/exec/train"
	"psim/results"
	"psim/schedules/graph"
)

// What PyTorch measures of a pass is divided among the layers of replicas; the parts of one pass, the
// messages of a stage and the collectives of a size have the times that were measured.
func TestSpreadTimes(t *testing.T) {
	times := []pytorch.TaskTime{
		{Kind: "F", Time: 8 * time.Millisecond}, {Kind: "B", Time: 15 * time.Millisecond},
		{Rank: 1, Kind: "F", Stage: 1, Time: 5 * time.Millisecond}, {Kind: "SEND_F", Bytes: 196608, Time: time.Millisecond},
		{Kind: "OPTIMIZER", Time: 2 * time.Millisecond}, {Rank: 1, Kind: "OPTIMIZER", Time: 3 * time.Millisecond},
	}
	for _, c := range []struct {
		sets []string
		want map[string]time.Duration // by kind, of all tasks of rank 0 and a microbatch
	}{
		{[]string{"schedule.name=gpipe"}, map[string]time.Duration{
			"F": 8 * time.Millisecond, "B": 15 * time.Millisecond, "OPTIMIZER": 2 * time.Millisecond, "SEND_F": time.Millisecond,
		}},
		{[]string{"schedule.name=ddp", "schedule.stages=1", "parallel.data=2"}, map[string]time.Duration{
			"F": 8 * time.Millisecond, "B": 15 * time.Millisecond, "OPTIMIZER": 3 * time.Millisecond, "ALL_REDUCE": 0,
		}},
	} {
		config, err := psim.Load("exec", c.sets...)
		require.NoError(t, err)
		e, err := config.Build()
		require.NoError(t, err)
		spread, have := spreadTimes(e.Graph, e.Costs, times), map[string]time.Duration{}
		for _, task := range e.Graph.Tasks() {
			if task.Rank == 0 && task.Microbatch <= 0 {
				have[task.Kind.String()] += spread(&task)
			}
		}
		for kind, want := range c.want {
			require.InDelta(t, want, have[kind], 20, "%v: %s", c.sets, kind)
		}
	}
}

// Every round predicts a step, and the middle one counts. Processes slow each other down as they did in the
// middle of all rounds, where they share cores.
func TestPredictFromRounds(t *testing.T) {
	config, err := psim.Load("exec", "schedule.name=gpipe")
	require.NoError(t, err)
	r := &Trial{Config: config}
	require.NoError(t, r.build())
	var times []pytorch.TaskTime
	for round, f := range []time.Duration{50, 10, 20} {
		for rank := range int32(2) {
			for _, kind := range []string{"F", "B"} {
				d := f * time.Millisecond
				times = append(times, pytorch.TaskTime{
					Round: 2 * round, Rank: rank, Stage: rank, Kind: kind, Time: d, Beside: d * 3 / 2,
				})
			}
		}
	}
	step := func(cores int) time.Duration {
		require.NoError(t, r.predictFrom(times, cores))
		return graph.Summarize(r.Predicted).StepTime
	}
	require.InDelta(t, 200*time.Millisecond, step(0), 20, "5 forwards and 5 backwards of 20 ms")
	require.InDelta(t, (80+6*20*1.5)*1e6, step(2), 20, "in 6 of them both processes compute")
	require.InDelta(t, (40+6*10*1.5)*1e-3, r.Fastest.Predicted, 1e-6, "of 10 ms in the second round")
	require.InDelta(t, 0.08, r.Fastest.Alone, 1e-9, "four of each")
	require.InDelta(t, 0.12, r.Fastest.Together, 1e-9)
	for i := range times {
		if t := &times[i]; t.Rank == 1 && t.Round == 0 { // the fastest of this process
			t.Time, t.Beside = 5*time.Millisecond, 5*time.Millisecond
		}
	}
	step(0)
	require.InDelta(t, 0.04+0.04+0.005+0.005, r.Fastest.Predicted, 1e-6, "the first is the slower one")
	require.InDelta(t, 0.12, r.Fastest.Together, 1e-9, "of the first")
}

// A number that is too far from psim's, and a tensor that PyTorch lacks, are failures by name.
func TestCompareRecords(t *testing.T) {
	all := measure.CheckNames()
	ours := &train.Record{
		Losses:     []float64{2, 1},
		Gradients:  []map[string][]float32{{"a": {1, -4}, "b": {0.5}}},
		Parameters: []map[string][]float32{{"a": {1, 2}, "b": {3}}},
	}
	theirs := func(gradient, weight float32, loss float64) pytorch.Execution {
		return pytorch.Execution{
			Run: results.Run{Result: results.Result{
				Stages: 2, Measurement: &results.Measurement{Losses: []float64{2, loss}},
			}},
			Records: []map[string][]float32{
				{"gradient/a": {1, gradient}, "weight/a": {1, weight}},
				{"gradient/b": {0.5}, "weight/b": {3}},
			},
		}
	}
	require.NoError(t, compareRecords(ours, theirs(-4.00003, 2.000009, 1.00001), all).Err())
	v := compareRecords(ours, theirs(-4.001, 2.0001, 1.001), all)
	require.Len(t, v.Failures, 3)
	require.ErrorContains(t, v.Err(), "PyTorch's gradient of a is up to 0.001 apart, where 4e-05 is allowed")
	require.ErrorContains(t, v.Err(), "losses: 0.001 apart")
	require.InDelta(t, 1e-4, v.Weights, 1e-6)
	require.Len(t, compareRecords(ours, theirs(-4.001, 2.0001, 1.001), []string{measure.CheckLoss}).Failures, 1)
	replicas := theirs(-4, 2, 1)
	replicas.Result.Stages = 1
	replicas.Records = []map[string][]float32{
		{"gradient/a": {1, -4}, "weight/a": {1, 2}, "gradient/b": {0.5}, "weight/b": {3}},
		{"gradient/a": {1, -4.00001}, "weight/a": {1, 2}, "gradient/b": {0.5}, "weight/b": {3}},
	}
	require.EqualError(t, compareRecords(ours, replicas, all).Err(), "a check failed: PyTorch's replicas have different gradients")
	missing := theirs(-4, 2, 1)
	missing.Records[1] = map[string][]float32{"gradient/a": {1}}
	v = compareRecords(ours, missing, all)
	require.ErrorContains(t, v.Err(), "PyTorch has no b")
	require.ErrorContains(t, v.Err(), "PyTorch's gradient of a is up to +Inf apart")
}

// PyTorch and psim train to the same numbers, by orders that PyTorch has and by one that it has not, as
// replicas and as shards.
func TestAgreesWithPyTorch(t *testing.T) {
	if testing.Short() || os.Getenv("PSIM_LONG") == "" {
		t.Skip("starts processes of PyTorch: make peers-python runs it")
	}
	python, err := pytorch.Find(t.Context())
	if err != nil {
		t.Skip(err)
	}
	small := []string{"model.layers=4", "model.hidden=32", "model.vocab=64", "model.sequence_length=16", "batch.global=8"}
	replicas := []string{"schedule.name=ddp", "schedule.stages=1", "parallel.data=2"}
	pictures := []string{"batch.global=8"}
	for _, c := range []struct {
		name        string
		sets, small []string
	}{
		{"exec", nil, small}, {"exec", []string{"schedule.name=hanayo", "schedule.virtual_stages=2"}, small},
		{"exec", []string{"schedule.name=zb-h1", "parallel.data=2", "schedule.microbatches=2"}, small},
		{"exec", replicas, small}, {"exec", append([]string{"parallel.zero=3", "model.tied=false"}, replicas...), small},
		{"exec", []string{
			"parallel.zero=3", "parallel.zero_group=2", "model.tied=false",
			"schedule.name=ddp", "schedule.stages=1", "parallel.data=4", "schedule.microbatches=2",
		}, small},
		{"vgg16-cpu-ddp", []string{"model.preset=vgg-mini", "parallel.data=2"}, pictures},
		{"vgg16-cpu-pipeline", []string{"model.preset=vgg-mini-pipeline"}, pictures},
		{"vgg16-cpu-fsdp", []string{"model.preset=vgg-mini", "parallel.data=2"}, pictures},
	} {
		sets := append([]string{c.name}, c.sets...)
		c, err := psim.Load(c.name, append(c.sets, c.small...)...)
		require.NoError(t, err)
		s := Session{Options: Options{Python: python, Seed: 1390, Measure: measure.Options{Repeats: 1, Checks: measure.CheckNames()}}}
		s.Measure.Train.Steps, s.Measure.Train.Warmup, s.Measure.Train.Run.Stall = 2, 1, time.Minute
		require.NoError(t, s.Run(t.Context(), c))
		require.NoError(t, s.Err(), sets)
		r := s.Result()
		require.True(t, r.Checks.Passed)
		require.Equal(t, "pytorch", r.Engine.Name)
		require.Positive(t, r.Predicted.StepTime)
		require.Greater(t, s.Main().Predicted.Graph.Len(), 0)
		require.True(t, graph.Summarize(s.Main().Measured).StepTime > 0)
	}
}
