package run

import (
	"context"
	"fmt"
	"slices"
	"time"

	"psim/exec/cluster"
	"psim/internal/fault"
	"psim/schedules/graph"
)

// A Portion is the part of a run that one of several processes performs: the tasks of its
// ranks. A task ends in the process of its rank, and a message in the process of its receiver.
// The process in which a task ends tells all processes whose tasks wait for it.
type Portion struct {
	*Routes
	World *cluster.World
	Name  string // of the run; no other run has it at the same time
	// Pack makes the data that a message carries to the receiver's process, and Unpack takes it
	// in there. They are nil if messages carry no data.
	Pack   func(i int32) ([]byte, error)
	Unpack func(ctx context.Context, i int32, word []byte) error
	// Residual is how far the clock of each process may have been off, at the first process.
	Residual []time.Duration
}

// Routes say which ends of tasks one process announces to the others, and which it waits for,
// when the ranks of a graph are divided among processes.
type Routes struct {
	graph  *graph.Graph
	Self   int   // this process
	Owners []int // by rank: the process that performs its tasks
	// waiters lists, for a task that ends in this process, the other processes that wait for
	// it.
	waiters map[int32][]int
	// arrivals lists, for a stream, the tasks that other processes announce to this one.
	arrivals map[int][]int32
	// others lists, for a group with ranks in this process, the other processes in it.
	// LocalRanks counts the group's ranks in this process.
	others     [][]int
	LocalRanks []int
}

// NewRoutes finds the routes of process self.
func NewRoutes(g *graph.Graph, owners []int, self int) *Routes {
	x := &Routes{graph: g, Self: self, Owners: owners, waiters: map[int32][]int{}, arrivals: map[int][]int32{}}
	awaited := make([]bool, g.Len()) // by a task of this process
	for i := range int32(g.Len()) {
		at := owners[g.Class(i).Rank]
		for _, d := range g.Deps(int32(i)) {
			awaited[d] = awaited[d] || at == self
			if x.endsIn(d) == self && at != self && !slices.Contains(x.waiters[d], at) {
				x.waiters[d] = append(x.waiters[d], at)
			}
		}
	}
	for i := range int32(g.Len()) {
		t, endsHere := g.Class(i), x.endsIn(int32(i)) == self
		if endsHere && owners[t.Rank] != self || !endsHere && awaited[i] {
			x.arrivals[int(t.Stream)] = append(x.arrivals[int(t.Stream)], int32(i))
		}
	}
	x.findGroups()
	return x
}

// findGroups finds the other processes of every group, and the ranks in this one.
func (x *Routes) findGroups() {
	for _, ranks := range x.graph.Groups {
		var others []int
		local := 0
		for _, r := range ranks {
			switch at := x.Owners[r]; {
			case at == x.Self:
				local++
			case !slices.Contains(others, at):
				others = append(others, at)
			}
		}
		x.others, x.LocalRanks = append(x.others, others), append(x.LocalRanks, local)
	}
}

// endsIn returns the process in which a task ends.
func (x *Routes) endsIn(i int32) int {
	if t := x.graph.Class(i); t.Kind.Message() {
		return x.Owners[t.Peer]
	}
	return x.Owners[x.graph.Class(i).Rank]
}

// beginsHere reports whether a task begins in this process. A nil Portion is the whole graph.
func (s *Portion) beginsHere(i int32) bool {
	return s == nil || s.Owners[s.graph.Class(i).Rank] == s.Self
}

// runsHere reports whether the tasks of a stream run in this process.
func (r *runner) runsHere(s int) bool {
	return r.portion == nil || r.portion.Owners[r.graph.Streams[s].Rank] == r.portion.Self
}

// hasArrivals reports whether other processes announce tasks of a stream.
func (r *runner) hasArrivals(s int) bool { return r.portion != nil && len(r.portion.arrivals[s]) > 0 }

// portion returns this process's portion of a run; nil where it runs the whole graph.
func (o Options) portion(g *graph.Graph) *Portion {
	switch {
	case o.World == nil:
		return nil
	case o.Portion != nil:
		return o.Portion
	}
	routes := NewRoutes(g, o.World.Owners(g.Ranks()), o.World.Rank)
	return &Portion{Routes: routes, World: o.World, Name: o.World.Next(g.Name)}
}

// key names a message between processes about a task.
func (s *Portion) key(i int32, what string) string { return fmt.Sprint(s.Name, "/", i, what) }

