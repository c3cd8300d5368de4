package logged_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/launch/logged"
	"psim/launch/understood"
)

// mlperfLine writes a line in the form of MLPerf's, at some second.
func mlperfLine(second float64, key, value, metadata string) string {
	return fmt.Sprintf(`0: :::MLLOG {"namespace": "", "time_ms": %.0f, "event_type": "POINT_IN_TIME", "key": %q, "value": %s, "metadata": {"file": "x.py", "lineno": 1%s}}`+"\n",
		1000*second, key, value, metadata)
}

// mlperfBlock writes a block of steps, with something that is told of it.
func mlperfBlock(from, to float64, stats, begin, end string) string {
	return mlperfLine(from, "block_start", "null", begin) + mlperfLine(to, "tracked_stats", stats, "") + mlperfLine(to, "block_stop", "null", end)
}

// TestMLPerf: a step is what the log says of it, or by the batch and a throughput that goes with the times, or by the times
// of blocks; steps of an earlier run do not count, and evaluation is lost time.
func TestMLPerf(t *testing.T) {
	head := mlperfLine(0, "global_batch_size", "32", "") + mlperfLine(0, "gradient_accumulation_steps", "2.0", "") +
		mlperfLine(0, "max_sequence_length", "8192", "") + mlperfLine(1, "tracked_stats", `{"train_step_time": 99.0}`, "") + mlperfLine(10, "run_start", "null", "")
	tail := mlperfLine(60, "run_stop", "null", "")
	steps := func(begin, end int) (string, string) {
		return fmt.Sprintf(`, "step": %d`, begin), fmt.Sprintf(`, "step": %d`, end)
	}
	b, e := steps(0, 10)
	log := logged.Read([]byte(head + mlperfBlock(10, 30.1, `{"train_step_time": 2.0, "loss": 3}`, b, e) + mlperfBlock(40, 60, `{"train_step_time": 1.9}`, e, `, "step": 20`) + tail))
	require.NotNil(t, log)
	require.Equal(t, "mlperf", log.Steps.Program)
	require.InEpsilon(t, 1.95, log.Steps.StepTime, 1e-9)
	require.Equal(t, "train_step_time, the median of 2 lines", log.Steps.How)
	require.Equal(t, []int{32, 8192, 2}, []int{log.Steps.Batch, log.Steps.Tokens, log.Steps.Rounds})
	require.InEpsilon(t, 2.005, log.Steps.Stamped, 1e-9)
	require.InEpsilon(t, 9.9, log.Steps.Lost, 1e-9)

	log.Steps.Complete(understood.LoggedPlan{Samples: 32, Microbatches: 4})
	require.Equal(t, []string{"the log says that gradients of 2 microbatches are summed in a step, and the configuration of 4: " +
		"--set batch.micro, or schedule.microbatches, predicts these"}, log.Steps.OtherPlan())
	log.Steps.Complete(understood.LoggedPlan{Samples: 32, Microbatches: 2})
	require.Empty(t, log.Steps.OtherPlan())

	// Times that no clock shows are not times.
	for _, at := range []float64{-1, 1e16, 1e300} {
		log = logged.Read([]byte(head + mlperfBlock(10, 30, `{"train_step_time": 2.0}`, b, e) + mlperfBlock(at, at, `{"train_step_time": 3.0}`, b, e) + tail))
		require.InEpsilon(t, 2, log.Steps.StepTime, 1e-9)
		require.InEpsilon(t, 30, log.Steps.Lost, 1e-9)
		log = logged.Read([]byte(mlperfLine(at, "run_start", "null", "") + mlperfBlock(10, 30, `{"train_step_time": 2.0}`, b, e) + mlperfLine(at, "run_stop", "null", "")))
		require.Zero(t, log.Steps.Lost)
	}

	samples := func(n int) string { return fmt.Sprintf(`, "samples_count": %d`, n) }
	log = logged.Read([]byte(head + mlperfBlock(10, 30, `{"throughput": 16.1}`, samples(0), samples(320)) + tail))
	require.InEpsilon(t, 32/16.1, log.Steps.StepTime, 1e-9)
	require.Contains(t, log.Steps.How, "the batch over throughput")
	log = logged.Read([]byte(head + mlperfBlock(10, 30, `{"throughput": 131000.0}`, samples(0), samples(320)) + tail))
	require.InEpsilon(t, 2, log.Steps.StepTime, 1e-9, "of tokens, which the times of blocks tell")
	require.Contains(t, log.Steps.How, "the time of a block over its steps")
	log = logged.Read([]byte(mlperfBlock(10, 30, `{"throughput": 131000.0}`, samples(0), samples(320))))
	require.Nil(t, log, "without a batch nothing is known")
	require.Contains(t, logged.Lacks([]byte(head)), "its lines of MLPerf have no block of steps")
}

// TestGolden: golden values of Megatron-LM have a step and the highest peak of memory; the first step does not count.
func TestGolden(t *testing.T) {
	golden := func(values string) []byte {
		return []byte(`{"lm loss": {"values": {"1": 10.9}}, "mem-max-allocated-bytes": {"start_step": 1, "values": {"1": 100.0, "5": 3000000000.0}},` +
			`"iteration-time": {"start_step": 1, "end_step": 20, "step_interval": 5, "values": {` + values + `}}}`)
	}
	log := logged.Read(golden(`"1": 9.0, "10": 0.3, "5": 0.2, "15": "nan", "20": 0.4`))
	require.NotNil(t, log)
	require.InEpsilon(t, 0.3, log.Steps.StepTime, 1e-9)
	require.Equal(t, int64(3_000_000_000), log.Steps.Allocated)
	require.Equal(t, "iteration-time, the median of 3 steps", log.Steps.How)
	for _, none := range []string{`"1": "nan", "5": "nan"`, "", `"1": 3.0`} {
		require.Nil(t, logged.Read(golden(none)))
		require.Contains(t, logged.Lacks(golden(none)), "its iteration-time has no two numbers")
	}
	require.Nil(t, logged.Read([]byte(strings.Replace(string(golden(`"1": 3, "2": 3`)), "{", "[", 1))))
}
