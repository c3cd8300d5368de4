package search

import (
	"fmt"
	"strings"

	"psim/internal/units"
)

// A model is a problem as a mixed-integer program. A variable holds the start time of
// every task. One of two tasks on a rank comes first; where this is open, a binary
// variable says which. Each rank starts as soon as its first input arrives, as it does
// when the order runs, and spans end with the last W.
type model struct {
	*problem
	foundOrder sequences // the order that Find has found
	span       int64     // of foundOrder
	bound      int64
	unit       int64 // all times are multiples of it
	head       []int64
	out        strings.Builder
}

// A task is one pass of a rank.
type task struct {
	k    op
	r, m int
}

func newModel(q *problem, found Solution) *model {
	m := &model{
		problem: q, span: int64(found.Span), bound: int64(found.LowerBound),
		foundOrder: q.sequences(found.Order), head: make([]int64, q.p),
	}
	for _, times := range append(q.time[:], q.latency) {
		for _, t := range times {
			m.unit = units.CommonDivisor(m.unit, t)
		}
	}
	m.unit = max(1, m.unit)
	for r := 1; r < q.p; r++ {
		m.head[r] = m.head[r-1] + q.time[opF][(r-1)*q.m] + q.latency[r-1]
	}
	return m
}

// choices counts the binary variables.
func (m *model) choices() int { return 3 * m.p * m.m * (m.m - 1) / 2 }

// tasks lists the passes of a rank.
func (m *model) tasks(r int) []task {
	var list []task
	for k := range opW + 1 {
		for i := range m.m {
			list = append(list, task{k, r, i})
		}
	}
	return list
}

// settled says whether the order of two tasks is fixed in advance.
type settled int

const (
	open settled = iota
	yes          // a comes before b
	no           // b comes before a
)

// before names the variable that is 1 if a comes before b, both on one rank. The name is
// empty if the order is settled, or if the variable belongs to the reverse order.
func (m *model) before(a, b task) (name string, fixed settled) {
	switch {
	case a.k == b.k && a.m < b.m, a.k < b.k && a.m <= b.m:
		return "", yes
	case a.k == b.k, a.k > b.k && a.m >= b.m:
		return "", no
	case a.k > b.k: // a later pass of an earlier microbatch
		return fmt.Sprintf("y%d_%d%d_%d_%d", a.r, a.k, b.k, a.m, b.m), open
	}
	return "", open
}

func (t task) name() string { return fmt.Sprintf("t%d_%d_%d", t.k, t.r, t.m) }

func (m *model) time(t task) int64 { return m.problem.time[t.k][t.r*m.m+t.m] / m.unit }

// text writes the program in the LP format.
func (m *model) text() string {
	m.out.Reset()
	m.line("Minimize\n span: S\nSubject To\n")
	for r := range m.p {
		m.spans(r)
		m.dependencies(r)
		m.exclusions(r)
		if m.limit[r] < unlimited {
			m.memory(r)
		}
	}
	m.line("Bounds\n %d <= S <= %d\n", (m.bound+m.unit-1)/m.unit, m.span/m.unit)
	for r := range m.p {
		m.line(" %s = %d\n", task{opF, r, 0}.name(), m.head[r]/m.unit)
	}
	m.line("Binaries\n")
	m.eachChoice(func(name string, _, _ task) { m.line(" %s\n", name) })
	m.line("End\n")
	return m.out.String()
}

func (m *model) line(format string, args ...any) { fmt.Fprintf(&m.out, format, args...) }

// spans writes that S is at least the span of a rank.
func (m *model) spans(r int) {
	last := task{opW, r, m.m - 1}
	m.line(" S - %s >= %d\n", last.name(), m.time(last)-m.head[r]/m.unit)
}

// dependencies writes that every pass of a rank starts after the passes that it needs.
func (m *model) dependencies(r int) {
	after := func(b, a task, latency int64) {
		m.line(" %s - %s >= %d\n", b.name(), a.name(), m.time(a)+latency/m.unit)
	}
	for i := range m.m {
		f, in, w := task{opF, r, i}, task{opI, r, i}, task{opW, r, i}
		after(in, f, 0)
		after(w, in, 0)
		if r < m.p-1 {
			after(task{opF, r + 1, i}, f, m.latency[r])
			after(in, task{opI, r + 1, i}, m.latency[r])
		}
		for k := range opW + 1 {
			if i > 0 {
				after(task{k, r, i}, task{k, r, i - 1}, 0)
			}
		}
	}
}

// eachChoice visits all pairs of tasks whose order is open.
func (m *model) eachChoice(visit func(name string, a, b task)) {
	for r := range m.p {
		m.eachChoiceOf(r, visit)
	}
}

func (m *model) eachChoiceOf(r int, visit func(name string, a, b task)) {
	for _, a := range m.tasks(r) {
		for _, b := range m.tasks(r) {
			if name, _ := m.before(a, b); name != "" {
				visit(name, a, b)
			}
		}
	}
}

// exclusions writes that the passes of a rank do not overlap: one of two ends before the
// other starts. A pass that comes before a task also comes before the later tasks of the
// same kind.
func (m *model) exclusions(r int) {
	slack := m.span / m.unit // the largest distance between two tasks of the rank
	m.eachChoiceOf(r, func(name string, a, b task) {
		m.line(" %s - %s - %d %s >= %d\n", b.name(), a.name(), slack+m.time(a), name, -slack)
		m.line(" %s - %s + %d %s >= %d\n", a.name(), b.name(), slack+m.time(b), name, m.time(b))
		if b.m+1 < m.m {
			later, _ := m.before(a, task{b.k, r, b.m + 1})
			m.line(" %s - %s >= 0\n", later, name)
		}
		if earlier, _ := m.before(task{a.k, r, a.m - 1}, b); a.m > 0 && earlier != "" {
			m.line(" %s - %s >= 0\n", earlier, name)
		}
	})
}

// memory writes that the memory at the start of every pass, with what all earlier passes
// have left and what the pass itself takes, is within the limit.
func (m *model) memory(r int) {
	tasks := m.tasks(r)
	for _, x := range tasks {
		i := r*m.m + x.m
		level := m.start[x.k][i]
		var sum strings.Builder
		terms := 0
		for _, a := range tasks {
			net := m.net(a.k, r*m.m+a.m)
			name, fixed := m.before(a, x)
			if a == x || net == 0 || fixed == no {
				continue
			}
			if fixed == yes {
				level += net
				continue
			}
			if name == "" { // 1 − the variable of the reverse order
				level += net
				name, _ = m.before(x, a)
				net = -net
			}
			if terms++; terms%5 == 0 {
				sum.WriteString("\n")
			}
			fmt.Fprintf(&sum, " %+d %s", net, name)
		}
		if terms > 0 {
			m.line("%s <= %d\n", sum.String(), m.limit[r]-level)
		}
	}
}