// sendMessage sends the data of a message to the receiver's process, if that is another one.
func (s *Portion) sendMessage(i int32, damage fault.Damage) error {
	if s.endsIn(i) == s.Self {
		return nil
	}
	var word []byte
	if s.Pack != nil {
		var err error
		if word, err = s.Pack(i); err != nil {
			return err
		}
	}
	switch damage {
	case fault.Lost:
		return nil
	case fault.Truncated:
		word = word[:max(0, len(word)-1)]
	}
	return s.World.Send(s.endsIn(i), s.key(i, ""), word)
}

// announceEnd tells all that wait for a task that it has ended in this process.
func (r *runner) announceEnd(i int32) {
	if r.portion != nil {
		if r.portion.endsIn(i) != r.portion.Self {
			return
		}
		r.noteProgress()
		for _, to := range r.portion.waiters[i] {
			if err := r.portion.World.Send(to, r.portion.key(i, " ended"), nil); err != nil {
				r.cancel(err)
				return
			}
		}
	}
	close(r.done[i])
}

// receiveAll waits, in order, for the tasks of a stream that other processes announce.
func (r *runner) receiveAll(ctx context.Context, s int) {
	for _, i := range r.portion.arrivals[s] {
		if r.portion.endsIn(i) != r.portion.Self {
			if _, err := r.portion.World.Receive(ctx, r.portion.endsIn(i), r.portion.key(i, " ended")); err != nil {
				r.cancel(err)
				return
			}
			close(r.done[i])
			continue
		}
		if err := r.receive(ctx, i); err != nil {
			r.cancel(err)
			return
		}
		r.announceEnd(i)
	}
}

// receive takes in a message from another process.
func (r *runner) receive(ctx context.Context, i int32) error {
	s := r.portion
	word, err := s.World.Receive(ctx, s.Owners[r.graph.Class(i).Rank], s.key(i, ""))
	if err != nil {
		return err
	}
	from := time.Since(r.begin)
	if s.Unpack != nil {
		err = s.unpack(ctx, i, word)
	}
	if err != nil && ctx.Err() == nil {
		err = &TaskError{r.graph, i, err}
	}
	r.trace.Spans[i] = graph.Span{Start: from, End: time.Since(r.begin)}
	return err
}

// unpack calls Unpack, and turns a panic into an error.
func (s *Portion) unpack(ctx context.Context, i int32, word []byte) (err error) {
	defer recoverAsError(&err)
	return s.Unpack(ctx, i, word)
}

// awaitGroup waits for the other processes of a group before its n-th collective. It returns
// false if the run ends first.
func (r *runner) awaitGroup(ctx context.Context, group, n int) bool {
	s := r.portion
	key := fmt.Sprint(s.Name, "/group ", group, " ", n)
	for _, p := range s.others[group] {
		if err := s.World.Send(p, key, nil); err != nil {
			r.cancel(err)
			return false
		}
	}
	for _, p := range s.others[group] {
		if _, err := s.World.Receive(ctx, p, key); err != nil {
			r.cancel(err)
			return false
		}
	}
	return true
}

// finishStep receives the messages of the tasks of a step, and waits until all processes know
// that these have ended.
func (r *runner) finishStep(ctx context.Context, tasks []int32) {
	s, key := r.portion, r.portion.key(tasks[0], " alone")
	var ends []int
	for _, i := range tasks {
		if s.endsIn(i) == s.Self && !s.beginsHere(i) {
			if err := r.receive(ctx, i); err != nil {
				r.cancel(err)
				return
			}
		}
		ends = append(ends, s.endsIn(i))
	}
	slices.Sort(ends)
	if err := s.announceEnds(ctx, slices.Compact(ends), key); err != nil {
		r.cancel(err)
		return
	}
	for _, i := range tasks {
		close(r.done[i])
		if t := r.graph.Class(i); !s.beginsHere(i) {
			r.advance(int(t.Stream), int(r.head[t.Stream])+1)
		}
	}
}

// announceEnds sends a message from some of the processes to all others, and waits for those of
// the others.
func (s *Portion) announceEnds(ctx context.Context, from []int, key string) error {
	for to := range s.World.Size {
		if to != s.Self && slices.Contains(from, s.Self) {
			if err := s.World.Send(to, key, nil); err != nil {
				return err
			}
		}
	}
	for _, k := range from {
		if k == s.Self {
			continue
		}
		if _, err := s.World.Receive(ctx, k, key); err != nil {
			return err
		}
	}
	return nil
}
