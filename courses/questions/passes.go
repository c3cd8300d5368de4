package questions

import (
	"slices"
	"time"

	"psim/schedules/graph"
)

// passes holds what a trace shows of forwards and backwards.
type passes struct {
	forward, backward time.Duration // of all
	// overlap is how long two or more ranks compute at once.
	overlap                     time.Duration
	forwardsEnd, backwardsStart time.Duration
	byRank                      [][]pass
}

type pass struct {
	kind       graph.Kind
	start, end time.Duration
}

func passesOf(t *graph.Trace) passes {
	p := passes{byRank: make([][]pass, t.Graph.Ranks())}
	for i, task := range t.Graph.Tasks() {
		span := t.Span(i)
		if !task.Kind.Pass() {
			continue
		}
		if task.Kind == graph.Forward {
			p.forward += span.Duration()
			p.forwardsEnd = max(p.forwardsEnd, span.End)
		} else {
			if p.backward == 0 || span.Start < p.backwardsStart {
				p.backwardsStart = span.Start
			}
			p.backward += span.Duration()
		}
		p.byRank[task.Rank] = append(p.byRank[task.Rank], pass{task.Kind, span.Start, span.End})
	}
	p.overlap = overlap(slices.Concat(p.byRank...))
	return p
}

// overlap returns how long two or more passes run at once.
func overlap(list []pass) (sum time.Duration) {
	type edge struct {
		at   time.Duration
		more int
	}
	var edges []edge
	for _, p := range list {
		edges = append(edges, edge{p.start, 1}, edge{p.end, -1})
	}
	slices.SortFunc(edges, func(a, b edge) int { // ends first, where another pass starts at once
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return a.more - b.more
	})
	running := 0
	for i, e := range edges {
		if running > 1 {
			sum += e.at - edges[i-1].at
		}
		running += e.more
	}
	return sum
}

// ordered reports whether forwards go down the ranks and then backwards up again.
func (p passes) ordered() bool {
	var end time.Duration
	inOrder := func(rank []pass, forward bool) bool {
		for _, x := range rank {
			if (x.kind == graph.Forward) == forward {
				if x.start < end {
					return false
				}
				end = x.end
			}
		}
		return true
	}
	for _, rank := range p.byRank {
		if !inOrder(rank, true) {
			return false
		}
	}
	for _, rank := range slices.Backward(p.byRank) {
		if !inOrder(rank, false) {
			return false
		}
	}
	return true
}

// forwardsFirst reports whether every rank does all forwards before its first backward.
func (p passes) forwardsFirst() bool {
	for _, rank := range p.byRank {
		first := slices.IndexFunc(rank, func(x pass) bool { return x.kind != graph.Forward })
		if first < 0 || slices.ContainsFunc(rank[first:], func(x pass) bool { return x.kind == graph.Forward }) {
			return false
		}
	}
	return true
}
