package results

import (
	"slices"
	"time"

	"psim/schedules/graph"
)

// A GroupTraffic is what the ranks of one kind of group do with each other in a step: on
// the rank that takes the longest for it.
type GroupTraffic struct {
	// What the ranks of the group have to do with each other; tied are stages that hold
	// the same parameters, collective is one by itself.
	Dimension  string  `json:"dimension" oneof:"tensor,context,expert,pipeline,data,expert-data,tied,collective"`
	Ranks      int     `json:"ranks"`      // of a group; devices, where a rank has several of it
	Collective string  `json:"collective"` // all-reduce, all-gather, reduce-scatter, all-to-all, broadcast or send, or the name of the one by itself
	Bytes      int64   `json:"bytes"`      // sent in a step by the rank that takes the longest
	Time       float64 `json:"time_s"`     // that this takes it, whether or not beside computation
}

// A traffic adds up to a Group, by rank.
type traffic struct {
	GroupTraffic
	sent []int64
	time []time.Duration
}

// traffics adds up those of a trace.
type traffics struct {
	trace *graph.Trace
	list  []traffic
}

// add counts a task's communication in a group of so many.
func (l *traffics) add(i int, dimension, collective string, ranks int, sent int64, took time.Duration) {
	k := slices.IndexFunc(l.list, func(x traffic) bool { return x.Dimension == dimension && x.Collective == collective })
	if k < 0 {
		all := l.trace.Graph.Ranks()
		k, l.list = len(l.list), append(l.list, traffic{GroupTraffic: GroupTraffic{Dimension: dimension, Collective: collective}, sent: make([]int64, all), time: make([]time.Duration, all)})
	}
	x, rank, n := &l.list[k], l.trace.Graph.Tasks[i].Rank, l.trace.Count(i)
	x.Ranks = max(x.Ranks, ranks)
	x.sent[rank] += n * sent
	x.time[rank] += time.Duration(n) * took
}

// within counts what a task exchanges inside its rank.
func (l *traffics) within(i int, dimension, collective string, ranks int, x graph.Within) {
	if x.Communication > 0 || x.SentBytes > 0 {
		l.add(i, dimension, collective, ranks, x.SentBytes, x.Communication)
	}
}

// groups lists the communication of a trace by dimension and collective.
func groups(t *graph.Trace, info Info) []GroupTraffic {
	l := traffics{trace: t}
	collective := "all-reduce"
	if info.Sequence {
		collective = "all-gather, reduce-scatter"
	}
	for i, inner := range t.Inner {
		l.within(i, "tensor", collective, info.TensorParallel, inner.Tensor())
		l.within(i, "context", info.ContextCollective, info.ContextParallel, inner.Context)
	}
	for i := range t.Graph.Tasks {
		task, took := &t.Graph.Tasks[i], t.Spans[i].Duration()
		switch k := task.Kind; {
		case k == graph.Send:
			l.add(i, "collective", info.Schedule, t.Graph.Ranks(), task.Bytes, took)
		case k.Message():
			l.add(i, "pipeline", "send", t.Graph.Shape.Ranks, task.Bytes, took)
		case k.Collective():
			l.add(i, t.Graph.Dimension(task), collectiveName(k), t.Graph.Members(task.Peer), t.Graph.SentBytes(task), took)
		}
	}
	return longestOf(l.list)
}

// collectiveName names a fused collective as people do.
func collectiveName(k graph.Kind) string {
	switch k {
	case graph.AllGather:
		return "all-gather"
	case graph.ReduceScatter:
		return "reduce-scatter"
	case graph.Broadcast:
		return "broadcast"
	case graph.AllToAll:
		return "all-to-all"
	}
	return "all-reduce"
}

// longestOf takes of every group the rank with the longest time, and of those the one
// that sends most.
func longestOf(list []traffic) (groups []GroupTraffic) {
	for _, x := range list {
		most := 0
		for r := range x.time {
			if x.time[r] > x.time[most] || x.time[r] == x.time[most] && x.sent[r] > x.sent[most] {
				most = r
			}
		}
		if x.Bytes, x.Time = x.sent[most], x.time[most].Seconds(); x.Bytes > 0 || x.Time > 0 {
			groups = append(groups, x.GroupTraffic)
		}
	}
	slices.SortStableFunc(groups, func(a, b GroupTraffic) int {
		order := []string{"tensor", "context", "expert", "pipeline", "data", "expert-data", "tied", "collective"}
		return slices.Index(order, a.Dimension) - slices.Index(order, b.Dimension)
	})
	return groups
}
