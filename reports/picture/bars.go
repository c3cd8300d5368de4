package picture

import (
	"cmp"
	"slices"
	"time"

	"psim/schedules/graph"
)

// The lanes of a rank in a timeline, from the top.
const (
	workLane = iota
	messageLane
	collectiveLane
	lanes
)

// laneOf returns the lane that a kind of task is drawn in.
func laneOf(k graph.Kind) int {
	switch {
	case k.Message():
		return messageLane
	case k.Collective():
		return collectiveLane
	}
	return workLane
}

// A bar is a task that took time.
type bar struct {
	graph.Span
	kind   graph.Kind // that it is coloured as
	task   int32
	joined bool    // with the slices that follow
	cut    bool    // by the edge of the picture
	tone   float64 // how light it is drawn
}

// rankBars holds the bars of every row and lane, in order of start.
type rankBars [][lanes][]bar

// panelBars holds what a panel of a timeline shows.
type panelBars struct {
	bars  rankBars
	used  [lanes]bool
	kinds map[graph.Kind]bool
	tones *tones
}

// collectBars finds the tasks of some ranks, a row each, that took time between two
// moments.
func collectBars(t *graph.Trace, ranks []int, from, to time.Duration) panelBars {
	p := panelBars{bars: make(rankBars, len(ranks)), kinds: map[graph.Kind]bool{}, tones: newTones(t.Graph)}
	phase, rows := phases(t.Graph), map[int32]int{}
	for row, rank := range ranks {
		rows[int32(rank)] = row
	}
	for i := range int32(t.Graph.Len()) {
		task, span := t.Graph.Class(i), t.Span(i)
		shown := graph.Span{Start: max(span.Start, from), End: min(span.End, to)}
		row, ok := rows[task.Rank]
		if !ok || shown.End <= shown.Start {
			continue
		}
		lane, kind := laneOf(task.Kind), task.Kind
		if k, ok := phase[i]; ok {
			kind = k
		}
		p.bars[row][lane] = append(p.bars[row][lane], bar{Span: shown, kind: kind, tone: p.tones.of(task), task: i, cut: shown != span})
		p.used[lane], p.kinds[kind] = true, true
	}
	for r := range p.bars {
		for lane := range p.bars[r] {
			slices.SortFunc(p.bars[r][lane], func(a, b bar) int {
				return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.task, b.task))
			})
		}
	}
	if !p.used[messageLane] && !p.used[collectiveLane] {
		p.used[workLane] = true
	}
	return p
}

// phases tells to which half of a collective the sends of its steps belong, by
// what becomes of the chunk: a reduce-scatter adds it, an all-gather copies it. Where
// some ranks copy more than others, it is no all-gather, and sends stay sends.
// The k-th time that a chunk is sent to a rank it arrives there for the k-th
// time, so that this is known without dependencies too.
func phases(g *graph.Graph) map[int32]graph.Kind {
	type place struct {
		rank int32
		part uint16
	}
	arrivals, copies := map[place][]graph.Kind{}, make([]int, g.Ranks())
	for i := range int32(g.Len()) {
		switch t := g.Class(i); t.Kind {
		case graph.Reduce:
			arrivals[place{t.Rank, t.Part}] = append(arrivals[place{t.Rank, t.Part}], graph.ReduceScatter)
		case graph.Copy:
			copies[t.Rank]++
			arrivals[place{t.Rank, t.Part}] = append(arrivals[place{t.Rank, t.Part}], graph.AllGather)
		}
	}
	phase := map[int32]graph.Kind{}
	if len(copies) > 0 && slices.Min(copies) < slices.Max(copies) {
		return phase
	}
	for i := range int32(g.Len()) {
		t := g.Class(i)
		at := place{t.Peer, t.Part}
		if next := arrivals[at]; t.Kind == graph.Send && len(next) > 0 {
			phase[i], arrivals[at] = next[0], next[1:]
		}
	}
	return phase
}

// actions joins the slices of one backward into one bar, where they follow
// each other with no more than a gap between them.
func (r rankBars) actions(g *graph.Graph, gap time.Duration) rankBars {
	joined := make(rankBars, len(r))
	for rank := range r {
		for lane, bars := range r[rank] {
			var list []bar
			for _, b := range bars {
				if n := len(list); n > 0 && b.Start-list[n-1].End <= gap && sameAction(g.Task(list[n-1].task), g.Task(b.task)) {
					list[n-1].End, list[n-1].joined = max(list[n-1].End, b.End), true
				} else {
					list = append(list, b)
				}
			}
			joined[rank][lane] = list
		}
	}
	return joined
}

// sameAction reports whether two tasks are slices of one.
func sameAction(a, b graph.Task) bool {
	a.Part = b.Part
	return a.Kind.Compute() && a == b
}

// numbered reports whether people tell a task from others of its kind by a
// number: work by its microbatch, the steps of a spelled-out collective by
// their chunk.
func numbered(k graph.Kind) bool {
	return k.Compute() || k == graph.Send || k == graph.Reduce || k == graph.Copy
}

// durations lists those of the numbered tasks of a lane, the shortest first.
func (r rankBars) durations(g *graph.Graph, lane int) []time.Duration {
	var list []time.Duration
	for rank := range r {
		for _, b := range r[rank][lane] {
			if numbered(g.Class(b.task).Kind) {
				list = append(list, b.Duration())
			}
		}
	}
	slices.Sort(list)
	return list
}

// typical returns one of some sorted durations, such that all shorter ones
// together take at most half of the time, and all longer ones too.
func typical(durations []time.Duration) time.Duration {
	var total, sum float64
	for _, d := range durations {
		total += float64(d)
	}
	for _, d := range durations {
		if sum += float64(d); 2*sum > total {
			return d
		}
	}
	return 0
}

// computes reports whether a graph holds any work. A collective by itself has
// neither microbatches nor a bubble.
func computes(g *graph.Graph) bool {
	return slices.ContainsFunc(g.Classes, func(t graph.Task) bool { return t.Kind.Compute() })
}
