package graph

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Validate reports the first way in which the graph is not well formed: a
// task of a class, or on a stream, rank, stage or group, that does not exist, a dependency on
// a task that does not exist, a message to its own rank, an impossible group, a group whose
// members do not call the same collectives in the same order. It does not find deadlocks: the
// simulator does.
func (g *Graph) Validate() error {
	for group, ranks := range g.Groups {
		if err := g.validateRanks(ranks); err != nil {
			return fmt.Errorf("group %d: %w", group, err)
		}
	}
	calls := make([]map[int32][]Task, len(g.Groups))
	for i, row := range g.Rows {
		if row.Class < 0 || int(row.Class) >= len(g.Classes) {
			return fmt.Errorf("task %d is of class %d; there are %d", i, row.Class, len(g.Classes))
		}
		t := g.Task(int32(i))
		if err := g.validateTask(int32(i)); err != nil {
			return fmt.Errorf("task %d, %s: %w", i, t, err)
		}
		if t.Kind.Collective() {
			if calls[t.Peer] == nil {
				calls[t.Peer] = map[int32][]Task{}
			}
			calls[t.Peer][t.Rank] = append(calls[t.Peer][t.Rank], t)
		}
	}
	for group, byRank := range calls {
		if err := g.validateGroup(group, byRank); err != nil {
			return err
		}
	}
	return nil
}

func (g *Graph) validateTask(i int32) error {
	t := g.Task(i)
	switch {
	case t.Kind >= Kinds:
		return errors.New("no such kind of task")
	case t.Rank < 0 || int(t.Rank) >= g.Ranks():
		return fmt.Errorf("rank %d is outside 0 to %d", t.Rank, g.Ranks()-1)
	case t.Stream < 0 || int(t.Stream) >= len(g.Streams):
		return fmt.Errorf("stream %d does not exist", t.Stream)
	case g.Streams[t.Stream].Rank != t.Rank:
		return fmt.Errorf("its stream belongs to rank %d, the task to rank %d", g.Streams[t.Stream].Rank, t.Rank)
	case t.Bytes < 0:
		return fmt.Errorf("%d bytes", t.Bytes)
	case t.Stage < None || t.Stage != None && int(t.Stage) >= g.Placement.Stages():
		return fmt.Errorf("stage %d is outside 0 to %d", t.Stage, g.Placement.Stages()-1)
	case t.Microbatch < None || t.Microbatch != None && int(t.Microbatch) >= g.Shape.Microbatches:
		return fmt.Errorf("microbatch %d is outside 0 to %d", t.Microbatch, g.Shape.Microbatches-1)
	case t.Kind.Message() && (t.Peer < 0 || int(t.Peer) >= g.Ranks() || t.Peer == t.Rank):
		return fmt.Errorf("a message from rank %d to rank %d", t.Rank, t.Peer)
	case t.Kind.Collective() && (t.Peer < 0 || int(t.Peer) >= len(g.Groups)):
		return fmt.Errorf("group %d does not exist", t.Peer)
	}
	for _, d := range g.Deps(i) {
		if d < 0 || int(d) >= g.Len() || d == i {
			return fmt.Errorf("it depends on task %d", d)
		}
	}
	return nil
}

// validateRanks checks that a group is some ranks of the graph, each once.
func (g *Graph) validateRanks(ranks []int32) error {
	if len(ranks) == 0 {
		return errors.New("it has no ranks")
	}
	seen := make(map[int32]bool, len(ranks))
	for _, r := range ranks {
		switch {
		case r < 0 || int(r) >= g.Ranks():
			return fmt.Errorf("rank %d is outside 0 to %d", r, g.Ranks()-1)
		case seen[r]:
			return fmt.Errorf("rank %d is in it twice", r)
		}
		seen[r] = true
	}
	return nil
}

// validateGroup checks that the ranks of a group, and no others, call the
// same collectives, each rank on one stream.
func (g *Graph) validateGroup(group int, byRank map[int32][]Task) error {
	ranks := g.Groups[group]
	for _, r := range slices.Sorted(maps.Keys(byRank)) {
		if !slices.Contains(ranks, r) {
			return fmt.Errorf("rank %d calls a collective of group %d, which is ranks %v", r, group, ranks)
		}
		for _, t := range byRank[r] {
			if first := byRank[r][0].Stream; t.Stream != first {
				return fmt.Errorf("group %d: rank %d calls its collectives on streams %d and %d; "+
					"their order is known on one stream only", group, r, first, t.Stream)
			}
		}
	}
	for _, r := range ranks[1:] {
		first, own := byRank[ranks[0]], byRank[r]
		if len(first) != len(own) {
			return fmt.Errorf("group %d: rank %d calls %d collectives, rank %d calls %d",
				group, ranks[0], len(first), r, len(own))
		}
		for i := range own {
			if own[i].Kind != first[i].Kind || own[i].Bytes != first[i].Bytes {
				return fmt.Errorf("group %d, collective %d: rank %d calls %s of %d bytes, rank %d calls %s of %d bytes",
					group, i, ranks[0], first[i].Kind, first[i].Bytes, r, own[i].Kind, own[i].Bytes)
			}
		}
	}
	return nil
}
