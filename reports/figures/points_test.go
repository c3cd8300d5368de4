package figures

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
