package reports

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"psim/internal/units"
	"psim/schedules"
)

// GanttOptions say how Gantt prints.
type GanttOptions struct {
	Width int  // of a line in columns; 0 is 80
	Ranks int  // at most so many ranks, the first and the last; 0 is 64
	Color bool // ANSI colours
}

// Gantt prints when every rank does what, a row per rank: F, B, I and W with
// the microbatch where it fits, and a dot where nothing runs. If all times are
// multiples of one that fits a whole number of columns, the picture is exact.
// If tasks are too narrow to be seen one by one, the letters of a row are in
// proportion to the time that the kinds of task take. Small letters are a
// rank's every second stage.
func Gantt(w io.Writer, t *schedules.Trace, o GanttOptions) error {
	if o.Width <= 0 {
		o.Width = 80
	}
	if o.Ranks <= 0 {
		o.Ranks = 64
	}
	ranks := t.Graph.Ranks()
	g := &gantt{trace: t, stages: secondStages(t.Graph), color: o.Color, prefix: len("rank ") + len(strconv.Itoa(max(0, ranks-1))) + 1}
	g.scale(max(10, o.Width-g.prefix-2))
	rows := g.rows(ranks)
	out := bufio.NewWriter(w)
	head := ranks
	if ranks > o.Ranks {
		head = (o.Ranks + 1) / 2
	}
	for r, row := range rows {
		if r < head || r >= ranks-(o.Ranks-head) {
			fmt.Fprintf(out, "rank %-*d|%s|\n", g.prefix-len("rank "), r, g.paint(row))
		} else if r == head {
			fmt.Fprintf(out, "%*s … %d more ranks\n", g.prefix, "", ranks-o.Ranks)
		}
	}
	g.footer(out, rows)
	return out.Flush()
}

// gantt is a Gantt in the making.
type gantt struct {
	trace   *schedules.Trace
	color   bool
	stages  []bool        // by stage: every second one of its rank
	prefix  int           // columns before the bar that starts a row
	columns int           // columns of time
	dense   bool          // columns hold several tasks
	end     time.Duration // of the last of them
}

// scale chooses the number of columns.
func (g *gantt) scale(room int) {
	g.end = g.trace.End()
	var unit time.Duration // greatest common divisor of all times of work
	var durations []time.Duration
	longest := 1
	for i := range g.trace.Graph.Tasks {
		task, span := &g.trace.Graph.Tasks[i], g.trace.Spans[i]
		if laneOf(task.Kind) != workLane || span.Start == span.End {
			continue
		}
		unit = gcd(gcd(unit, span.Start), span.End)
		longest = max(longest, len(g.label(task)))
		durations = append(durations, span.Duration())
	}
	unit = gcd(unit, g.end)
	g.columns = room
	if len(durations) > 0 && int64(g.end/unit) <= int64(room) {
		units := int(g.end / unit)
		g.columns = units * min(room/units, longest)
	} else if n := len(durations); n > 0 {
		slices.Sort(durations)
		g.dense = float64(durations[n/2])*float64(room) < 1.5*float64(g.end)
	}
}

func gcd(a, b time.Duration) time.Duration {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// secondStages marks the second, fourth… stage of every rank.
func secondStages(g *schedules.Graph) []bool {
	second := make([]bool, len(g.StageRank))
	held := map[int32]int{}
	for s, r := range g.StageRank {
		second[s] = held[r]%2 == 1
		held[r]++
	}
	return second
}

// label is a letter for the kind of task, and its microbatch.
func (g *gantt) label(t *schedules.Task) string {
	label := string(g.letter(t))
	if t.Kind.Compute() && t.Microbatch != schedules.None {
		label += strconv.Itoa(int(t.Microbatch))
	}
	return label
}

func (g *gantt) letter(t *schedules.Task) byte {
	switch {
	case t.Kind.Compute() && t.Stage >= 0 && int(t.Stage) < len(g.stages) && g.stages[t.Stage]:
		return t.Kind.String()[0] + 'a' - 'A'
	case t.Kind.Compute():
		return t.Kind.String()[0]
	case t.Kind == schedules.Optimizer:
		return 'O'
	}
	return '~'
}

// rows draws all ranks, without colour. Work hides communication.
func (g *gantt) rows(ranks int) [][]byte {
	rows := make([][]byte, ranks)
	shares := make([][]map[byte]float64, ranks)
	for r := range rows {
		rows[r] = []byte(strings.Repeat(".", g.columns))
		shares[r] = make([]map[byte]float64, g.columns)
	}
	for _, work := range []bool{false, true} {
		for i := range g.trace.Graph.Tasks {
			task, span := &g.trace.Graph.Tasks[i], g.trace.Spans[i]
			if task.Kind.Communication() == work || span.Start == span.End {
				continue
			}
			from, to := g.column(span.Start), g.column(span.End)
			if g.dense && work {
				addShare(shares[task.Rank], g.letter(task), from, to)
			} else if a, b := int(from+0.5), min(int(to+0.5), g.columns); a < b {
				fill(rows[task.Rank][a:b], g.label(task))
			}
		}
	}
	if g.dense {
		for r := range rows {
			diffuse(rows[r], shares[r])
		}
	}
	return rows
}

// column is the position of a time, in columns.
func (g *gantt) column(t time.Duration) float64 {
	return float64(t) / float64(g.end) * float64(g.columns)
}

// fill writes a label and dashes after it, or repeats the first letter where
// the label does not fit.
func fill(cells []byte, label string) {
	rest := byte('-')
	if len(label) == 1 || len(label) > len(cells) {
		label, rest = label[:1], label[0]
	}
	for i := range cells {
		cells[i] = rest
	}
	copy(cells, label)
}

// addShare adds a task to the shares of the columns that it covers.
func addShare(shares []map[byte]float64, letter byte, from, to float64) {
	for c := int(from); c < len(shares) && float64(c) < to; c++ {
		if shares[c] == nil {
			shares[c] = map[byte]float64{}
		}
		shares[c][letter] += min(to, float64(c+1)) - max(from, float64(c))
	}
}

// diffuse gives every column the letter that lags furthest behind its share of
// the time so far, so that narrow tasks appear as often as they should. What
// stands in the row already is what runs where there is no work.
func diffuse(row []byte, shares []map[byte]float64) {
	const letters = ".FBIWfbiwO~"
	var lag [len(letters)]float64
	for c := range row {
		none := strings.IndexByte(letters, row[c])
		lag[none]++
		first := 0
		for k := range len(letters) {
			share := shares[c][letters[k]]
			lag[k] += share
			lag[none] -= share
			if share > 1-1e-6 {
				clear(lag[:])
				lag[k] = 1
			}
		}
		for k := range lag {
			if lag[k] > lag[first]+1e-6 {
				first = k
			}
		}
		row[c] = letters[first]
		lag[first]--
	}
}

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

// ansi is the colour that a cell switches to; digits and dashes keep the one
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
