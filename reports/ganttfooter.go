package reports

import (
	"bufio"
	"fmt"
	"slices"
	"strings"

	"psim/internal/units"
)

// footer prints the time axis and the meaning of the letters.
func (g *gantt) footer(out *bufio.Writer, rows [][]byte) {
	end := units.FormatDuration(g.end)
	gap := max(1, g.columns+2-len("0")-len([]rune(end)))
	fmt.Fprintf(out, "%*s0%*s%s\n", g.prefix, "", gap, "", end)
	seen := map[byte]bool{}
	for _, row := range rows {
		for _, cell := range row {
			seen[cell] = true
		}
	}
	var legend []string
	for _, l := range []struct{ letter, meaning string }{
		{"F", "forward"}, {"B", "backward"}, {"I", "input gradient"}, {"W", "weight gradient"},
		{"O", "optimizer"}, {"~", "communication"}, {".", "idle"},
	} {
		if seen[l.letter[0]] || seen[strings.ToLower(l.letter)[0]] {
			legend = append(legend, g.paint([]byte(l.letter))+" "+l.meaning)
		}
	}
	fmt.Fprintf(out, "%*s%s\n", g.prefix, "", strings.Join(legend, "   "))
	if slices.Contains(g.stages, true) {
		fmt.Fprintf(out, "%*ssmall letters: every second stage of a rank\n", g.prefix, "")
	}
	if g.dense {
		fmt.Fprintf(out, "%*stasks are narrower than a column: letters stand for shares of time\n", g.prefix, "")
	}
}

// paint adds colours to a row, if they are wanted.
func (g *gantt) paint(row []byte) string {
	if !g.color {
		return string(row)
	}
	var b strings.Builder
	now := ""
	for _, cell := range row {
		if code, starts := ansi(cell); starts && code != now {
			b.WriteString(code)
			now = code
		}
		b.WriteByte(cell)
	}
	if now != "" {
		b.WriteString("\x1b[0m")
	}
	return b.String()
}

// ansi returns the colour that a cell switches to; digits and dashes keep the one
// before.
func ansi(cell byte) (code string, starts bool) {
	switch cell {
	case 'F', 'f':
		return "\x1b[94m", true
	case 'B', 'b', 'O':
		return "\x1b[33m", true
	case 'I', 'i':
		return "\x1b[36m", true
	case 'W', 'w':
		return "\x1b[32m", true
	case '~':
		return "\x1b[35m", true
	case '.':
		return "\x1b[90m", true
	}
	return "", false
}
