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
	case k.Collective(), k.Staging():
		return collectiveLane
	}
	return workLane
}

// A bar is a task that took time.
type bar struct {
	graph.Span
	kind   graph.Kind // the kind whose colour it has
	task   int32
	joined bool    // it stands for several slices of a task
	cut    bool    // the edge of the picture cuts it
	tone   float64 // how light it is drawn
}

// rankBars holds the bars of every row and lane, in order of start.
type rankBars [][lanes][]bar

// panelBars holds the bars that a panel of a timeline shows.
type panelBars struct {
	bars  rankBars
	used  [lanes]bool
	kinds map[graph.Kind]bool
	tones *tones
}

// collectBars finds the tasks of some ranks, with a row for each rank, that took time
// between two moments. Rows of ranks that are alike share their bars.
func collectBars(t *graph.Trace, ranks []int, from, to time.Duration) panelBars {
	p := panelBars{bars: make(rankBars, len(ranks)), kinds: map[graph.Kind]bool{}, tones: newTones(t.Graph)}
	phase, rows := phases(t.Graph), firstRows(t.Graph, ranks)
	for i := range int32(t.Graph.Len()) {
		task := t.Graph.Class(i)
		row := rows[task.Rank]
		if row < 0 {
			continue
		}
		span := t.Span(i)
		shown := graph.Span{Start: max(span.Start, from), End: min(span.End, to)}
		if shown.End <= shown.Start {
			continue
		}
		lane, kind := laneOf(task.Kind), task.Kind
		if k, ok := phase[i]; ok {
			kind = k
		}
		b := bar{Span: shown, kind: kind, tone: p.tones.of(task), task: i, cut: shown != span}
		p.bars[row][lane] = append(p.bars[row][lane], b)
		p.used[lane], p.kinds[kind] = true, true
	}
	for r := range p.bars {
		for lane := range p.bars[r] {
			slices.SortFunc(p.bars[r][lane], func(a, b bar) int {
				return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.task, b.task))
			})
		}
	}
	for row, rank := range ranks {
		p.bars[row] = p.bars[rows[rank%len(rows)]]
	}
	if !p.used[messageLane] && !p.used[collectiveLane] {
		p.used[workLane] = true
	}
	return p
}

// firstRows returns, by rank with tasks in the graph, the first row that shows it or a rank that it
// stands for; or −1.
func firstRows(g *graph.Graph, ranks []int) []int {
	rows := slices.Repeat([]int{-1}, g.Ranks()/g.Replicas())
	for row, rank := range slices.Backward(ranks) {
		rows[rank%len(rows)] = row
	}
	return rows
}

// phases finds to which half of a collective the sends of its steps belong, by what the
// receiver does with the chunk: a reduce-scatter adds it, an all-gather copies it. If some
// ranks copy more chunks than others, the collective does not end in an all-gather, and
// sends stay sends. The k-th send of a chunk to a rank belongs to the k-th arrival there, so
// that no dependencies are needed to find it.
func phases(g *graph.Graph) map[int32]graph.Kind {
	if !slices.ContainsFunc(g.Classes, func(t graph.Task) bool { return t.Kind == graph.Send }) {
		return nil
	}
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

// actions joins the slices of a backward into one bar if they follow each other with at
// most a gap between them.
func (r rankBars) actions(g *graph.Graph, gap time.Duration) rankBars {
	joined := make(rankBars, len(r))
	for rank := range r {
		for lane, bars := range r[rank] {
			var list []bar
			for _, b := range bars {
				n := len(list)
				if n == 0 || b.Start-list[n-1].End > gap || !sameAction(g.Task(list[n-1].task), g.Task(b.task)) {
					list = append(list, b)
					continue
				}
				list[n-1].End, list[n-1].joined = max(list[n-1].End, b.End), true
			}
			joined[rank][lane] = list
		}
	}
	return joined
}

// sameAction reports whether two tasks are slices of the same pass.
func sameAction(a, b graph.Task) bool {
	a.Part = b.Part
	return a.Kind.Compute() && a == b
}

// numbered reports whether a number identifies a task among others of its kind: the
// microbatch of work, or the chunk of a step of a spelled-out collective.
func numbered(k graph.Kind) bool {
	return k.Pass() || k == graph.Send || k == graph.Reduce || k == graph.Copy
}

// durations lists the durations of the numbered tasks of a lane, the shortest first.
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

// typical returns the weighted median of some sorted durations: all shorter ones together
// take at most half of the time, and so do all longer ones.
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

// computes reports whether a graph contains computation. A collective by itself has neither
// microbatches nor a bubble.
func computes(g *graph.Graph) bool {
	return slices.ContainsFunc(g.Classes, func(t graph.Task) bool { return t.Kind.Compute() })
}
