package reports_test

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/reports"
	"psim/results"
	"psim/schedules/graph"
)

// endingAt is a step of two replicas of one rank, whose only tasks end at these times.
func endingAt(first, second time.Duration) *graph.Trace {
	g := &graph.Graph{Shape: graph.Shape{Ranks: 1, Microbatches: 1, Replicas: 2}}
	for rank := range int32(2) {
		g.Add(graph.Task{Kind: graph.Forward, Rank: rank, Stream: g.AddStream(rank, "compute")})
	}
	return &graph.Trace{Graph: g, Spans: []graph.Span{{End: first}, {End: second}}}
}

func twoReplicas() results.Info {
	return results.Info{Name: "hand", Stages: 1, VirtualStages: 1, Microbatches: 1, DataParallel: 2, Samples: 8, Tokens: 80, DataSet: 13}
}

// Times are averaged for every rank by itself, and rates are summed over the replicas
// and then averaged over the epochs; deviations are the population's.
func TestMeasuredEpochs(t *testing.T) {
	traces := []*graph.Trace{
		endingAt(1*time.Second, 2*time.Second), endingAt(3*time.Second, 2*time.Second), // ranks 4 and 4, whole 5
		endingAt(1*time.Second, 4*time.Second), endingAt(1*time.Second, 4*time.Second), // ranks 2 and 8, whole 8
		endingAt(9*time.Second, 9*time.Second), // of an epoch that was interrupted
	}
	r := results.Result{}
	r.MeasureEpochs(traces, 1, twoReplicas())
	e := r.Epochs
	require.Equal(t, []int64{13, 2, 8, 5}, []int64{e.Samples, e.Steps, e.Batch, e.LastBatch})
	require.Equal(t, []int{2, 1}, []int{e.Number, e.Dropped})
	require.Equal(t, []results.RankEpoch{{Rank: 0, Time: 3, TimeStd: 1}, {Rank: 1, Time: 6, TimeStd: 2}}, e.Ranks)
	require.Equal(t, []float64{6.5, 1.5, 13}, []float64{e.Time, e.TimeStd, e.Total})
	require.Equal(t, results.Throughput{Samples: 2 + 2, Tokens: 20 + 20}, e.Each[0].Throughput, "8 samples of each replica in 4 s")
	require.Equal(t, results.Throughput{Samples: 4 + 1, Tokens: 40 + 10}, e.Each[1].Throughput)
	require.Equal(t, results.Throughput{Samples: 4.5, Tokens: 45}, e.Throughput)
	require.Equal(t, results.Throughput{Samples: 0.5, Tokens: 5}, *e.ThroughputStd)
	text, err := json.Marshal(e.Each[1])
	require.NoError(t, err)
	require.JSONEq(t, `{"time_s": 8, "rank_times_s": [2, 8], "throughput": {"samples_per_s": 5, "tokens_per_s": 50}}`, string(text))

	unequal := twoReplicas()
	unequal.Shards = []int64{6, 2}
	r.MeasureEpochs(traces, 1, unequal)
	require.Equal(t, results.Throughput{Samples: 3 + 1, Tokens: 30 + 10}, r.Epochs.Each[0].Throughput, "12 and 4 samples in 4 s")
	r.MeasureEpochs(traces[:1], 0, twoReplicas())
	require.Nil(t, r.Epochs, "no epoch is whole")
}

// The table tells the times, and which deviation it is.
func TestEpochRows(t *testing.T) {
	r := result(run(t, "gpipe", 2, 2, unit()), nil)
	r.MeasureEpochs([]*graph.Trace{endingAt(1*time.Second, 2*time.Second), endingAt(1*time.Second, 2*time.Second), endingAt(2*time.Second, 2*time.Second), endingAt(2*time.Second, 2*time.Second)}, 1, twoReplicas())
	var table bytes.Buffer
	require.NoError(t, reports.WriteResult(&table, r))
	require.Contains(t, table.String(), `
  epoch          4.00 s ± 0 s, mean of 2 epochs after 1 to warm up; 13 samples in 2 steps of 8; the last has 5 left and is filled up
  epoch by rank  rank 0 3.00 s ± 1.00 s, rank 1 4.00 s ± 0 s
  epoch's rate   5.00 ± 1.00 samples/s, 50.0 ± 10.0 tokens/s, summed over the replicas; ± is the deviation over the epochs, with n
`)
}

