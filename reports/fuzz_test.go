package reports_test

import (
	"bytes"
	"io"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/reports"
	"psim/reports/picture"
	"psim/results/rankings"
)

// A plans.json never makes psim panic, and what was read is printed and written, and
// read back as the same.
func FuzzReadPlans(f *testing.F) {
	var saved bytes.Buffer
	some := plans(f, 7e9)
	some.Plans = some.Plans[:1]
	if err := some.WriteJSON(&saved); err != nil {
		f.Fatal(err)
	}
	f.Add(saved.Bytes())
	f.Add([]byte(`{"plans": [], "pruned": 3, "partial": true, "seconds": 1, "left_out": [{"schedule": "zbv"}]}`))
	f.Add([]byte(`{"plans": [{"kind": "predicted", "ranks": [{"peak_memory_bytes": 9223372036854775807}], "step_time_s": 9.2e9, "settings": null}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := rankings.ReadPlans(bytes.NewReader(data))
		if err != nil {
			return
		}
		var first, second bytes.Buffer
		if err := p.WriteJSON(&first); err != nil {
			t.Fatal(err)
		}
		again, err := rankings.ReadPlans(bytes.NewReader(first.Bytes()))
		if err != nil {
			t.Fatalf("%v\n%s", err, first.Bytes())
		}
		if err := again.WriteJSON(&second); err != nil || !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Fatalf("%v\n%s\nwas read as\n%s", err, first.Bytes(), second.Bytes())
		}
		p.Sort()
		if err := reports.WriteRanking(io.Discard, p, 3); err != nil {
			t.Fatal(err)
		}
	})
}

// The longest times and the most memory that a file can hold are drawn.
func TestParetoExtremes(t *testing.T) {
	p, err := rankings.ReadPlans(bytes.NewReader([]byte(`{"plans": [{"kind": "predicted", "step_time_s": 9.2e9, "ranks": [{"peak_memory_bytes": 9223372036854775807}]}]}`)))
	require.NoError(t, err)
	require.NoError(t, picture.Pareto(io.Discard, picture.SVG, picture.ParetoFigure{Plans: p.Plans, Capacity: math.MaxInt64}))
	_, err = rankings.ReadPlans(bytes.NewReader([]byte(`{"plans": [{"kind": "predicted", "step_time_s": 1e10, "ranks": [{}]}]}`)))
	require.EqualError(t, err, "plans[0]: step_time_s or makespan_s is negative or above 9.2e+09")
}
