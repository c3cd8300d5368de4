package exec

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"psim/exec/processes"
	"psim/internal/fault"
	"psim/schedules/graph"
)

// A share is the part of a run that one of several processes has: the tasks of its
// ranks. A task ends in the process of its rank, a message in that of its receiver,
// which then sends word to all others with tasks that wait for it.
type share struct {
	*routes
	world *processes.World
	name  string // of the run, as of no other under way
	// word makes what the sender of a message tells the receiver's process, and take
	// takes it in there; nil where there is nothing to tell but that it has come.
	word func(i int32) ([]byte, error)
	take func(ctx context.Context, i int32, word []byte) error
	// residual is by how much the clocks of processes may have been wrong, at the first.
	residual []time.Duration
}

// routes say what passes between the processes of a graph's ranks, as one of them
// sees it.
type routes struct {
	graph  *graph.Graph
	me     int
	owners []int // by rank: the process that runs it
	// waiters lists, by task that ends here, the other processes that wait for it.
	waiters map[int32][]int
	// arrivals lists, by stream, the tasks of which word comes from another process.
	arrivals map[int][]int32
	// others lists, by group that this process is in, the other processes in it, and own
	// how many of its ranks are here.
	others [][]int
	own    []int
}

// newRoutes finds them for one of the processes that own the ranks.
func newRoutes(g *graph.Graph, owners []int, me int) *routes {
	x := &routes{graph: g, me: me, owners: owners, waiters: map[int32][]int{}, arrivals: map[int][]int32{}}
	here := make([]bool, g.Len()) // whether a task of this process waits for it
	for i := range int32(g.Len()) {
		at := owners[g.Class(i).Rank]
		for _, d := range g.Deps(i) {
			here[d] = here[d] || at == me
			if x.ends(d) == me && at != me && !slices.Contains(x.waiters[d], at) {
				x.waiters[d] = append(x.waiters[d], at)
			}
		}
	}
	for i := range int32(g.Len()) {
		if t := g.Class(i); x.ends(i) == me && owners[t.Rank] != me || x.ends(i) != me && here[i] {
			x.arrivals[int(t.Stream)] = append(x.arrivals[int(t.Stream)], i)
		}
	}
	for _, ranks := range g.Groups {
		var others []int
		own := 0
		for _, r := range ranks {
			switch at := owners[r]; {
			case at == me:
				own++
			case !slices.Contains(others, at):
				others = append(others, at)
			}
		}
		x.others, x.own = append(x.others, others), append(x.own, own)
	}
	return x
}

// ends returns the process in which a task ends.
func (x *routes) ends(i int32) int {
	if t := x.graph.Class(i); t.Kind.Message() {
		return x.owners[t.Peer]
	}
	return x.owners[x.graph.Class(i).Rank]
}

// begins reports whether a task begins in this process; all do where there is no other.
func (s *share) begins(i int32) bool { return s == nil || s.owners[s.graph.Class(i).Rank] == s.me }

// runs reports whether the tasks of a stream are run here, and arrives whether word of
// some comes from other processes.
func (r *runner) runs(s int) bool {
	return r.share == nil || r.share.owners[r.graph.Streams[s].Rank] == r.share.me
}

func (r *runner) arrives(s int) bool { return r.share != nil && len(r.share.arrivals[s]) > 0 }

// follows reports whether this process is not the first, and so knows its own ranks alone.
func (o RunOptions) follows() bool { return o.World != nil && o.World.Rank > 0 }

// share returns that of a run; nil where this process has all of it.
func (o RunOptions) share(g *graph.Graph) *share {
	switch {
	case o.World == nil:
		return nil
	case o.part != nil:
		return o.part
	}
	return &share{routes: newRoutes(g, o.World.Owners(g.Ranks()), o.World.Rank), world: o.World, name: o.World.Next(g.Name)}
}

// key names what is told of a task.
func (s *share) key(i int32, what string) string { return fmt.Sprint(s.name, "/", i, what) }

// handOver tells the receiver's process what a message carries, if that is another.
func (s *share) handOver(i int32, damage fault.Damage) error {
	if s.ends(i) == s.me {
		return nil
	}
	var word []byte
	if s.word != nil {
		var err error
		if word, err = s.word(i); err != nil {
			return err
		}
	}
	switch damage {
	case fault.Lost:
		return nil
	case fault.Truncated:
		word = word[:max(0, len(word)-1)]
	}
	return s.world.Send(s.ends(i), s.key(i, ""), word)
}

