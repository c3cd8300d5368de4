package reports

import (
	"io"
	"strconv"
	"strings"

	"psim/internal/units"
)

// The directions in which tensors pass a boundary.
const (
	ForwardDirection  = "forward"  // activations
	BackwardDirection = "backward" // their gradients
)

// A Boundary is what passes from a stage to its neighbour for one microbatch.
type Boundary struct {
	From         int    `json:"from"`         // stage that sends
	To           int    `json:"to"`           // stage that receives
	Shape        []int  `json:"shape"`        // samples first; images are samples × channels × height × width
	Bytes        int64  `json:"bytes"`        // of the message that a device sends; 0 within a rank
	Direction    string `json:"direction"`    // forward for activations, backward for their gradients
	FromRank     int    `json:"from_rank"`    // of the first replica
	ToRank       int    `json:"to_rank"`      // of the first replica
	Microbatches int    `json:"microbatches"` // how many of a step are of this size, and go between these ranks
	// Among how many devices of a tensor-parallel group the tensor is divided, each of
	// which sends one part; 0 where each sends all of it.
	Parts int `json:"parts,omitempty"`
}

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
