// Package collective spells collectives out as task graphs, chunk by chunk: rings, trees
// and others. A collective is a row of [Collectives], which lists what every rank sends
// at every step. Graphs ([Call.Graph]), executions, lists, error messages and estimates
// of size follow from the row.
package collective

import (
	"fmt"
	"strings"

	"psim/schedules/graph"
)

// A Collective is one row of the table of collectives.
type Collective struct {
	Name, Summary string
	// Steps is the number of steps, and Sent the bytes that rank r sends: formulas in N
	// ranks and S bytes. A formula ends with the conditions under which it holds, such as
	// r<N-1. A test evaluates these strings and compares.
	Steps, Sent string
	// Result is the kind of collective that every rank has run in the end.
	Result graph.Kind
	// Algorithm is the algorithm of fused collectives that moves the same chunks, or "" if none
	// does.
	Algorithm string

	ring bool // has Conventions
	// moves counts the moves of all steps, and steps lists those of each step.
	moves func(ranks int) float64
	steps func(c Convention, ranks int) [][]Move
	// legal refuses numbers of ranks; nil refuses none.
	legal func(ranks int) error
	// whole says that the tensor is one chunk, instead of one for each rank.
	whole bool
}

// Collectives lists all collectives.
func Collectives() []Collective {
	return []Collective{
		ringAllReduce(), ringReduceScatter(), ringAllGather(), treeAllReduce(), halvingDoubling(), allToAll(),
	}
}

// A Move is a message from one rank to another at a step: Count chunks from Chunk on. On
// arrival they are added to the chunks from Place on, or replace them.
type Move struct {
	From, To            int
	Chunk, Count, Place int
	Adds                bool
}

// arrival returns the kind of task that the receiver runs.
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

// Find returns the collective with a name.
func Find(name string) (Collective, error) {
	for _, c := range Collectives() {
		if c.Name == name {
			return c, nil
		}
	}
	return Collective{}, fmt.Errorf("unknown collective %q; use one of %s", name, strings.Join(Names(), ", "))
}

// Tasks returns the number of tasks of the collective over a number of ranks.
func (c Collective) Tasks(ranks int) float64 {
	const ends = 2 // a send, and the task on arrival
	if c.moves == nil || ranks < 2 {
		return 0
	}
	return ends * c.moves(ranks)
}

// Legal returns an error if the collective cannot run over a number of ranks.
func (c Collective) Legal(ranks int) error {
	switch {
	case ranks < 1:
		return fmt.Errorf("ranks = %d: there must be at least 1", ranks)
	case ranks > 1<<14:
		return fmt.Errorf("ranks = %d: must be at most %d; a ring of more would have more than %d tasks",
			ranks, 1<<14, graph.MaxTasks/2)
	case c.legal != nil:
		return c.legal(ranks)
	}
	return nil
}

// Chunks returns the number of chunks of a tensor.
func (c Collective) Chunks(ranks int) int {
	if c.whole {
		return 1
	}
	return ranks
}