// ended tells everybody who waits for a task that has ended here.
func (r *runner) ended(i int32) {
	if r.share != nil {
		if r.share.ends(i) != r.share.me {
			return
		}
		r.moved()
		for _, to := range r.share.waiters[i] {
			if err := r.share.world.Send(to, r.share.key(i, " ended"), nil); err != nil {
				r.cancel(err)
				return
			}
		}
	}
	close(r.done[i])
}

// arrive waits for word of the tasks of a stream that other processes send, in order.
func (r *runner) arrive(ctx context.Context, s int) {
	for _, i := range r.share.arrivals[s] {
		if r.share.ends(i) != r.share.me {
			if _, err := r.share.world.Receive(ctx, r.share.ends(i), r.share.key(i, " ended")); err != nil {
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
		r.ended(i)
	}
}

// receive takes in a message from another process.
func (r *runner) receive(ctx context.Context, i int32) error {
	s := r.share
	word, err := s.world.Receive(ctx, s.owners[r.graph.Class(i).Rank], s.key(i, ""))
	if err != nil {
		return err
	}
	from := time.Since(r.begin)
	if s.take != nil {
		err = s.takeIn(ctx, i, word)
	}
	if err != nil && ctx.Err() == nil {
		err = &TaskError{r.graph, i, err}
	}
	r.trace.Spans[i] = graph.Span{Start: from, End: time.Since(r.begin)}
	return err
}

func (s *share) takeIn(ctx context.Context, i int32, word []byte) (err error) {
	defer caught(&err)
	return s.take(ctx, i, word)
}

// meet waits for the other processes of a group before its n-th collective.
func (r *runner) meet(ctx context.Context, group, n int) bool {
	s := r.share
	key := fmt.Sprint(s.name, "/group ", group, " ", n)
	for _, p := range s.others[group] {
		if err := s.world.Send(p, key, nil); err != nil {
			r.cancel(err)
			return false
		}
	}
	for _, p := range s.others[group] {
		if _, err := s.world.Receive(ctx, p, key); err != nil {
			r.cancel(err)
			return false
		}
	}
	return true
}

// settle takes in what tasks have sent that were performed alone, and waits until all
// processes know of their ends.
func (r *runner) settle(ctx context.Context, tasks []int32) {
	s, key := r.share, r.share.key(tasks[0], " alone")
	var ends []int
	for _, i := range tasks {
		if s.ends(i) == s.me && !s.begins(i) {
			if err := r.receive(ctx, i); err != nil {
				r.cancel(err)
				return
			}
		}
		ends = append(ends, s.ends(i))
	}
	slices.Sort(ends)
	if err := s.agree(ctx, slices.Compact(ends), key); err != nil {
		r.cancel(err)
		return
	}
	for _, i := range tasks {
		close(r.done[i])
		if t := r.graph.Class(i); !s.begins(i) {
			r.advance(int(t.Stream), int(r.head[t.Stream])+1)
		}
	}
}

// agree sends word from some processes to all, and waits for it.
func (s *share) agree(ctx context.Context, from []int, key string) error {
	for to := range s.world.Size {
		if to != s.me && slices.Contains(from, s.me) {
			if err := s.world.Send(to, key, nil); err != nil {
				return err
			}
		}
	}
	for _, k := range from {
		if k == s.me {
			continue
		}
		if _, err := s.world.Receive(ctx, k, key); err != nil {
			return err
		}
	}
	return nil
}

// failed returns what a task's error means for the run: a process that was lost, or has
// ended the run, is no fault of the task.
func (r *runner) failed(i int32, err error) error {
	var lost *processes.LostError
	var aborted *processes.AbortError
	switch {
	case errors.As(err, &lost):
		return lost
	case errors.As(err, &aborted):
		return aborted
	}
	return &TaskError{r.graph, i, err}
}

// cause returns why a run has ended early: of the loss of a process with what here
// waits for it.
func (r *runner) cause(ctx context.Context) error {
	err := context.Cause(ctx)
	var lost *processes.LostError
	if r.share == nil || r.outer != nil || !errors.As(err, &lost) {
		return err
	}
	gone := func(rank int32) bool { return r.share.owners[rank] == lost.Process.Rank }
	for _, h := range r.heads() {
		t := r.graph.Task(h.Task)
		switch {
		case h.WaitsFor != graph.None && gone(r.graph.Class(h.WaitsFor).Rank):
			return fmt.Errorf("%w; %s waits for %s", err, r.graph.Describe(h.Task), r.graph.Describe(h.WaitsFor))
		case h.WaitsFor == graph.None && t.Kind.Collective() && slices.ContainsFunc(r.graph.Groups[t.Peer], gone):
			return fmt.Errorf("%w; %s waits for the other ranks of group %v", err, r.graph.Describe(h.Task), r.graph.Groups[t.Peer])
		}
	}
	return err
}
