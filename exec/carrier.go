package exec

import (
	"context"
	"fmt"
	"slices"

	"psim/exec/programs"
	"psim/internal/fault"
	"psim/schedules/collective"
	"psim/schedules/graph"
)

// A carrier runs a spelled-out collective on chunks: a Send copies some to the receiver's
// device, a Reduce adds them to those there, a Copy replaces these. A device takes one
// message at a time from each other, so a Send waits until the one before has been taken in.
type carrier struct {
	graph      *graph.Graph
	moves      []collective.Move
	devices    []*programs.Device // by rank
	arithmetic []*programs.Arithmetic
	// chunks are those of every rank; empty ones are nil. What arrives goes to into, which
	// is the same where a rank sends nothing that something has replaced.
	chunks, into []programs.List

	sent  []programs.List          // by task
	inbox map[[2]int]chan struct{} // by sender and receiver: full while something arrives
}

func newCarrier(call collective.Call) (*carrier, error) {
	g, err := call.Graph()
	if err != nil {
		return nil, err
	}
	moves, err := call.Moves()
	if err != nil {
		return nil, err
	}
	c := &carrier{graph: g, moves: moves, sent: make([]programs.List, g.Len()), inbox: map[[2]int]chan struct{}{}}
	for _, m := range moves {
		if pair := [2]int{m.From, m.To}; c.inbox[pair] == nil {
			c.inbox[pair] = make(chan struct{}, 1)
		}
	}
	return c, nil
}

// release frees what was on its way when a run ended early.
func (c *carrier) release() {
	for _, list := range c.sent {
		list.Release()
	}
}

// do runs a task: the first end of a move, or the second.
func (c *carrier) do(ctx context.Context, i int32) error {
	m := c.moves[i/2]
	inbox := c.inbox[[2]int{m.From, m.To}]
	if i%2 == 0 {
		if c.devices[m.To] == nil { // of another process, which unpacks it
			if damaged(ctx) == fault.NaN {
				return spoil(pointers(c.chunks[m.From][m.Chunk : m.Chunk+m.Count]))
			}
			return nil
		}
		select {
		case inbox <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		return c.send(ctx, i, m)
	}
	err := c.take(m, c.sent[i-1])
	c.sent[i-1].Release()
	c.sent[i-1] = nil
	<-inbox
	if err == nil && damaged(ctx) == fault.NaN {
		err = spoil(pointers(c.into[m.To][m.Place : m.Place+m.Count]))
	}
	return err
}

// pack makes a message to another process, which unpacks it there when it has taken in the
// one before.
func (c *carrier) pack(i int32) ([]byte, error) {
	m := c.moves[i/2]
	return c.chunks[m.From][m.Chunk : m.Chunk+m.Count].Pack()
}

func (c *carrier) unpack(ctx context.Context, i int32, word []byte) (err error) {
	m := c.moves[i/2]
	select {
	case c.inbox[[2]int{m.From, m.To}] <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	c.sent[i], err = programs.Unpack(c.devices[m.To], word)
	if err == nil && len(c.sent[i]) != m.Count {
		err = fmt.Errorf("a message of %d chunks instead of %d", len(c.sent[i]), m.Count)
	}
	return err
}

// within returns how a carrier runs its collective among processes: those of a share
// that have ranks in it.
func (c *carrier) within(s *share, name string, owners []int) RunOptions {
	if s == nil || !slices.ContainsFunc(owners, func(p int) bool { return p != s.me }) {
		return RunOptions{}
	}
	return RunOptions{World: s.world, part: &share{
		routes: newRoutes(c.graph, owners, s.me), world: s.world, name: name, word: c.pack, take: c.unpack,
	}}
}

// send copies chunks to the receiver's device.
func (c *carrier) send(ctx context.Context, i int32, m collective.Move) (err error) {
	for _, chunk := range c.chunks[m.From][m.Chunk : m.Chunk+m.Count] {
		var copied *programs.Tensor
		if chunk != nil {
			if copied, err = copyWhole(ctx, chunk, c.devices[m.To]); err != nil {
				return err
			}
		}
		c.sent[i] = append(c.sent[i], copied)
	}
	if damaged(ctx) == fault.NaN {
		return spoil(pointers(c.sent[i]))
	}
	return nil
}

// take adds what has come to the receiver's chunks, or puts it in their place.
func (c *carrier) take(m collective.Move, list programs.List) (err error) {
	for k, chunk := range list {
		own := &c.into[m.To][m.Place+k]
		switch {
		case chunk == nil:
		case m.Adds:
			to := *own
			*own = nil
			if *own, err = c.arithmetic[m.To].Add(to, chunk); err != nil {
				return err
			}
		default:
			(*own).Release()
			*own = chunk.Retain()
		}
	}
	return nil
}
