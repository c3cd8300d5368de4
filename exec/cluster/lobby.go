package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"psim/internal/units"
)

// A lobby is where the processes of a run find each other. The first process has a link with
// every other one, and each of those has a link with the first. If one of them breaks, or brings
// a refusal, the run does not begin in any process.
type lobby struct {
	Invitation
	rank     int
	options  Options
	entrance *entrance
	all      []Member
	links    []*link // by process
	turned   []*link // of processes that were turned away
	signals  chan signal
	said     string // what was last reported
	wrong    error  // a process, perhaps of this run, came with another token; nil if none did
	watchers sync.WaitGroup
}

// A signal is news of a process in the lobby: it has connected with all others, or the run
// cannot begin because of it.
type signal struct {
	from int
	err  error
}

// newLobby opens the lobby of one process.
func (i Invitation) newLobby(rank int, o Options) *lobby {
	b := &lobby{
		Invitation: i, rank: rank, options: o, all: make([]Member, i.Size), links: make([]*link, i.Size),
		signals: make(chan signal, i.Size),
	}
	if rank == 0 {
		b.entrance = i.entrance
	}
	return b
}

// close ends the lobby; with an error it tells the others why.
func (b *lobby) close(err error) {
	for _, l := range append(b.links, b.turned...) {
		if l == nil {
			continue
		}
		if err != nil {
			l.finish(refusalOf(err).frame())
		}
		l.conn.Close()
	}
	b.watchers.Wait()
	if b.entrance != nil {
		b.entrance.close()
	}
}

// say reports what this process waits for.
func (b *lobby) say(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if b.options.Waiting != nil && b.place != nil && text != b.said {
		b.said = text
		b.options.Waiting(text)
	}
}

// gather waits for all other processes, and sends the list to each.
func (b *lobby) gather(ctx context.Context) error {
	b.all[0] = b.introduced(0)
	for missing := b.missing(); len(missing) > 0; missing = b.missing() {
		b.say("listening at %s for %s of %d, for %s at most",
			b.entrance.addresses()[0], processesList(missing), b.Size, b.patience)
		select {
		case from := <-b.entrance.wrong:
			b.hearWrong(from)
		case a := <-b.entrance.arrivals:
			if err := b.seat(a); err != nil {
				return err
			}
		case s := <-b.signals:
			if s.err == nil {
				s.err = fmt.Errorf("%s began before the others had come", b.all[s.from])
			}
			return s.err
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errLate) && b.patience > 0 {
				return b.entrance.blame(b.late(missing))
			}
			return b.entrance.blame(context.Cause(ctx))
		}
	}
	if err := checkLocalRanks(b.all); err != nil {
		return err
	}
	data, err := json.Marshal(b.all)
	for _, l := range b.links[1:] {
		if err == nil {
			err = l.send(frame{kind: welcome, data: data})
		}
	}
	return err
}

// hearWrong says that a process came with another token. It may be a stranger, so the others go on
// waiting; one such message is enough.
func (b *lobby) hearWrong(from net.Addr) {
	if b.wrong == nil {
		b.wrong = fmt.Errorf("a process at %s came with another token: %s", from, sameToken)
		before := b.said
		b.say("%v; listening on, for %s at most", b.wrong, b.patience)
		b.said = before
	}
}

// late says which processes did not come, and a likely reason.
func (b *lobby) late(missing []string) error {
	err := fmt.Errorf("%s of %d did not come to %s within %s",
		processesList(missing), b.Size, b.entrance.addresses()[0], b.patience)
	if b.wrong != nil {
		return &RefusedError{fmt.Sprintf("%v; %v", err, b.wrong)}
	}
	return err
}

// missing lists the processes that have not come yet.
func (b *lobby) missing() (ranks []string) {
	for k, l := range b.links[1:] {
		if l == nil {
			ranks = append(ranks, fmt.Sprint(k+1))
		}
	}
	return ranks
}

// processesList names processes by their ranks, the first of them if there are many.
func processesList(ranks []string) string {
	const most = 8
	word := "process "
	if len(ranks) > 1 {
		word = "processes "
	}
	if more := len(ranks) - most; more > 0 {
		ranks = append(slices.Clone(ranks[:most]), units.Plural(more, "other"))
	}
	return word + strings.Join(ranks, ", ")
}

// seat takes in a process that has come, or says why it was not started like the first.
func (b *lobby) seat(a arrival) error {
	who := fmt.Sprintf("process %d (pid %d on %s)", a.Process.Rank, a.Process.PID, a.Process.Host)
	k := a.Process.Rank
	switch {
	case a.refused != nil:
		a.conn.Close() // it knows already
		return &RefusedError{fmt.Sprintf("a process at %s is %v", a.conn.RemoteAddr(), a.refused)}
	case a.Process.Version != b.options.Version:
		b.turned = append(b.turned, a.link)
		return otherVersion(who, a.Process.Version, b.options.Version)
	case a.purpose != toJoin:
		a.conn.Close()
		return fmt.Errorf("unexpected connection: process %d connects to %s", k, a.purpose)
	case a.Size != b.Size:
		b.turned = append(b.turned, a.link)
		return &RefusedError{fmt.Sprintf("%s was told that %d processes take part, and the first that %d do: "+
			"give all the same --world-size or WORLD_SIZE", who, a.Size, b.Size)}
	case k < 1 || k >= b.Size || b.links[k] != nil:
		b.turned = append(b.turned, a.link)
		return &RefusedError{fmt.Sprintf("%s: its rank is taken; "+
			"give each of the %d processes a rank of its own, from 0", who, b.Size)}
	}
	b.all[k], b.links[k] = a.Process, a.link
	b.watch(k)
	return nil
}

