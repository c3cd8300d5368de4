package cluster

import (
	"context"
	"encoding/json"
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
}

// Invite prepares a run of several processes.
func Invite(size int) (*Invitation, error) {
	d, err := openEntrance("127.0.0.1")
	if err != nil {
		return nil, err
	}
	return &Invitation{Size: size, Address: d.listener.Addr().String(), Token: d.token, entrance: d}, nil
}

// Join takes part in the run as one of the processes. It waits for all others.
func (i Invitation) Join(ctx context.Context, rank int, o Options) (*World, error) {
	ctx, cancel := o.withDeadline(ctx)
	defer cancel()
	w, err := i.join(ctx, rank, o)
	if err != nil && ctx.Err() != nil { // err is about connections that ctx closed
		err = context.Cause(ctx)
	}
	if err != nil && rank > 0 && os.Getppid() != i.First.PID && i.First.PID > 0 {
		err = &LostError{Process: i.First}
	}
	if err != nil {
		err = fmt.Errorf("process %d of %d, before the run began: %w", rank, i.Size, err)
	}
	return w, err
}

// withDeadline bounds how long the processes of a run may take to find each other.
func (o Options) withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	d := meetingTime
	if o.Stall > 0 {
		d = min(d, o.Stall+meetingTime/6)
	}
	return context.WithTimeoutCause(ctx, d, errors.New("not all processes of the run have come together"))
}

func (i Invitation) join(ctx context.Context, rank int, o Options) (*World, error) {
	d := i.entrance
	if rank > 0 {
		var err error
		if d, err = openEntrance("127.0.0.1"); err != nil {
			return nil, err
		}
	}
	defer d.close()
	me := d.process(rank)
	me.Addresses = []string{d.listener.Addr().String()}
	exchange := i.collect
	if rank > 0 {
		exchange = i.ask
	}
	all, err := exchange(ctx, me)
	if err != nil {
		return nil, err
	}
	w := newWorld(rank, all, o)
	w.children, w.invited = i.children, rank > 0
	if err := w.connect(ctx, d, nil); err != nil {
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
	return Member{Rank: rank, Host: host, PID: os.Getpid(), Token: d.token}
}

// ask introduces this process to the first one, and receives the list of processes.
func (i Invitation) ask(ctx context.Context, me Member) (all []Member, err error) {
	l, err := dial(ctx, Member{Addresses: []string{i.Address}, Token: i.Token}, toJoin, me)
	if err != nil {
		return nil, err
	}
	defer l.conn.Close()
	defer closeWhen(ctx.Done(), l.conn)()
	f, err := readFrame(l.r)
	if err == nil {
		err = json.Unmarshal(f.data, &all)
	}
	if err == nil && len(all) != i.Size {
		err = fmt.Errorf("%d processes take part, not %d", len(all), i.Size)
	}
	return all, err
}

// collect receives the introductions of all processes, and sends the list to each.
func (i Invitation) collect(ctx context.Context, me Member) ([]Member, error) {
	all, links := make([]Member, i.Size), make([]*link, i.Size)
	all[0] = me
	defer func() {
		for _, l := range links {
			if l != nil {
				l.conn.Close()
			}
		}
	}()
	for range i.Size - 1 {
		a, err := i.entrance.next(ctx)
		if err != nil {
			return nil, err
		}
		k := a.process.Rank
		if a.purpose != toJoin || k < 1 || k >= i.Size || links[k] != nil {
			a.conn.Close()
			return nil, fmt.Errorf("unexpected connection: process %d connects to %s", k, a.purpose)
		}
		all[k], links[k] = a.process, a.link
	}
	data, err := json.Marshal(all)
	for _, l := range links[1:] {
		if err == nil {
			err = l.send(frame{kind: welcome, data: data})
		}
	}
	return all, err
}

// newWorld describes a run whose processes are not connected yet.
func newWorld(rank int, all []Member, o Options) *World {
	number(all)
	return &World{
		Rank: rank, Size: len(all), began: time.Now(), options: o, processes: all, peers: make([]peer, len(all)),
		ended: make(chan struct{}), left: make(chan struct{}), stuck: make(chan struct{}),
	}
}

// connect connects this process with the others. Without a wire, messages go over connections
// of their own.
func (w *World) connect(ctx context.Context, d *entrance, over wire) error {
	purposes := []string{toControl, toWire}
	if over != nil {
		purposes = purposes[:1]
	}
	meshes, err := d.connect(ctx, w.Rank, w.processes, purposes)
	if err != nil {
		return err
	}
	w.control, w.wire = meshes[toControl], over
	if over == nil {
		w.wire = meshes[toWire]
	}
	w.start(meshes[toWire])
	return nil
}

// number counts the processes of every host.
func number(all []Member) {
	here := map[string]int{}
	for k := range all {
		all[k].LocalRank = here[all[k].Host]
		here[all[k].Host]++
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
			if meshes[p].links[to.Rank], err = dial(ctx, to, p, all[rank]); err != nil {
				return meshes, err
			}
		}
	}
	for range (len(all) - 1 - rank) * len(purposes) {
		a, err := d.next(ctx)
		if err != nil {
			return meshes, err
		}
		m, k := meshes[a.purpose], a.process.Rank
		if m == nil || k <= rank || k >= len(all) || m.links[k] != nil {
			a.conn.Close()
			return meshes, fmt.Errorf("unexpected connection: process %d connects to %s", k, a.purpose)
		}
		m.links[k] = a.link
	}
	return meshes, nil
}

// start reads from all connections, and watches the other processes.
func (w *World) start(messages *mesh) {
	for k, l := range w.control.links {
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
