// Package collective spells ring collectives out as task graphs, chunk by chunk. A
// collective is a row of [Collectives]; graphs ([Ring.Graph]), lists, error messages
// and estimates of size follow from it.
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

	phases []phase
}

// Collectives lists the ring collectives.
func Collectives() []Collective {
	return []Collective{ringAllReduce(), ringReduceScatter(), ringAllGather()}
}

// A phase is some steps, in each of which ranks send a chunk to their neighbours,
// which take it in.
type phase struct {
	arrival graph.Kind          // what is done with a chunk that arrives
	steps   func(ranks int) int // one after another
	sends   func(ranks int) float64
	// chunk is what a rank sends at a step; not ok is nothing.
	chunk func(c Convention, ranks, rank, step int) (chunk int, ok bool)
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
	tasks := 0.
	for _, p := range c.phases {
		tasks += ends * p.sends(max(1, ranks))
	}
	return tasks
}
