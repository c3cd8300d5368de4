package reports

import (
	"fmt"
	"io"
	"strings"

	"psim/internal/units"
	"psim/reports/table"
	"psim/results"
)

// WriteShards prints the number of samples of every replica, and the first of them.
func WriteShards(w io.Writer, shards []results.ReplicaSamples) error {
	const most = 12
	out := table.NewPage(w)
	for _, s := range shards {
		first := strings.Trim(fmt.Sprint(s.Samples[:min(most, len(s.Samples))]), "[]")
		if len(s.Samples) > most {
			first += " …"
		}
		count := units.FormatCount(int64(len(s.Samples)))
		out.Print("  replica %d trains on %s samples: %s\n", s.Replica, count, first)
	}
	return out.Flush()
}

// WriteShardsCSV writes a row per sample.
func WriteShardsCSV(w io.Writer, shards []results.ReplicaSamples) error {
	type sample struct{ replica, number int }
	var samples []sample
	for _, s := range shards {
		for _, number := range s.Samples {
			samples = append(samples, sample{s.Replica, number})
		}
	}
	return table.Table[sample]{Rows: samples, Columns: []table.Column[sample]{
		{Head: "replica", Cell: func(s sample) any { return s.replica }},
		{Head: "sample", Cell: func(s sample) any { return s.number }},
	}}.CSV(w)
}
