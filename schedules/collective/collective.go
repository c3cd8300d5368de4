// Package collective spells collectives out as task graphs, chunk by chunk: rings, trees
// and others. A collective is a row of [Collectives]; graphs ([Call.Graph]), executions,
// lists, error messages and estimates of size follow from it.
package collective

import (
	"fmt"
	"strings"

	"psim/schedules/graph"
)

// A Collective is one row of the table of collectives that can be spelled out.
// Graphs, lists, error messages and estimates of size follow from the row, and so
// do the tests of its formulas.
type Collective struct {
	Name, Summary string
	// Steps, and the bytes that rank r sends, are formulas in N ranks and S bytes. A
	// formula ends with the conditions that it is limited to, such as r<N-1.
	Steps, Sent string
	// Result is the kind of what every rank ends with.
	Result graph.Kind

	ring bool // Conventions differ
	// moves counts what is sent, and steps lists it, for each step in turn.
	moves func(ranks int) float64
	steps func(c Convention, ranks int) [][]Move
	// legal refuses numbers of ranks; nil refuses none.
	legal func(ranks int) error
	// whole: the tensor is one chunk, not one for each rank.
	whole bool
}

// Collectives lists them all.
func Collectives() []Collective {
	return []Collective{ringAllReduce(), ringReduceScatter(), ringAllGather(), treeAllReduce(), halvingDoubling(), allToAll()}
}

// A Move is what a rank sends to another at a step: Count chunks from Chunk on. There they
// go to Place and the chunks after it, and are added to those, or replace them.
type Move struct {
	From, To            int
	Chunk, Count, Place int
	Adds                bool
}

// arrival says what the receiver does.
func (m Move) arrival() graph.Kind {
	if m.Adds {
		return graph.Reduce
	}
	return graph.Copy
}

// Names lists the names of the collectives.
func Names() []string {
	var names []string
	for _, c := range Collectives() {
		names = append(names, c.Name)
	}
	return names
}

// Find returns the collective of that name.
func Find(name string) (Collective, error) {
	for _, c := range Collectives() {
		if c.Name == name {
			return c, nil
		}
	}
	return Collective{}, fmt.Errorf("unknown collective %q; use one of %s", name, strings.Join(Names(), ", "))
}

// Tasks is the number of tasks of the collective over so many ranks.
func (c Collective) Tasks(ranks int) float64 {
	const ends = 2 // a send, and what is done on arrival
	if c.moves == nil || ranks < 2 {
		return 0
	}
	return ends * c.moves(ranks)
}

// Legal reports whether the collective can be had over so many ranks.
func (c Collective) Legal(ranks int) error {
	switch {
	case ranks < 1:
		return fmt.Errorf("ranks = %d: there must be at least 1", ranks)
	case ranks > 1<<14:
		return fmt.Errorf("ranks = %d: must be at most %d; a ring of more would have more than %d tasks", ranks, 1<<14, graph.MaxTasks/2)
	case c.legal != nil:
		return c.legal(ranks)
	}
	return nil
}

// Chunks is the number of parts that a tensor is cut into.
func (c Collective) Chunks(ranks int) int {
	if c.whole {
		return 1
	}
	return ranks
}
