package reports

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"psim/internal/units"
)

// shape prints a shape for people.
func (b Boundary) shape(by string) string {
	var sizes []string
	for _, n := range b.Shape {
		sizes = append(sizes, strconv.Itoa(n))
	}
	return strings.Join(sizes, by)
}

// WriteBoundaries prints a row per boundary and direction.
func WriteBoundaries(w io.Writer, list []Boundary) error {
	out := newPage(w)
	if len(list) == 0 {
		out.print("boundaries: none; every rank holds the whole network\n")
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
			b.shape(" × "), strconv.FormatInt(b.Bytes, 10), bytes, strconv.Itoa(b.Microbatches),
		})
	}
	out.print("boundaries, what one microbatch sends\n")
	out.table(rows)
	if divided > 0 {
		out.print("  each of %d devices of a group sends its part of a shape\n", divided)
	}
	return out.Flush()
}

// WriteBoundariesCSV writes a row per boundary and direction.
func WriteBoundariesCSV(w io.Writer, list []Boundary) error {
	out := newCSVWriter(w, "from,to,shape,bytes,direction,from_rank,to_rank,microbatches,parts")
	for _, b := range list {
		out.row(b.From, b.To, b.shape("x"), b.Bytes, b.Direction, b.FromRank, b.ToRank, b.Microbatches, max(1, b.Parts))
	}
	return out.end()
}

// WriteShards prints how many samples every replica has, and the first of them.
func WriteShards(w io.Writer, shards []Shard) error {
	const most = 12
	out := newPage(w)
	for _, s := range shards {
		which := strings.Trim(fmt.Sprint(s.Samples[:min(most, len(s.Samples))]), "[]")
		if len(s.Samples) > most {
			which += " …"
		}
		out.print("  replica %d trains on %s samples: %s\n", s.Replica, units.FormatCount(int64(len(s.Samples))), which)
	}
	return out.Flush()
}

// WriteShardsCSV writes a row per sample.
func WriteShardsCSV(w io.Writer, shards []Shard) error {
	out := newPage(w)
	out.print("replica,sample\n")
	for _, s := range shards {
		for _, sample := range s.Samples {
			out.print("%d,%d\n", s.Replica, sample)
		}
	}
	return out.Flush()
}
