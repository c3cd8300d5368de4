package order

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"psim/schedules/graph"
)

const overlapped = "OVERLAP_F_B"

// Cells prints actions as PyTorch does, an overlapped pair in one cell:
// (0F3;3B1)OVERLAP_F_B.
func Cells(actions []Action) []string {
	cells := make([]string, 0, len(actions))
	for i := 0; i < len(actions); i++ {
		cell := actions[i].String()
		if actions[i].Pair && i+1 < len(actions) {
			i++
			cell = "(" + cell + ";" + actions[i].String() + ")" + overlapped
		}
		cells = append(cells, cell)
	}
	return cells
}

// ParseCell is the inverse of Cells for one cell: an action, or the two actions of a
// pair.
func ParseCell(cell string) ([]Action, error) {
	inner, isPair := strings.CutSuffix(cell, ")"+overlapped)
	if !isPair || !strings.HasPrefix(inner, "(") {
		a, err := ParseAction(cell)
		return []Action{a}, err
	}
	first, second, two := strings.Cut(inner[1:], ";")
	if !two {
		return nil, pairError(cell)
	}
	f, err := ParseAction(first)
	if err != nil {
		return nil, err
	}
	b, err := ParseAction(second)
	if err != nil {
		return nil, err
	}
	if f.Kind != graph.Forward || b.Kind != graph.Backward {
		return nil, pairError(cell)
	}
	f.Pair = true
	return []Action{f, b}, nil
}

func pairError(cell string) error {
	return fmt.Errorf("%q is not a pair; a pair is a forward and a backward, such as (0F3;3B1)%s",
		clip(cell), overlapped)
}

// WriteCSV writes the order in PyTorch's schedule notation: a line per rank, a
// cell per action, no header, no empty cells. It is PyTorch's compute-only form
// if the order has no messages, otherwise the form with communication.
func (o Order) WriteCSV(w io.Writer) error {
	out := bufio.NewWriter(w)
	for _, rank := range o {
		out.WriteString(strings.Join(Cells(rank), ","))
		out.WriteByte('\n')
	}
	return out.Flush()
}

// MaxFile is the largest size of a file in bytes. It is enough for about five million
// actions, ten times those of 300 ranks with 600 microbatches.
const MaxFile = 32 << 20

// ReadCSV reads PyTorch's schedule notation, compute-only or with
// communication. It keeps UNSHARD, RESHARD and REDUCE_GRAD, which PyTorch adds to every
// form with communication, and the WAIT kinds, which PyTorch has from 2.15 on.
// Rows may differ in length and lines may end in CR LF. Empty cells, which PyTorch
// writes for idle slots, are skipped. Before November 2024 PyTorch wrote BW for the
// full backward and B for the input gradient; a file with BW is read so. Errors name
// the line and the cell.
func ReadCSV(r io.Reader) (Order, error) {
	text, err := io.ReadAll(io.LimitReader(r, MaxFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > MaxFile:
		return nil, fmt.Errorf("is larger than %d MiB, the limit for a schedule file", MaxFile>>20)
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // spreadsheets write a byte order mark
	if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
		return nil, errors.New("is not text in UTF-8; one line per rank is needed, such as 0F0,0F1,0B0,0B1")
	}
	var order Order
	legacy := bytes.Contains(text, []byte("BW")) && legacyFile.Match(text)
	for line := range strings.Lines(string(text)) {
		var actions []Action
		for c, cell := range strings.Split(line, ",") {
			cell = strings.TrimSpace(cell)
			if cell == "" {
				continue
			}
			if legacy {
				cell = modernize(cell)
			}
			some, err := ParseCell(cell)
			if err != nil {
				return nil, fmt.Errorf("line %d, cell %d: %w", len(order)+1, c+1, err)
			}
			actions = append(actions, some...)
		}
		order = append(order, actions)
	}
	if len(order) == 0 {
		return nil, fmt.Errorf("the schedule is empty: one line per rank is needed, such as 0F0,0F1,0B0,0B1")
	}
	return order, nil
}

var (
	legacyFile = regexp.MustCompile(`(?m)(?:^|,)\s*[0-9]+BW[0-9]`)
	legacyCell = regexp.MustCompile(`^([0-9]+)(BW|B)([0-9]+)$`)
)

// modernize translates a cell from before November 2024 to today's notation: BW to B,
// and B to I.
func modernize(cell string) string {
	m := legacyCell.FindStringSubmatch(cell)
	switch {
	case m == nil:
		return cell
	case m[2] == "BW":
		return m[1] + graph.Backward.String() + m[3]
	}
	return m[1] + graph.InputGradient.String() + m[3]
}

var actionPattern = regexp.MustCompile(`^([0-9]+)([A-Z_]+)([0-9]*)$`)

// ParseAction reads one action, such as 2F0 or 1SEND_F0.
func ParseAction(s string) (Action, error) {
	const legal = "an action is <stage><F, B, I or W><microbatch>, such as 2F0, " +
		"or a SEND_F, RECV_F, WAIT_SEND_F, SEND_B, RECV_B or WAIT_SEND_B of that form; " +
		"<stage>UNSHARD, RESHARD, REDUCE_GRAD and WAIT_REDUCE_GRAD have no microbatch"
	m := actionPattern.FindStringSubmatch(s)
	if m == nil {
		return Action{}, fmt.Errorf("%q is not an action; %s", clip(s), legal)
	}
	kind, err := graph.ParseKind(m[2])
	switch {
	case err != nil || !isWritten(kind):
		return Action{}, fmt.Errorf("%q has the kind %s; %s", clip(s), clip(m[2]), legal)
	case isSharding(kind) && m[3] != "":
		return Action{}, fmt.Errorf("%q has a microbatch: a %s is for a whole stage, such as %s%s",
			clip(s), kind, clip(m[1]), kind)
	case m[3] == "" && !isSharding(kind):
		return Action{}, fmt.Errorf("%q has no microbatch; %s", clip(s), legal)
	}
	stage, err := strconv.ParseInt(m[1], 10, 32)
	if err != nil {
		return Action{}, fmt.Errorf("%q: stage %s is too large", clip(s), clip(m[1]))
	}
	microbatch := int64(graph.None)
	if m[3] != "" {
		if microbatch, err = strconv.ParseInt(m[3], 10, 32); err != nil {
			return Action{}, fmt.Errorf("%q: microbatch %s is too large", clip(s), clip(m[3]))
		}
	}
	return Action{Kind: kind, Stage: int32(stage), Microbatch: int32(microbatch)}, nil
}

// clip shortens a text from a file, which may be anything, for an error message.
func clip(s string) string {
	const most = 48
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
