package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// An Invitation lets processes of this machine join a run. It is passed on as text, which must
// stay secret. The process that made it is the first.
type Invitation struct {
	Size    int
	Address string
	Token   string
	First   Member // the process that has started the others; the zero value if none has

	entrance *entrance // of the first process
	children *children
	place    *Rendezvous   // of processes that are started one by one; nil for copies
	patience time.Duration // for how long those wait for each other
}

// Invite prepares a run of several processes.
func Invite(size int) (*Invitation, error) {
	d, err := openEntrance(size, loopback)
	if err != nil {
		return nil, err
	}
	return &Invitation{Size: size, Address: d.addresses()[0], Token: d.token, entrance: d}, nil
}

// Join takes part in the run as one of the processes. It waits for all others.
func (i Invitation) Join(ctx context.Context, rank int, o Options) (*World, error) {
	ctx, cancel := o.withDeadline(ctx, i.patience)
	defer cancel()
	w, err := i.join(ctx, rank, o)
	if errors.Is(err, errLate) && rank > 0 && i.patience > 0 {
		err = fmt.Errorf("%s: something answers there, but did not let this process in within %s; "+
			"is it the first process of this run?", i.Address, i.patience)
	}
	if err != nil && rank > 0 && os.Getppid() != i.First.PID && i.First.PID > 0 {
		err = &LostError{Process: i.First}
	}
	if err != nil && i.place == nil {
		err = fmt.Errorf("process %d of %d, before the run began: %w", rank, i.Size, err)
	}
	return w, err
}

// errLate is why a run does not begin whose processes did not come in time.
var errLate = errors.New("not all processes of the run have come together")

// withDeadline bounds how long the processes of a run may take to find each other.
func (o Options) withDeadline(ctx context.Context, patience time.Duration) (context.Context, context.CancelFunc) {
	d := meetingTime
	if o.Stall > 0 {
		d = min(d, o.Stall+meetingTime/6)
	}
	if patience > 0 {
		d = patience
	}
	return context.WithTimeoutCause(ctx, d, errLate)
}

func (i Invitation) join(ctx context.Context, rank int, o Options) (w *World, err error) {
	b := i.newLobby(rank, o)
	defer func() { b.close(err) }()
	if rank == 0 {
		err = b.gather(ctx)
	} else {
		err = b.enter(ctx)
	}
	if err != nil {
		return nil, err
	}
	w = newWorld(rank, b.all, o)
	w.children, w.invited, w.apart = i.children, rank > 0 && i.place == nil, i.place != nil
	if err = b.connect(ctx, w); err != nil {
		return nil, err
	}
	return w, nil
}

// process describes this process.
func (d *entrance) process(rank int) Member {
	host, err := os.Hostname()
	if err != nil {
		host = "this machine"
	}
	return Member{Rank: rank, Host: host, PID: os.Getpid(), LocalRank: -1, Token: d.token}
}

// newWorld describes a run whose processes are not connected yet.
func newWorld(rank int, all []Member, o Options) *World {
	number(all)
	return &World{
		Rank: rank, Size: len(all), began: time.Now(), options: o, processes: all, peers: make([]peer, len(all)),
		ended: make(chan struct{}), left: make(chan struct{}), stuck: make(chan struct{}),
	}
}

// number counts the processes of every host, those aside that were told their number.
func number(all []Member) {
	taken := map[string]map[int]bool{}
	for _, m := range all {
		if taken[m.Host] == nil {
			taken[m.Host] = map[int]bool{}
		}
		taken[m.Host][m.LocalRank] = true
	}
	for k := range all {
		m, n := &all[k], 0
		for ; m.LocalRank < 0 && taken[m.Host][n]; n++ {
		}
		if m.LocalRank < 0 {
			m.LocalRank, taken[m.Host][n] = n, true
		}
	}
}

// connect dials the processes before this one, and waits for those after it, for each purpose.
func (d *entrance) connect(
	ctx context.Context, rank int, all []Member, purposes []string,
) (meshes map[string]*mesh, err error) {
	meshes = map[string]*mesh{}
	for _, p := range purposes {
		meshes[p] = &mesh{links: make([]*link, len(all))}
	}
	defer func() {
		if err != nil {
			for _, m := range meshes {
				m.Break(false)
			}
		}
	}()
	for _, to := range all[:rank] {
		for _, p := range purposes {
			if meshes[p].links[to.Rank], err = dial(ctx, to, p, rank); err != nil {
				return meshes, err
			}
		}
	}
	for range (len(all) - 1 - rank) * len(purposes) {
		a, err := d.next(ctx)
		if err != nil {
			return meshes, err
		}
		m, k := meshes[a.purpose], a.Process.Rank
		if a.refused != nil || m == nil || k <= rank || k >= len(all) || m.links[k] != nil {
			a.conn.Close()
			err := fmt.Errorf("unexpected connection: process %d connects to %s", k, a.purpose)
			return meshes, cmp.Or(a.refused, err)
		}
		m.links[k] = a.link
	}
	return meshes, nil
}

// start reads from all connections, and watches the other processes. Without a wire, messages
// go over connections of their own.
func (w *World) start(control, messages *mesh, over wire) {
	w.control, w.wire = control, over
	if over == nil {
		w.wire = messages
	}
	for k, l := range control.links {
		if l != nil {
			w.readers.Go(func() { w.listen(k, l) })
			w.readers.Go(func() { w.beats(l) })
		}
	}
	if messages != nil {
		for k, l := range messages.links {
			if l != nil {
				w.readers.Go(func() { w.collect(k, l) })
			}
		}
	}
	w.readers.Go(w.watch)
}
