package picture

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"psim/internal/units"
	"psim/schedules/graph"
)

// GanttOptions are the sizes of a Gantt chart.
type GanttOptions struct {
	Width int // of a line in columns; 0 is 80
	Ranks int // the largest number of ranks to print, the first and the last; 0 is 64
}

// Gantt prints when every rank does what, with a row for each rank: F, B, I and W with the
// microbatch if it fits, and a dot where nothing runs. If all times are multiples of a time
// that is a whole number of columns, the picture is exact. If tasks are too narrow to be
// seen one by one, the letters of a row are in proportion to the time that the kinds of
// task take. Every second stage of a rank has small letters.
func Gantt(w io.Writer, t *graph.Trace, o GanttOptions) error {
	if o.Width <= 0 {
		o.Width = 80
	}
	if o.Ranks <= 0 {
		o.Ranks = 64
	}
	ranks := t.Graph.Ranks()
	prefix := len("rank ") + len(strconv.Itoa(max(0, ranks-1))) + 1
	g := &gantt{trace: t, stages: secondStages(t.Graph), prefix: prefix}
	g.scale(max(10, o.Width-g.prefix-2))
	rows := g.rows()
	out := bufio.NewWriter(w)
	head := ranks
	if ranks > o.Ranks {
		head = (o.Ranks + 1) / 2
	}
	for r := range ranks {
		if r < head || r >= ranks-(o.Ranks-head) {
			fmt.Fprintf(out, "rank %-*d|%s|\n", g.prefix-len("rank "), r, rows[r%len(rows)])
		} else if r == head {
			fmt.Fprintf(out, "%*s … %d more ranks\n", g.prefix, "", ranks-o.Ranks)
		}
	}
	g.footer(out, rows)
	return out.Flush()
}

// A gantt is a Gantt chart that is being printed.
type gantt struct {
	trace   *graph.Trace
	bars    rankBars      // of the ranks with tasks in the graph, with slices joined
	stages  []bool        // by stage: whether it is a second, fourth… stage of its rank
	prefix  int           // columns before the | that starts a row
	columns int           // columns of time
	dense   bool          // columns hold several tasks
	end     time.Duration // the end of the last task
}

// scale chooses the number of columns. Slices of a backward that are less than
// half a column apart count as one task.
func (g *gantt) scale(width int) {
	g.end = g.trace.End()
	ranks := allRanks(g.trace.Graph)
	bars := collectBars(g.trace, ranks[:len(ranks)/g.trace.Graph.Replicas()], 0, g.end).bars
	g.bars = bars.actions(g.trace.Graph, g.end/time.Duration(2*width))
	var unit time.Duration // greatest common divisor of all starts and ends of work
	longest := 1
	for r := range g.bars {
		for _, b := range g.bars[r][workLane] {
			unit = units.CommonDivisor(units.CommonDivisor(unit, b.Start), b.End)
			longest = max(longest, len(g.label(g.trace.Graph.Task(b.task))))
		}
	}
	worked := unit > 0
	unit = units.CommonDivisor(unit, g.end)
	g.columns = width
	if worked && int64(g.end/unit) <= int64(width) {
		units := int(g.end / unit)
		g.columns = units * min(width/units, longest)
	} else {
		task := typical(g.bars.durations(g.trace.Graph, workLane))
		g.dense = task > 0 && float64(task)*float64(width) < 1.5*float64(g.end)
	}
}

// secondStages marks the second, fourth… stage of every rank.
func secondStages(g *graph.Graph) []bool {
	second := make([]bool, g.Placement.Stages())
	held := map[int32]int{}
	for s, r := range g.Placement.First {
		second[s] = held[r]%2 == 1
		held[r]++
	}
	return second
}

// label names a task by a letter for its kind, and its microbatch.
func (g *gantt) label(t graph.Task) string {
	label := string(g.letter(t))
	if t.Kind.Compute() && t.Microbatch != graph.None {
		label += strconv.Itoa(int(t.Microbatch))
	}
	return label
}

func (g *gantt) letter(t graph.Task) byte {
	switch {
	case t.Kind.Compute() && t.Stage >= 0 && int(t.Stage) < len(g.stages) && g.stages[t.Stage]:
		return t.Kind.String()[0] + 'a' - 'A'
	case t.Kind.Compute():
		return t.Kind.String()[0]
	case t.Kind == graph.Optimizer:
		return 'O'
	case t.Kind == graph.Zero:
		return 'Z'
	}
	return '~'
}

// rows draws all ranks with tasks in the graph. Work hides communication.
func (g *gantt) rows() [][]byte {
	rows := make([][]byte, len(g.bars))
	for r := range rows {
		rows[r] = []byte(strings.Repeat(".", g.columns))
		columns := make([]shares, g.columns)
		for _, work := range []bool{false, true} {
			for _, bars := range g.bars[r] {
				g.draw(rows[r], columns, bars, work)
			}
		}
		if g.dense {
			diffuse(rows[r], columns)
		}
	}
	return rows
}

// draw draws the bars of a lane that are work, or the others. If the picture is dense, work
// only adds to the shares.
func (g *gantt) draw(row []byte, columns []shares, bars []bar, work bool) {
	for _, b := range bars {
		task := g.trace.Graph.Task(b.task)
		if task.Kind.Communication() == work {
			continue
		}
		from, to := g.column(b.Start), g.column(b.End)
		if g.dense && work {
			addShare(columns, strings.IndexByte(letters, g.letter(task)), from, to)
		} else if first, end := int(from+0.5), min(int(to+0.5), g.columns); first < end {
			fill(row[first:end], g.label(task))
		}
	}
}

// column converts a time to columns.
func (g *gantt) column(t time.Duration) float64 {
	return float64(t) / float64(g.end) * float64(g.columns)
}

// fill writes a label and dashes after it, or repeats the first letter if the label does
// not fit.
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

// letters are those of a row: idle time, work, and communication.
const letters = ".FBIWLfbiwlZO~"

// diffuse gives every column the letter that lags furthest behind its share of the time so
// far, so that narrow tasks appear as often as they should. The letters that are already in
// the row take the time that work does not.
func diffuse(row []byte, columns []shares) {
	var lag [len(letters)]float64
	for c := range row {
		none := strings.IndexByte(letters, row[c])
		lag[none]++
		first := 0
		for k := range len(letters) {
			share := columns[c][k]
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
	seen := string(bytes.ToUpper(bytes.Join(rows, nil)))
	var legend []string
	for _, l := range []struct{ letter, meaning string }{
		{"F", "forward"}, {"B", "backward"}, {"I", "input gradient"}, {"W", "weight gradient"},
		{"L", "loss"}, {"Z", "zero gradients"}, {"O", "optimizer"}, {"~", "communication"}, {".", "idle"},
	} {
		if strings.Contains(seen, l.letter) {
			legend = append(legend, l.letter+" "+l.meaning)
		}
	}
	fmt.Fprintf(out, "%*s%s\n", g.prefix, "", strings.Join(legend, "   "))
	if slices.Contains(g.stages, true) {
		of := "stage of a rank"
		switch graph := g.trace.Graph; {
		case !graph.Layered || graph.Shape.Ranks > 1:
		case graph.FullySharded:
			of = "layer, or layers that are gathered together"
		default:
			of = "layer"
		}
		fmt.Fprintf(out, "%*ssmall letters: every second %s\n", g.prefix, "", of)
	}
	if g.dense {
		fmt.Fprintf(out, "%*stasks are narrower than a column: letters stand for shares of time\n", g.prefix, "")
	}
}
