package graph

import "time"

// Trace returns what can be said of all tasks without their times: a trace of one of
// every class from 0 to as long as it takes, and how many these are. Where one replica
// stands for all it is that one's.
func (p *Packed) Trace() *Trace {
	all := make([]int32, len(p.Classes))
	for i := range all {
		all[i] = int32(i)
	}
	t := p.trace(all)
	t.Counts = p.Counts
	return t
}

// Path returns a trace of some tasks.
func (p *Packed) Path(tasks []int32) *Trace {
	classes := make([]int32, len(tasks))
	for i, task := range tasks {
		classes[i] = p.Tasks[task].Class
	}
	t := p.trace(classes)
	for i, task := range tasks {
		start := p.Tasks[task].Start
		t.Spans[i] = Span{start, start + p.Classes[classes[i]].Busy}
		if t.Ready != nil {
			t.Ready[i] = p.Ready(task)
		}
	}
	return t
}

// trace returns a trace of a task of every class, from 0.
func (p *Packed) trace(classes []int32) *Trace {
	g := *p.Graph
	g.Tasks = make([]Task, len(classes))
	t := &Trace{Graph: &g, Spans: make([]Span, len(classes)), Persistent: p.Persistent}
	if p.Host != nil {
		t.Ready = make([]time.Duration, len(classes))
	}
	for i, class := range classes {
		g.Tasks[i], t.Spans[i].End = p.Graph.Tasks[class], p.Classes[class].Busy
		if inner := p.Costs[class].Inner; inner != nil {
			if t.Inner == nil {
				t.Inner = make([]Inner, len(classes))
			}
			t.Inner[i] = *inner
		}
	}
	return t
}

// Remembers reports whether tasks change the memory in use.
func (p *Packed) Remembers() bool {
	for i := range p.Classes {
		if c := &p.Classes[i]; p.Counts[i] > 0 && (c.AtStart != 0 || c.AtEnd != 0) {
			return true
		}
	}
	return false
}