// checkLocalRanks refuses processes of one host that were told the same LOCAL_RANK.
func checkLocalRanks(all []Member) error {
	for k, a := range all {
		for _, b := range all[:k] {
			if a.Host == b.Host && a.LocalRank == b.LocalRank && a.LocalRank >= 0 {
				return &RefusedError{fmt.Sprintf("processes %d and %d on %s both have LOCAL_RANK %d: "+
					"give each process of a machine its own, from 0", b.Rank, a.Rank, a.Host, a.LocalRank)}
			}
		}
	}
	return nil
}

// watch reads what a process in the lobby says, and notices its end.
func (b *lobby) watch(k int) {
	l, process := b.links[k], b.all[k] // as they are now, before the list is completed
	b.watchers.Go(func() {
		f, err := readFrame(l.r, longestRefusal)
		switch {
		case err == nil && f.kind == bye:
		case err == nil && f.kind == refuse:
			err = readRefusal(f.data).err()
			if usage := new(RefusedError); k > 0 && !errors.As(err, &usage) && !errors.Is(err, context.Canceled) {
				err = fmt.Errorf("%s: %w", process, err)
			}
		case b.children.interrupted():
			err = context.Canceled
		default:
			err = &LostError{Process: process, How: b.children.exitState(k)}
		}
		b.signals <- signal{k, err}
	})
}

// introduced describes this process.
func (b *lobby) introduced(rank int) Member {
	me := b.entrance.process(rank)
	me.Addresses, me.Version = b.entrance.addresses(), b.options.Version
	if b.place != nil {
		me.LocalRank = b.place.LocalRank
	}
	return me
}

// enter introduces this process to the first one, and receives the list of processes. It can be
// reached where it reaches the first one from.
func (b *lobby) enter(ctx context.Context) error {
	if err := knock(ctx, func() error { return b.present(ctx) }); err != nil {
		return err
	}
	l := b.links[0]
	b.say("waiting for the other processes at %s, for %s at most", b.Address, b.patience)
	stop := context.AfterFunc(ctx, func() { l.conn.SetReadDeadline(time.Unix(1, 0)) }) // it still tells the first why
	defer stop()
	f, err := readFrame(l.r, longestList)
	switch {
	case err != nil && ctx.Err() == nil:
		return fmt.Errorf("the first process, at %s, was lost: it ended without a message", b.Address)
	case err != nil:
		return context.Cause(ctx)
	case f.kind == refuse:
		return readRefusal(f.data).err()
	}
	if err := json.Unmarshal(f.data, &b.all); err != nil || len(b.all) != b.Size {
		return fmt.Errorf("%d processes take part, not %d", len(b.all), b.Size)
	}
	if first := b.all[0]; first.Version != b.options.Version {
		return otherVersion("this process", b.options.Version, first.Version)
	}
	b.watch(0)
	return nil
}

// present introduces this process to the first one.
func (b *lobby) present(ctx context.Context) error {
	conn, err := b.reach(ctx)
	if err != nil {
		return err
	}
	if b.entrance == nil {
		host, _, _ := net.SplitHostPort(conn.LocalAddr().String()) // the error would be one of listening, too
		b.entrance, err = openEntrance(b.Size, host)
	}
	if err != nil {
		conn.Close()
		return err
	}
	data, err := json.Marshal(greeting{b.introduced(b.rank), b.Size})
	if err != nil {
		conn.Close()
		return err
	}
	if b.links[0], err = introduce(ctx, conn, b.Token, frame{hello, toJoin, data}); err == nil {
		return nil
	}
	conn.Close()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("the first process, at %s: %w", b.Address, err)
}

// reach connects to the first process. If the processes are started one by one, it waits until
// the first one listens.
func (b *lobby) reach(ctx context.Context) (net.Conn, error) {
	for {
		conn, err := (&net.Dialer{Timeout: meetingTime / 3}).DialContext(ctx, "tcp", b.Address)
		if err == nil && conn.LocalAddr().String() == conn.RemoteAddr().String() {
			conn.Close() // where nothing listens, a port of this machine may connect to itself
			err = errors.New("nothing listens there")
		}
		if err == nil || b.patience == 0 {
			return conn, err
		}
		b.say("waiting for the first process at %s, for %s at most", b.Address, b.patience)
		select {
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errLate) {
				return nil, fmt.Errorf("the first process could not be reached within %s: %w", b.patience, err)
			}
			return nil, context.Cause(ctx)
		case <-time.After(beatInterval):
		}
	}
}

// connect connects this process with all others, and returns when all are connected.
func (b *lobby) connect(ctx context.Context, w *World) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ready := make(chan struct{})
	b.watchers.Go(func() {
		defer close(ready)
		for _, l := range b.links {
			if l == nil {
				continue
			}
			select {
			case s := <-b.signals:
				if s.err != nil {
					cancel(s.err)
					return
				}
			case <-ctx.Done():
				return
			}
		}
	})
	meshes, err := b.entrance.connect(ctx, b.rank, w.processes, []string{toControl, toWire})
	if err == nil && b.rank > 0 {
		err = b.links[0].send(frame{kind: bye})
	}
	if err == nil {
		<-ready
		err = context.Cause(ctx)
	}
	for _, l := range b.links {
		if err == nil && l != nil && b.rank == 0 {
			err = l.send(frame{kind: bye})
		}
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause // err is about connections that ctx closed
	}
	if err != nil {
		for _, m := range meshes {
			m.Break(false)
		}
		return err
	}
	w.start(meshes[toControl], meshes[toWire], nil)
	return nil
}
