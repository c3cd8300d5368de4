package processes

import (
	"context"
	"encoding/json"
	"fmt"
	"net"

	"psim/exec/mpi"
)

// joinMPI takes part as what the launcher has started this process as. Messages go
// over MPI.
func (l Launcher) joinMPI(ctx context.Context, o Options) (*World, error) {
	ctx, cancel := o.patient(ctx)
	defer cancel()
	conn, err := within(ctx, mpi.Open)
	if err != nil {
		return nil, err
	}
	if conn.Size != l.Size {
		return nil, fmt.Errorf("%s has started %d processes, and MPI knows of %d: psim was built with another MPI than the one of %s, or srun needs --mpi (srun --mpi=list says which there are)", l.Name, l.Size, conn.Size, l.Name)
	}
	d, err := openDoor("")
	if err != nil {
		return nil, err
	}
	defer d.close()
	all, err := within(ctx, func() ([]Process, error) { return d.exchange(conn) })
	if err != nil {
		return nil, err
	}
	w := newWorld(conn.Rank, all, o)
	w.announced = conn.Announce
	if err := w.connect(ctx, d, conn); err != nil {
		return nil, err
	}
	conn.Start(w.deliver, w.torn)
	return w, nil
}

// within waits for what MPI does, which has no bound where a process is stopped. The caller
// ends this process if ctx ends first.
func within[T any](ctx context.Context, what func() (T, error)) (result T, err error) {
	done := make(chan struct{})
	var found T
	var failed error
	go func() {
		defer close(done)
		found, failed = what()
	}()
	select {
	case <-done:
		return found, failed
	case <-ctx.Done():
		return result, context.Cause(ctx)
	}
}

// exchange tells the others where this process can be reached, and hears where they
// can. Who is on the same host is reached there.
func (d *door) exchange(conn *mpi.Conn) (all []Process, err error) {
	me := d.process(conn.Rank)
	if me.Addresses, err = d.addresses(); err != nil {
		return nil, err
	}
	mine, err := json.Marshal(me)
	if err != nil {
		return nil, err
	}
	told, err := conn.Exchange(mine)
	if err != nil {
		return nil, err
	}
	all = make([]Process, len(told))
	for k, data := range told {
		if err := json.Unmarshal(data, &all[k]); err != nil || all[k].Rank != k {
			return nil, fmt.Errorf("process %d says %q of itself: is it another version of psim?", k, data)
		}
	}
	return all, nil
}

// addresses lists where this process can be reached: this machine's own first, which
// answers only who is here, because others do not know its token.
func (d *door) addresses() (list []string, err error) {
	_, port, err := net.SplitHostPort(d.listener.Addr().String())
	if err != nil {
		return nil, err
	}
	known, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("this machine's addresses: %w", err)
	}
	list = append(list, net.JoinHostPort("127.0.0.1", port))
	for _, a := range known {
		if ip, ok := a.(*net.IPNet); ok && !ip.IP.IsLoopback() && !ip.IP.IsLinkLocalUnicast() {
			list = append(list, net.JoinHostPort(ip.IP.String(), port))
		}
	}
	return list, nil
}
