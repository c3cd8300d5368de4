package reports

import (
	"slices"
	"time"

	"psim/schedules/graph"
)

// A Group is what the ranks of one kind of group do with each other in a step: on
// the rank that takes the longest for it.
type Group struct {
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
	Group
	sent []int64
	time []time.Duration
}

// groups lists the communication of a trace by dimension and collective.
func groups(t *graph.Trace, info Info) []Group {
	var list []traffic
	find := func(dimension, collective string, ranks int) *traffic {
		i := slices.IndexFunc(list, func(x traffic) bool { return x.Dimension == dimension && x.Collective == collective })
		if i < 0 {
			i, list = len(list), append(list, traffic{
				Group: Group{Dimension: dimension, Collective: collective},
				sent:  make([]int64, t.Graph.Ranks()), time: make([]time.Duration, t.Graph.Ranks()),
			})
		}
		list[i].Ranks = max(list[i].Ranks, ranks)
		return &list[i]
	}
	add := func(x *traffic, i int, bytes int64, took time.Duration) {
		rank, n := t.Graph.Tasks[i].Rank, t.Count(i)
		x.sent[rank] += n * bytes
		x.time[rank] += time.Duration(n) * took
	}
	within := "all-reduce"
	if info.Sequence {
		within = "all-gather, reduce-scatter"
	}
	for i, inner := range t.Inner {
		if x := inner.Tensor(); x.Communication > 0 || x.SentBytes > 0 {
			add(find("tensor", within, info.TensorParallel), i, x.SentBytes, x.Communication)
		}
		if x := inner.Context; x.Communication > 0 || x.SentBytes > 0 {
			add(find("context", info.ContextCollective, info.ContextParallel), i, x.SentBytes, x.Communication)
		}
	}
	for i := range t.Graph.Tasks {
		task := &t.Graph.Tasks[i]
		switch k := task.Kind; {
		case k == graph.Send:
			add(find("collective", info.Schedule, t.Graph.Ranks()), i, task.Bytes, t.Spans[i].Duration())
		case k.Message():
			add(find("pipeline", "send", t.Graph.Shape.Ranks), i, task.Bytes, t.Spans[i].Duration())
		case k.Collective():
			add(find(t.Graph.Dimension(task), collectiveName(k), t.Graph.Members(task.Peer)), i, t.Graph.SentBytes(task), t.Spans[i].Duration())
		}
	}
	return longestOf(list)
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
func longestOf(list []traffic) (groups []Group) {
	for _, x := range list {
		most := 0
		for r := range x.time {
			if x.time[r] > x.time[most] || x.time[r] == x.time[most] && x.sent[r] > x.sent[most] {
				most = r
			}
		}
		if x.Bytes, x.Time = x.sent[most], x.time[most].Seconds(); x.Bytes > 0 || x.Time > 0 {
			groups = append(groups, x.Group)
		}
	}
	slices.SortStableFunc(groups, func(a, b Group) int {
		order := []string{"tensor", "context", "pipeline", "data", "tied", "collective"}
		return slices.Index(order, a.Dimension) - slices.Index(order, b.Dimension)
	})
	return groups
}
