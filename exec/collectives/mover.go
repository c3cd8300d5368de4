// Package collectives runs collectives that are spelled out as moves of chunks (package
// schedules/collective) on the tensors of devices: as part of a training step ([Mover]), and
// by themselves, to time them and to check every number ([Benchmark]).
package collectives

import (
	"context"
	"fmt"
	"slices"
	"time"

	"psim/exec/backend"
	"psim/exec/kernels"
	"psim/exec/run"
	"psim/internal/fault"
	"psim/schedules/collective"
	"psim/schedules/graph"
)

// A Mover runs a collective on chunks: a Send copies chunks to the receiver's device, a Reduce
// adds them to the chunks there, and a Copy replaces these. A device takes one message at a
// time from each other device, so a Send waits until the previous message has been taken in.
type Mover struct {
	Graph *graph.Graph
	moves []collective.Move
	Ranks
	// Chunks are the chunks of every rank, nil if they are empty. What arrives goes to Into.
	// That is Chunks itself, unless arriving chunks would replace some that are still to be
	// sent.
	Chunks, Into []backend.Tensors

	sent  []backend.Tensors        // by task
	inbox map[[2]int]chan struct{} // by sender and receiver: full while a message arrives
}

// Ranks are the devices of a collective's ranks, and the arithmetic that computes on them. Both
// are nil for ranks of other processes.
type Ranks struct {
	Devices    []*backend.LocalDevice
	Arithmetic []*kernels.Arithmetic
}

// newRanks returns the ranks of some devices. Call close when done.
func newRanks(devices []*backend.LocalDevice) (r Ranks, closeAll func()) {
	r = Ranks{devices, make([]*kernels.Arithmetic, len(devices))}
	for i, d := range devices {
		if d != nil {
			r.Arithmetic[i] = kernels.NewArithmetic(d.Backend)
		}
	}
	return r, func() {
		for _, a := range r.Arithmetic {
			if a != nil {
				a.Close()
			}
		}
	}
}

// NewMover returns a mover without devices and chunks.
func NewMover(call collective.Call) (*Mover, error) {
	g, err := call.Graph()
	if err != nil {
		return nil, err
	}
	moves, err := call.Moves()
	if err != nil {
		return nil, err
	}
	c := &Mover{
		Graph: g, moves: moves,
		sent: make([]backend.Tensors, g.Len()), inbox: map[[2]int]chan struct{}{},
	}
	for _, m := range moves {
		if pair := [2]int{m.From, m.To}; c.inbox[pair] == nil {
			c.inbox[pair] = make(chan struct{}, 1)
		}
	}
	return c, nil
}

// Release frees the messages in flight when a run ended early.
func (c *Mover) Release() {
	for _, list := range c.sent {
		list.Release()
	}
}

// Do performs a task: the sending or the receiving end of a move.
func (c *Mover) Do(ctx context.Context, i int32) error {
	m := c.moves[i/2]
	inbox := c.inbox[[2]int{m.From, m.To}]
	if i%2 == 0 {
		if c.Devices[m.To] == nil { // another process unpacks it
			if fault.DamageOf(ctx) == fault.NaN {
				return backend.Spoil(c.Chunks[m.From][m.Chunk : m.Chunk+m.Count].Pointers())
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
	if err == nil && fault.DamageOf(ctx) == fault.NaN {
		err = backend.Spoil(c.Into[m.To][m.Place : m.Place+m.Count].Pointers())
	}
	return err
}

// pack makes a message to another process.
func (c *Mover) pack(i int32) ([]byte, error) {
	m := c.moves[i/2]
	return c.Chunks[m.From][m.Chunk : m.Chunk+m.Count].Pack()
}

// unpack takes in a message from another process, once the previous one has been taken in.
func (c *Mover) unpack(ctx context.Context, i int32, word []byte) (err error) {
	m := c.moves[i/2]
	select {
	case c.inbox[[2]int{m.From, m.To}] <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	c.sent[i], err = backend.Unpack(c.Devices[m.To], word)
	if err == nil && len(c.sent[i]) != m.Count {
		err = fmt.Errorf("a message of %d chunks instead of %d", len(c.sent[i]), m.Count)
	}
	return err
}

// Within returns how the collective is run by several processes: by those of a portion that
// have ranks in it.
func (c *Mover) Within(s *run.Portion, name string, owners []int) run.Options {
	if s == nil || !slices.ContainsFunc(owners, func(p int) bool { return p != s.Self }) {
		return run.Options{}
	}
	return run.Options{World: s.World, Portion: &run.Portion{
		Routes: run.NewRoutes(c.Graph, owners, s.Self), World: s.World, Name: name, Pack: c.pack, Unpack: c.unpack,
	}}
}

// send copies chunks to the receiver's device.
func (c *Mover) send(ctx context.Context, i int32, m collective.Move) (err error) {
	for _, chunk := range c.Chunks[m.From][m.Chunk : m.Chunk+m.Count] {
		var copied *backend.DeviceTensor
		if chunk != nil {
			if copied, err = chunk.Send(ctx, c.Devices[m.To]); err != nil {
				return err
			}
		}
		c.sent[i] = append(c.sent[i], copied)
	}
	if fault.DamageOf(ctx) == fault.NaN {
		return backend.Spoil(c.sent[i].Pointers())
	}
	return nil
}

// take adds the chunks that have arrived to the receiver's, or replaces these.
func (c *Mover) take(m collective.Move, list backend.Tensors) (err error) {
	for k, chunk := range list {
		own := &c.Into[m.To][m.Place+k]
		switch {
		case chunk == nil:
		case m.Adds:
			to := *own
			*own = nil
			if *own, err = c.Arithmetic[m.To].Add(to, chunk); err != nil {
				return err
			}
		default:
			(*own).Release()
			*own = chunk.Retain()
		}
	}
	return nil
}

// options returns the options of a run by itself, in which the World has the ranks.
func (c *Mover) options(o run.Options) run.Options {
	if o.World != nil {
		routes := run.NewRoutes(c.Graph, o.World.Owners(c.Graph.Ranks()), o.World.Rank)
		o.Portion = &run.Portion{
			Routes: routes, World: o.World, Name: o.World.Next(c.Graph.Name), Pack: c.pack, Unpack: c.unpack,
			Residual: make([]time.Duration, o.World.Size),
		}
	}
	return o
}

// timeSteps performs the tasks step by step in several processes. In addition to the trace it
// returns the times of messages between processes that carry nothing.
func (c *Mover) timeSteps(ctx context.Context, steps [][]int32, o run.Options) (*graph.Trace, []time.Duration, error) {
	empty := make([]time.Duration, c.Graph.Len())
	portion := *o.Portion
	portion.Name, portion.Pack, portion.Unpack = o.World.Next(c.Graph.Name), nil, nil
	options := o
	options.Portion = &portion
	trace, err := portion.InSteps(ctx, steps, func(context.Context, int32) error { return nil }, options)
	if err != nil {
		return trace, empty, err
	}
	for i := range empty {
		if t := c.Graph.Class(int32(i)); t.Kind.Message() && portion.Owners[t.Rank] != portion.Owners[t.Peer] {
			empty[i] = trace.Spans[i].Duration()
		}
	}
	trace, err = o.Portion.InSteps(ctx, steps, c.Do, o)
	return trace, empty, err
}
