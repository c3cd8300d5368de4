package reports

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"psim/internal/units"
	"psim/reports/table"
	"psim/results"
)

// WriteBoundaries prints a row per boundary and direction for people.
func WriteBoundaries(w io.Writer, list []results.StageBoundary) error {
	type boundary = results.StageBoundary
	out := table.NewPage(w)
	if len(list) == 0 {
		out.Print("boundaries: none; every rank holds the whole network\n")
		return out.Flush()
	}
	out.Print("boundaries, what one microbatch sends\n")
	table.Table[boundary]{Rows: list, Columns: []table.Column[boundary]{
		{Head: "stage", Left: true, Cell: func(b boundary) any { return fmt.Sprintf("%d → %d", b.From, b.To) }},
		{Head: "rank", Cell: func(b boundary) any {
			if b.ToRank == b.FromRank {
				return b.FromRank
			}
			return fmt.Sprintf("%d → %d", b.FromRank, b.ToRank)
		}},
		{Head: "direction", Cell: func(b boundary) any { return b.Direction }},
		{Head: "shape", Cell: func(b boundary) any { return shapeText(b, " × ") }},
		{Head: "bytes", Cell: func(b boundary) any { return b.Bytes }},
		{Cell: func(b boundary) any {
			if b.ToRank == b.FromRank {
				return ""
			}
			return units.FormatBytes(b.Bytes)
		}},
		{Head: "microbatches", Cell: func(b boundary) any { return b.Microbatches }},
	}}.Text(out)
	divided := 0
	for _, b := range list {
		divided = max(divided, b.Parts)
	}
	if divided > 0 {
		out.Print("  each of %d devices of a group sends its part of a shape\n", divided)
	}
	return out.Flush()
}

// WriteBoundariesCSV writes a row per boundary and direction.
func WriteBoundariesCSV(w io.Writer, list []results.StageBoundary) error {
	type boundary = results.StageBoundary
	return table.Table[boundary]{Rows: list, Columns: []table.Column[boundary]{
		{Head: "from", Cell: func(b boundary) any { return b.From }},
		{Head: "to", Cell: func(b boundary) any { return b.To }},
		{Head: "shape", Cell: func(b boundary) any { return shapeText(b, "x") }},
		{Head: "bytes", Cell: func(b boundary) any { return b.Bytes }},
		{Head: "direction", Cell: func(b boundary) any { return b.Direction }},
		{Head: "from_rank", Cell: func(b boundary) any { return b.FromRank }},
		{Head: "to_rank", Cell: func(b boundary) any { return b.ToRank }},
		{Head: "microbatches", Cell: func(b boundary) any { return b.Microbatches }},
		{Head: "parts", Cell: func(b boundary) any { return max(1, b.Parts) }},
	}}.CSV(w)
}

// shapeText prints the sizes of a tensor.
func shapeText(b results.StageBoundary, by string) string {
	var sizes []string
	for _, n := range b.Shape {
		sizes = append(sizes, strconv.Itoa(n))
	}
	return strings.Join(sizes, by)
}
