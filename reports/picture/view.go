package picture

import (
	"fmt"
	"slices"
	"time"

	"psim/internal/units"
	"psim/schedules/graph"
)

// A View is the part of a timeline that is shown. The zero View shows all of the time and
// all ranks; if there are many ranks, it shows those of one replica.
type View struct {
	// Ranks are the ranks to show; nil is all of them. With a Replica they are counted from
	// its first rank.
	Ranks []int
	// Replica is the replica whose ranks are shown; nil if none was asked for.
	Replica *int
	// From and To bound the time; a To of 0 is the end of the step.
	From, To time.Duration
	// Notes are remarks for the legend.
	Notes []string
}

// Check returns an error if a trace lacks the ranks, the replica or the time of the view.
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
		return fmt.Errorf("--window: begins at %s, but the step ends at %s",
			units.FormatDuration(v.From), units.FormatDuration(t.End()))
	}
	return nil
}

func isAre(n int, what string) string {
	return map[bool]string{true: "is ", false: "are "}[n == 1] + units.Plural(n, what)
}

// rows lists the ranks to show, of which it returns at most the given number, and says which
// ranks are not shown.
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
	case others == 1:
		return rows, "1 other rank is not shown"
	default:
		return rows, fmt.Sprintf("%d other ranks are not shown", others)
	}
}

// replicaNames names the replicas whose ranks are shown.
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

// window returns the time that a view shows of a trace with the given end.
func (v View) window(end time.Duration) (from, to time.Duration) {
	if v.To > 0 {
		end = min(end, v.To)
	}
	return v.From, end
}
