package reports_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/reports"
	"psim/results"
)

// A result of a search says how close to the best it is, and keeps it in JSON.
func TestSearchedResult(t *testing.T) {
	r := result(run(t, "1f1b", 2, 2, unit()), nil)
	for _, c := range []struct {
		search *results.FoundOrder
		want   string
	}{
		{&results.FoundOrder{LowerBound: 2, Span: 2, Order: []string{"0F0"}}, "\n  search         longest span 2.00 s, which no order is below\n"},
		{&results.FoundOrder{LowerBound: 2, Span: 2.5, Gap: 0.25}, "longest span 2.50 s, at most 25.0 % above the best (no order is below 2.00 s)"},
		{nil, "longest span\n  throughput"},
	} {
		r.Search = c.search
		var table, saved bytes.Buffer
		require.NoError(t, reports.WriteResult(&table, r))
		require.Contains(t, table.String(), c.want)
		require.NoError(t, r.WriteJSON(&saved))
		again, err := results.ReadResult(&saved)
		require.NoError(t, err)
		require.Equal(t, c.search, again.Search)
	}
}
