package session

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim"
	"psim/exec/pytorch"
)

// The medians of the times are a configuration, of which the step follows.
func TestPyTorchTimes(t *testing.T) {
	c, err := psim.Load("exec", "schedule.name=zb-h1")
	require.NoError(t, err)
	p := PyTorchTimes{Name: "exec", Version: "2.15.0", Device: "cpu", config: c}
	var times []pytorch.TaskTime
	for round, scale := range []time.Duration{1, 3, 2} {
		for _, one := range []pytorch.TaskTime{
			{Rank: 0, Kind: "F", Stage: 0, Time: 5}, {Rank: 1, Kind: "F", Stage: 1, Time: 5},
			{Rank: 0, Kind: "I", Stage: 0, Time: 0}, {Rank: 1, Kind: "I", Stage: 1, Time: 5},
			{Rank: 0, Kind: "W", Stage: 0, Time: 10}, {Rank: 1, Kind: "W", Stage: 1, Time: 5},
			{Rank: 0, Kind: "OPTIMIZER", Time: 2}, {Rank: 1, Kind: "OPTIMIZER", Time: 4},
			{Rank: 0, Kind: "SEND_F", Bytes: 96, Time: 0}, {Rank: 1, Kind: "SEND_B", Stage: 1, Bytes: 96, Time: 0},
		} {
			one.Round, one.Time = round, one.Time*scale*time.Millisecond
			times = append(times, one)
		}
	}
	p.summarize(times)
	var text strings.Builder
	require.NoError(t, p.WriteConfig(&text, "psim calibrate"))
	require.Contains(t, text.String(), `backward_input = ["0us", "10000us"]`)
	require.Contains(t, text.String(), `backward_weight = ["20000us", "10000us"]`)
	require.Contains(t, text.String(), `optimizer = "8000us"`)
	require.NotContains(t, text.String(), "Left out")
	p.Tasks = append(p.Tasks, PyTorchTask{Kind: "ALL_REDUCE", Alone: 1})
	require.NoError(t, p.WriteConfig(&text, "psim calibrate"))
	require.Contains(t, text.String(), "# Left out: sums of the gradients of tables")
	text.Reset()
	require.NoError(t, p.WriteConfig(&text, "psim calibrate"))
	path := filepath.Join(t.TempDir(), "times.toml")
	require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o644))
	read, err := psim.Load(path)
	require.NoError(t, err)
	predicted, err := psim.Predict(t.Context(), read)
	require.NoError(t, err)
	require.InDelta(t, 0.138, predicted.Result.StepTime, 0.01, "4 × 30 ms, a forward before them, the update")

	c, err = psim.Load("exec", "schedule.name=ddp", "schedule.stages=1", "parallel.data=2")
	require.NoError(t, err)
	_, err = TimeInPyTorch(t.Context(), c, pytorch.Options{Python: "python", Rounds: 1})
	require.ErrorContains(t, err, "schedule.stages: calibrate times the stages of a pipeline in PyTorch")
}
