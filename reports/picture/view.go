package picture

import (
	"fmt"
	"slices"
	"time"

	"psim/internal/units"
	"psim/schedules/graph"
)

// A View is the part of a timeline that is shown. The zero View is all of the time,
// and all ranks unless they are many: then those of one replica.
type View struct {
	// Ranks are shown, nil for all. With a Replica they count from its first.
	Ranks []int
	// Replica is the one whose ranks are shown; nil if none was asked for.
	Replica *int
	// From and To bound the time; a To of 0 is the end.
	From, To time.Duration
	// Notes are remarks for the legend.
	Notes []string
}

// Check refuses a view of what a trace does not have.
func (v View) Check(t *graph.Trace) error {
	all, replicas, first := t.Graph.Ranks(), max(1, t.Graph.Shape.Replicas), 0
	if v.Replica != nil {
		if *v.Replica < 0 || *v.Replica >= replicas {
			return fmt.Errorf("--replica %d: there %s, counted from 0", *v.Replica, isAre(replicas, "replica"))
		}
		all, first = all/replicas, *v.Replica
	}
	for _, r := range v.Ranks {
		if r < 0 || r >= all {
			where := ""
			if v.Replica != nil {
				where = fmt.Sprintf(" in replica %d", first)
			}
			return fmt.Errorf("--ranks %d: there %s%s, counted from 0", r, isAre(all, "rank"), where)
		}
	}
	if v.From >= t.End() {
		return fmt.Errorf("--window: begins at %s, but the step ends at %s", units.FormatDuration(v.From), units.FormatDuration(t.End()))
	}
	return nil
}

func isAre(n int, what string) string {
	return map[bool]string{true: "is ", false: "are "}[n == 1] + units.Plural(n, what)
}

// rows lists the ranks to show of a trace, at most so many, and says which are not.
func (v View) rows(g *graph.Graph, most int) (rows []int, hidden string) {
	const readable, sample = 16, 8
	all, replicas := g.Ranks(), max(1, g.Shape.Replicas)
	per, first, count := all/replicas, 0, all
	switch {
	case v.Replica != nil:
		first, count = *v.Replica*per, per
	case v.Ranks == nil && all > readable && per > 1 && replicas > 1:
		count = per
	case v.Ranks == nil && all > readable && replicas > 1:
		count = sample
	}
	for r := range count {
		if v.Ranks == nil || slices.Contains(v.Ranks, r) {
			rows = append(rows, first+r)
		}
	}
	whole := len(rows) == per && per > 1
	if len(rows) > most {
		rows, whole = rows[:most], false
	}
	switch others := all - len(rows); {
	case others == 0:
		return rows, ""
	case whole || per == 1:
		return rows, fmt.Sprintf("%s of %d; the others are not shown", replicaNames(rows, per), replicas)
	default:
		return rows, fmt.Sprintf("%s not shown", map[bool]string{true: "1 other rank is", false: fmt.Sprintf("%d other ranks are", others)}[others == 1])
	}
}

// replicaNames names the replicas that rows are of.
func replicaNames(rows []int, per int) string {
	first, last := rows[0]/per, rows[len(rows)-1]/per
	switch {
	case first == last:
		return fmt.Sprintf("replica %d", first)
	case last-first+1 == len(rows)/per:
		return fmt.Sprintf("replicas %d–%d", first, last)
	}
	return units.Plural(len(rows)/per, "replica")
}

// allRanks lists the ranks of a graph.
func allRanks(g *graph.Graph) []int {
	list := make([]int, g.Ranks())
	for r := range list {
		list[r] = r
	}
	return list
}

// window returns the time of a view, of a trace that ends so late.
func (v View) window(end time.Duration) (from, to time.Duration) {
	if v.To > 0 {
		end = min(end, v.To)
	}
	return v.From, end
}
