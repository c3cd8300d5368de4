package schedules

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// WriteCSV writes the order in PyTorch's compute-only schedule notation: a
// line per rank, a cell per action, no header, no empty cells.
func (o Order) WriteCSV(w io.Writer) error {
	out := bufio.NewWriter(w)
	for _, rank := range o {
		out.WriteString(strings.Join(Cells(rank), ","))
		out.WriteByte('\n')
	}
	return out.Flush()
}

// ReadCSV reads PyTorch's compute-only notation. Rows may differ in length
// and lines may end in CR LF; empty cells, which PyTorch writes for idle
// slots, are skipped. Errors name the line and the cell.
func ReadCSV(r io.Reader) (Order, error) {
	var order Order
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<26)
	for n := 1; lines.Scan(); n++ {
		var actions []Action
		for c, cell := range strings.Split(lines.Text(), ",") {
			cell = strings.TrimSpace(cell)
			if cell == "" {
				continue
			}
			some, err := ParseCell(cell)
			if err != nil {
				return nil, fmt.Errorf("line %d, cell %d: %w", n, c+1, err)
			}
			actions = append(actions, some...)
		}
		order = append(order, actions)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(order) == 0 {
		return nil, fmt.Errorf("the schedule is empty: one line per rank is needed, such as 0F0,0F1,0B0,0B1")
	}
	return order, nil
}

var actionPattern = regexp.MustCompile(`^([0-9]+)([A-Z_]+)([0-9]*)$`)

// ParseAction reads one compute action, such as 2F0.
func ParseAction(s string) (Action, error) {
	const legal = "a compute action is <stage><F, B, I or W><microbatch>, such as 2F0"
	m := actionPattern.FindStringSubmatch(s)
	if m == nil {
		return Action{}, fmt.Errorf("%q is not an action; %s", s, legal)
	}
	kind, err := ParseKind(m[2])
	switch {
	case m[2] == "BW":
		return Action{}, fmt.Errorf("%q is in the notation before November 2024, where BW was the full backward and B the input gradient; write B for BW and I for B", s)
	case err != nil || !kind.Compute():
		return Action{}, fmt.Errorf("%q has the kind %s; %s", s, m[2], legal)
	case m[3] == "":
		return Action{}, fmt.Errorf("%q has no microbatch; %s", s, legal)
	}
	stage, err := strconv.ParseInt(m[1], 10, 32)
	if err != nil {
		return Action{}, fmt.Errorf("%q: stage %s is too large", s, m[1])
	}
	microbatch, err := strconv.ParseInt(m[3], 10, 32)
	if err != nil {
		return Action{}, fmt.Errorf("%q: microbatch %s is too large", s, m[3])
	}
	return Action{Kind: kind, Stage: int32(stage), Microbatch: int32(microbatch)}, nil
}
