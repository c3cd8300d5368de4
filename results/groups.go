package results

import (
	"slices"
	"time"

	"psim/schedules/graph"
)

// A groupTraffic is the communication of one kind of group in a step, on the rank where it takes
// the longest.
type groupTraffic struct {
	// How the ranks of the group are related. The stages of a tied group hold the same
	// parameters; collective is a collective by itself.
	Dimension string `json:"dimension" oneof:"tensor,context,expert,pipeline,data,expert-data,tied,collective"`
	Ranks     int    `json:"ranks"` // number of ranks in a group; of devices, if a rank has several of them
	// All-reduce, all-gather, reduce-scatter, all-to-all, broadcast or send, or the name of a
	// collective by itself.
	Collective string  `json:"collective"`
	Bytes      int64   `json:"bytes"`  // bytes a step that this rank sends
	Time       float64 `json:"time_s"` // time that it takes, including communication that computation hides
}

// A traffic adds up the communication of one kind of group, by rank.
type traffic struct {
	group groupTraffic // without bytes and time
	sent  []int64
	time  []time.Duration
}

// traffics adds up the communication of a trace, by kind of group.
type traffics struct {
	trace *graph.Trace
	list  []traffic
}

// add counts the communication of equal tasks in a group: the bytes that each of them sends,
// and the time of all.
func (l *traffics) add(tasks graph.Sum, group groupTraffic, sent int64) {
	k := slices.IndexFunc(l.list, func(x traffic) bool {
		return x.group.Dimension == group.Dimension && x.group.Collective == group.Collective
	})
	if k < 0 {
		all := l.trace.Graph.Ranks()
		k, l.list = len(l.list), append(l.list, traffic{group, make([]int64, all), make([]time.Duration, all)})
	}
	x, rank := &l.list[k], tasks.Task.Rank
	x.group.Ranks = max(x.group.Ranks, group.Ranks)
	x.sent[rank] += tasks.Count * sent
	x.time[rank] += tasks.Time
}

// within counts the communication of tasks inside their rank.
func (l *traffics) within(tasks graph.Sum, group groupTraffic, x graph.Within) {
	if x.Communication > 0 || x.SentBytes > 0 {
		tasks.Time = time.Duration(tasks.Count) * x.Communication
		l.add(tasks, group, x.SentBytes)
	}
}

// groups lists the communication of a trace by dimension and collective.
func groups(t *graph.Trace, info Info) []groupTraffic {
	l := traffics{trace: t}
	tensor := groupTraffic{Dimension: "tensor", Collective: "all-reduce", Ranks: info.TensorParallel}
	if info.SequenceParallel {
		tensor.Collective = "all-gather, reduce-scatter"
	}
	context := groupTraffic{Dimension: "context", Collective: info.ContextCollective, Ranks: info.ContextParallel}
	sums := t.Sums()
	for _, s := range sums {
		if s.Inner != nil {
			l.within(s, tensor, s.Inner.Tensor())
			l.within(s, context, s.Inner.Context)
		}
	}
	for _, s := range sums {
		switch k := s.Task.Kind; {
		case k == graph.Send:
			alone := groupTraffic{Dimension: "collective", Collective: info.Schedule, Ranks: t.Graph.Ranks()}
			l.add(s, alone, s.Task.Bytes)
		case k.Message():
			pipeline := groupTraffic{Dimension: "pipeline", Collective: "send", Ranks: t.Graph.Shape.Ranks}
			l.add(s, pipeline, s.Task.Bytes)
		case k.Collective():
			group := groupTraffic{
				Dimension: t.Graph.Dimension(s.Task), Collective: collectiveName(k),
				Ranks: t.Graph.Members(s.Task.Peer),
			}
			l.add(s, group, t.Graph.SentBytes(s.Task))
		}
	}
	return longestOf(l.list)
}

// collectiveName returns the name of a fused collective in prose.
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

// longestOf picks, for every kind of group, the rank with the longest time. Of ranks with
// equal times it picks the one that sends most.
func longestOf(list []traffic) (groups []groupTraffic) {
	for _, x := range list {
		most := 0
		for r := range x.time {
			if x.time[r] > x.time[most] || x.time[r] == x.time[most] && x.sent[r] > x.sent[most] {
				most = r
			}
		}
		group := x.group
		if group.Bytes, group.Time = x.sent[most], x.time[most].Seconds(); group.Bytes > 0 || group.Time > 0 {
			groups = append(groups, group)
		}
	}
	slices.SortStableFunc(groups, func(a, b groupTraffic) int {
		order := []string{"tensor", "context", "expert", "pipeline", "data", "expert-data", "tied", "collective"}
		return slices.Index(order, a.Dimension) - slices.Index(order, b.Dimension)
	})
	return groups
}
