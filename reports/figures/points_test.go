package figures

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/results"
)

const point1 = `{"index":0,"set":["schedule.stages=2","train.optimizer=sgd"],"result":{"kind":"predicted","step_time_s":1,"ranks":[{"rank":0}]}}`

func TestReadPoints(t *testing.T) {
	list, err := readPoints(strings.NewReader(point1 + "\n\n" + strings.Replace(point1, "=2", "=10", 1) + "\n" + `{"index":2,"set":["schedule.stages=9"],"result":null}` + "\n"))
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, []dimension{{"schedule.stages", []string{"2", "10"}, []float64{2, 10}}}, dimensions(list))
	for text, want := range map[string]string{
		"":  "holds no results of a sweep",
		"{": "line 1: unexpected end of JSON input",
		point1 + "\n" + `{"set":["a=1"],"result":{"kind":"guess"}}`: `line 2: result: kind is "guess"`,
	} {
		_, err := readPoints(strings.NewReader(text))
		require.ErrorContains(t, err, want)
	}
}

// Whatever a sweep.jsonl holds is drawn or refused.
func FuzzReadPoints(f *testing.F) {
	f.Add(point1)
	f.Add(point1 + "\n" + strings.Replace(point1, "=2", "=x", 1))
	f.Add(point1 + "\n" + strings.Replace(point1, `"step_time_s":1`, `"step_time_s":0`, 1))
	f.Fuzz(func(t *testing.T, text string) {
		list, err := readPoints(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, name := range []string{"sweep", "heatmap", "time", "split-time", "memory"} {
			kind, err := Find(name)
			require.NoError(t, err)
			if picture, err := kind.Draw(Request{Items: list}); err == nil && len(list) < 50 {
				require.NoError(t, picture(&strings.Builder{}, "svg"))
			}
		}
	})
}

// Predictions that were just made name their device; saved and measured results have no remark.
func TestPredictedFor(t *testing.T) {
	item := func(path, kind, device string) Item {
		return Item{Path: path, Run: results.Run{Result: results.Result{Kind: kind, Config: map[string]any{"machine": map[string]any{"device": device}}}}}
	}
	a, b := item("", results.Predicted, "t4"), item("", results.Predicted, "v100")
	require.Equal(t, []string{"predicted for t4"}, PredictedFor([]Item{a, a}))
	require.Equal(t, []string{"predicted"}, PredictedFor([]Item{a, b}))
	require.Equal(t, []string{"predicted"}, PredictedFor([]Item{{Run: results.Run{Result: results.Result{Kind: results.Predicted}}}}))
	require.Empty(t, PredictedFor([]Item{a, item("out", results.Predicted, "t4")}))
	require.Empty(t, PredictedFor([]Item{a, item("", results.Measured, "t4")}))
	require.Empty(t, PredictedFor(nil))
}
