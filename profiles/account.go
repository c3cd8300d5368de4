package profiles

import (
	"cmp"
	"slices"
	"time"
)

// An edge is the start or the end of a kernel within a time.
type edge struct {
	at     int64
	change int8 // 1 at a start, −1 at an end
	class  Class
	launch int64 // of a start: when the host asked for it, or 0
}

// account splits a time of the trace by class. Every moment counts once: of kernels that run at the same time, the
// class that comes first. A moment without any is a launch if the host asked for the next kernel only after the
// device was idle, and else a wait.
func (p *RankProfile) account(from, to int64) ClassTimes {
	var times ClassTimes
	var running [classes]int
	now := from
	for _, e := range append(p.edges(from, to), edge{at: to}) {
		class := Idle
		for c, n := range running[:Launches] {
			if n > 0 {
				class = Class(c)
				break
			}
		}
		if class == Idle && e.change > 0 && e.launch > now {
			class = Launches
		}
		times[class] += time.Duration(e.at - now)
		now = e.at
		running[e.class] += int(e.change)
	}
	return times
}

// edges returns the starts and ends of kernels within a time, in order. Of those at the same moment ends come first.
func (p *RankProfile) edges(from, to int64) []edge {
	var list []edge
	add := func(start, end, launch int64, class Class) {
		if start, end = max(start, from), min(end, to); start < end {
			list = append(list, edge{start, 1, class, launch}, edge{end, -1, class, 0})
		}
	}
	for _, k := range p.kernels {
		if k.start >= to {
			break
		}
		add(k.start, k.start+k.wait, k.launch, Skew)
		add(k.start+k.wait, k.end, k.launch, k.class)
	}
	slices.SortFunc(list, func(a, b edge) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.change, b.change), cmp.Compare(a.launch, b.launch))
	})
	return list
}
