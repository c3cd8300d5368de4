package reports

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"psim/internal/csvfile"
	"psim/internal/units"
	"psim/reports/table"
	"psim/results"
)

// shape prints a shape for people.
func shapeText(b results.StageBoundary, by string) string {
	var sizes []string
	for _, n := range b.Shape {
		sizes = append(sizes, strconv.Itoa(n))
	}
	return strings.Join(sizes, by)
}

// WriteBoundaries prints a row per boundary and direction.
func WriteBoundaries(w io.Writer, list []results.StageBoundary) error {
	out := table.NewPage(w)
	if len(list) == 0 {
		out.Print("boundaries: none; every rank holds the whole network\n")
		return out.Flush()
	}
	rows := [][]string{{"stage", "rank", "direction", "shape", "bytes", "", "microbatches"}}
	divided := 0
	for _, b := range list {
		rank, bytes := strconv.Itoa(b.FromRank), ""
		if b.ToRank != b.FromRank {
			rank, bytes = rank+" → "+strconv.Itoa(b.ToRank), units.FormatBytes(b.Bytes)
		}
		divided = max(divided, b.Parts)
		rows = append(rows, []string{
			strconv.Itoa(b.From) + " → " + strconv.Itoa(b.To), rank, b.Direction,
			shapeText(b, " × "), strconv.FormatInt(b.Bytes, 10), bytes, strconv.Itoa(b.Microbatches),
		})
	}
	out.Print("boundaries, what one microbatch sends\n")
	out.Table(rows)
	if divided > 0 {
		out.Print("  each of %d devices of a group sends its part of a shape\n", divided)
	}
	return out.Flush()
}

// WriteBoundariesCSV writes a row per boundary and direction.
func WriteBoundariesCSV(w io.Writer, list []results.StageBoundary) error {
	out := csvfile.NewWriter(w, "from,to,shape,bytes,direction,from_rank,to_rank,microbatches,parts")
	for _, b := range list {
		out.Row(b.From, b.To, shapeText(b, "x"), b.Bytes, b.Direction, b.FromRank, b.ToRank, b.Microbatches, max(1, b.Parts))
	}
	return out.End()
}

// WriteShards prints how many samples every replica has, and the first of them.
func WriteShards(w io.Writer, shards []results.ReplicaSamples) error {
	const most = 12
	out := table.NewPage(w)
	for _, s := range shards {
		which := strings.Trim(fmt.Sprint(s.Samples[:min(most, len(s.Samples))]), "[]")
		if len(s.Samples) > most {
			which += " …"
		}
		out.Print("  replica %d trains on %s samples: %s\n", s.Replica, units.FormatCount(int64(len(s.Samples))), which)
	}
	return out.Flush()
}

// WriteShardsCSV writes a row per sample.
func WriteShardsCSV(w io.Writer, shards []results.ReplicaSamples) error {
	out := table.NewPage(w)
	out.Print("replica,sample\n")
	for _, s := range shards {
		for _, sample := range s.Samples {
			out.Print("%d,%d\n", s.Replica, sample)
		}
	}
	return out.Flush()
}