// An epoch that is predicted takes as many steps as hold all samples, each as long as
// the step; without a number of samples there is none.
func TestPredictedEpochs(t *testing.T) {
	trace := run(t, "gpipe", 2, 2, unit())
	require.Nil(t, result(trace, nil).Epochs)
	rapid.Check(t, func(t *rapid.T) {
		in := info(trace.Graph, nil)
		in.DataSet, in.Samples = rapid.Int64Range(1, 1000).Draw(t, "samples"), rapid.Int64Range(1, 50).Draw(t, "batch")
		r := results.NewResult(results.Predicted, trace, graph.Summarize(trace), in)
		e, number := r.Epochs, rapid.IntRange(1, 9).Draw(t, "epochs")
		r.RepeatEpochs(number)
		require.Equal(t, in.DataSet, (e.Steps-1)*in.Samples+e.LastBatch)
		require.True(t, 1 <= e.LastBatch && e.LastBatch <= in.Samples)
		require.Equal(t, float64(e.Steps)*r.StepTime, e.Time)
		require.InEpsilon(t, float64(number)*e.Time, e.Total, 1e-12)
		require.Equal(t, r.Throughput, e.Throughput)
		if e.LastBatch < in.Samples { // a last step of its own size
			in.LastStep = time.Duration(rapid.IntRange(1, 1e6).Draw(t, "last"))
			e := results.NewResult(results.Predicted, trace, graph.Summarize(trace), in).Epochs
			require.Equal(t, in.LastStep.Seconds(), e.LastTime)
			require.Equal(t, float64(e.Steps-1)*r.StepTime+e.LastTime, e.Time)
			require.InEpsilon(t, float64(in.DataSet), e.Throughput.Samples*e.Time, 1e-12)
		}
	})
}

// The rate by clocks that do not wait has the mean and the deviation of the epochs.
func TestUnwaitedEpochs(t *testing.T) {
	r := result(run(t, "gpipe", 2, 2, unit()), nil)
	traces := []*graph.Trace{endingAt(1, 2), endingAt(3, 2), endingAt(1, 4), endingAt(1, 4)}
	rate := func(steps []*graph.Trace) results.Throughput {
		return results.Throughput{Samples: 8 / float64(steps[0].End()), Tokens: 80 / float64(steps[0].End())}
	}
	r.Epochs = nil
	r.MeasureUnwaited(traces, rate)
	require.Nil(t, r.Epochs, "there are none")
	r.MeasureEpochs(traces, 1, twoReplicas())
	require.Nil(t, r.Epochs.Unwaited)
	r.MeasureUnwaited(traces, rate)
	e := r.Epochs
	require.Equal(t, []results.Throughput{{Samples: 4, Tokens: 40}, {Samples: 2, Tokens: 20}}, []results.Throughput{*e.Each[0].Unwaited, *e.Each[1].Unwaited})
	require.Equal(t, []results.Throughput{{Samples: 3, Tokens: 30}, {Samples: 1, Tokens: 10}}, []results.Throughput{*e.Unwaited, *e.UnwaitedStd})
	tokens := 30.0
	r.Measurement = &results.Measurement{UnwaitedTokens: &tokens}
	var table bytes.Buffer
	require.NoError(t, reports.WriteResult(&table, r))
	require.Contains(t, table.String(), "30.0 tokens/s by clocks that do not wait for all ranks; of an epoch 3.00 ± 1.00 samples/s, 30.0 ± 10.0 tokens/s\n")
}

// A mean of epochs lies between them, and equal ones do not deviate.
func TestEpochMeans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var traces []*graph.Trace
		for range 2 * rapid.IntRange(1, 5).Draw(t, "epochs") {
			seconds := rapid.IntRange(1, 100)
			traces = append(traces, endingAt(time.Duration(seconds.Draw(t, "first"))*time.Second, time.Duration(seconds.Draw(t, "second"))*time.Second))
		}
		var r results.Result
		r.MeasureEpochs(traces, 0, twoReplicas())
		low, high := r.Epochs.Each[0].Time, r.Epochs.Each[0].Time
		for _, e := range r.Epochs.Each {
			low, high = min(low, e.Time), max(high, e.Time)
		}
		require.True(t, low-1e-9 <= r.Epochs.Time && r.Epochs.Time <= high+1e-9)
		require.LessOrEqual(t, r.Epochs.TimeStd, (high-low)/2+1e-9)
		whole := 0.0
		for _, trace := range traces {
			whole += trace.End().Seconds()
		}
		require.InEpsilon(t, whole, r.Epochs.Total, 1e-12)
		r.MeasureEpochs(append(traces[:2:2], traces[:2]...), 0, twoReplicas())
		require.Zero(t, math.Round(1e9*r.Epochs.TimeStd))
	})
}

// The first samples of every replica stand in the text, all of them in the table.
func ExampleWriteShards() {
	shards := results.NewReplicaSamples([][]int{{3, 1, 4}, {0, 5, 2}})
	reports.WriteShards(os.Stdout, shards)
	var table strings.Builder
	reports.WriteShardsCSV(&table, shards)
	os.Stdout.WriteString(strings.SplitAfterN(table.String(), "\n", 3)[1])
	// Output:
	// replica 0 trains on 3 samples: 3 1 4
	//   replica 1 trains on 3 samples: 0 5 2
	// 0,3
}
