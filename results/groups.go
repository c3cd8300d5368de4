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

// add counts the communication of tasks that are alike, in a group of so many: what each sends, and
// the time of all.
func (l *traffics) add(tasks graph.Sum, dimension, collective string, ranks int, sent int64) {
	k := slices.IndexFunc(l.list, func(x traffic) bool { return x.Dimension == dimension && x.Collective == collective })
	if k < 0 {
		all := l.trace.Graph.Ranks()
		k, l.list = len(l.list), append(l.list, traffic{GroupTraffic: GroupTraffic{Dimension: dimension, Collective: collective}, sent: make([]int64, all), time: make([]time.Duration, all)})
	}
	x, rank := &l.list[k], tasks.Task.Rank
	x.Ranks = max(x.Ranks, ranks)
	x.sent[rank] += tasks.Count * sent
	x.time[rank] += tasks.Time
}

// within counts what tasks exchange inside their rank.
func (l *traffics) within(tasks graph.Sum, dimension, collective string, ranks int, x graph.Within) {
	if x.Communication > 0 || x.SentBytes > 0 {
		tasks.Time = time.Duration(tasks.Count) * x.Communication
		l.add(tasks, dimension, collective, ranks, x.SentBytes)
	}
}

// groups lists the communication of a trace by dimension and collective.
func groups(t *graph.Trace, info Info) []GroupTraffic {
	l := traffics{trace: t}
	collective := "all-reduce"
	if info.Sequence {
		collective = "all-gather, reduce-scatter"
	}
	sums := t.Sums()
	for _, s := range sums {
		if s.Inner != nil {
			l.within(s, "tensor", collective, info.TensorParallel, s.Inner.Tensor())
			l.within(s, "context", info.ContextCollective, info.ContextParallel, s.Inner.Context)
		}
	}
	for _, s := range sums {
		switch k := s.Task.Kind; {
		case k == graph.Send:
			l.add(s, "collective", info.Schedule, t.Graph.Ranks(), s.Task.Bytes)
		case k.Message():
			l.add(s, "pipeline", "send", t.Graph.Shape.Ranks, s.Task.Bytes)
		case k.Collective():
			l.add(s, t.Graph.Dimension(s.Task), collectiveName(k), t.Graph.Members(s.Task.Peer), t.Graph.SentBytes(s.Task))
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
