package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net"

	"psim/exec/cluster/mpi"
)

// joinMPI takes part in the run that a launcher has started this process for. Messages go over
// MPI.
func (l Launcher) joinMPI(ctx context.Context, o Options) (*World, error) {
	ctx, cancel := o.withDeadline(ctx, 0)
	defer cancel()
	conn, err := awaitMPI(ctx, mpi.Open)
	if err != nil {
		return nil, err
	}
	if conn.Size != l.Size {
		return nil, fmt.Errorf("%s has started %d processes, and MPI knows of %d: "+
			"psim was built with another MPI than the one of %s, "+
			"or srun needs --mpi (srun --mpi=list says which there are)", l.Name, l.Size, conn.Size, l.Name)
	}
	d, err := openEntrance("")
	if err != nil {
		return nil, err
	}
	defer d.close()
	all, err := awaitMPI(ctx, func() ([]Member, error) { return d.exchange(conn) })
	if err != nil {
		return nil, err
	}
	w := newWorld(conn.Rank, all, o)
	w.announced = conn.Announce
	meshes, err := d.connect(ctx, w.Rank, w.processes, []string{toControl})
	if err != nil {
		return nil, err
	}
	w.start(meshes[toControl], nil, conn)
	conn.Start(w.deliver, w.failMessages)
	return w, nil
}

// awaitMPI waits for a call of MPI, which may block for ever if a process is stopped. If ctx
// ends first, the caller ends this process.
func awaitMPI[T any](ctx context.Context, what func() (T, error)) (result T, err error) {
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

// exchange tells the others where this process can be reached, and learns where they can.
// Processes of the same host are reached there.
func (d *entrance) exchange(conn *mpi.Conn) (all []Member, err error) {
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
	all = make([]Member, len(told))
	for k, data := range told {
		if err := json.Unmarshal(data, &all[k]); err != nil || all[k].Rank != k {
			return nil, fmt.Errorf("process %d says %q of itself: is it another version of psim?", k, data)
		}
	}
	return all, nil
}

// addresses lists where this process can be reached: first the loopback address, at which only
// processes of this machine answer with the right token.
func (d *entrance) addresses() (list []string, err error) {
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
