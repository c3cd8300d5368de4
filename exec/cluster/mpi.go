package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"slices"

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
	sites, err := exchange(ctx, conn, siteOf(conn.Rank, o.Version))
	if err != nil {
		return nil, err
	}
	if err := checkVersions(sites); err != nil {
		return nil, err
	}
	d, err := openEntrance(conn.Size, hostsFor(conn.Rank, sites, sourceTo)...)
	if err != nil {
		return nil, err
	}
	defer d.close()
	me := d.process(conn.Rank)
	me.Addresses, me.Version = d.addresses(), o.Version
	all, err := exchange(ctx, conn, me)
	if err != nil {
		return nil, err
	}
	for k, m := range all {
		if m.Rank != k {
			return nil, fmt.Errorf("process %d says that it is process %d", k, m.Rank)
		}
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

// exchange tells the others something, and learns the same of them, by rank.
func exchange[T any](ctx context.Context, conn *mpi.Conn, own T) (all []T, err error) {
	mine, err := json.Marshal(own)
	if err != nil {
		return nil, err
	}
	told, err := awaitMPI(ctx, func() ([][]byte, error) { return conn.Exchange(mine) })
	if err != nil {
		return nil, err
	}
	all = make([]T, len(told))
	for k, data := range told {
		if err := json.Unmarshal(data, &all[k]); err != nil {
			return nil, fmt.Errorf("process %d says %q of itself: is it another version of psim?", k, data)
		}
	}
	return all, nil
}

// loopback is the address at which only processes of this machine can connect.
const loopback = "127.0.0.1"

// A site says where a process runs, before it listens.
type site struct {
	Name      string
	Version   string   // of psim
	Loopback  string   // equal for processes that reach each other at the loopback address
	Addresses []string // of its machine
}

// siteOf describes where this process runs.
func siteOf(rank int, version string) site {
	me := (&entrance{}).process(rank)
	s := site{Name: me.String(), Version: version, Loopback: me.Host}
	started, err := os.ReadFile("/proc/sys/kernel/random/boot_id") // only Linux has it
	if space, err2 := os.Readlink("/proc/self/ns/net"); err == nil && err2 == nil {
		s.Loopback = string(started) + space // containers of one machine may have the same name, or share a network
	}
	known, _ := net.InterfaceAddrs() // without them, the loopback address is left
	for _, a := range known {
		if ip, ok := a.(*net.IPNet); ok && !ip.IP.IsLoopback() && !ip.IP.IsLinkLocalUnicast() {
			s.Addresses = append(s.Addresses, ip.IP.String())
		}
	}
	return s
}

// checkVersions refuses processes of another version than the first one's.
func checkVersions(sites []site) error {
	for _, s := range sites[1:] {
		if s.Version != sites[0].Version {
			return otherVersion(s.Name, s.Version, sites[0].Version)
		}
	}
	return nil
}

// hostsFor lists the addresses at which a process listens: the loopback address for those of the same
// machine, and for others the addresses from which this machine reaches theirs. source tells those.
func hostsFor(rank int, sites []site, source func(to string) string) (hosts []string) {
	own := sites[rank]
	near, far := false, false
	for k, s := range sites {
		switch {
		case k == rank:
		case s.Loopback == own.Loopback:
			near = true
		default:
			far = true
			for _, to := range s.Addresses {
				bridge := slices.Contains(own.Addresses, to) // of containers, as many machines have it
				if from := source(to); !bridge && slices.Contains(own.Addresses, from) {
					hosts = append(hosts, from)
				}
			}
		}
	}
	if far && len(hosts) == 0 {
		hosts = slices.Clone(own.Addresses) // routes say nothing
	}
	slices.Sort(hosts)
	if near || !far {
		hosts = append([]string{loopback}, hosts...)
	}
	return slices.Compact(hosts)
}

// sourceTo returns the address of this machine from which it reaches another one; "" if it does not.
// Nothing is sent.
func sourceTo(to string) string {
	conn, err := net.Dial("udp", net.JoinHostPort(to, "9"))
	if err != nil {
		return ""
	}
	defer conn.Close()
	host, _, _ := net.SplitHostPort(conn.LocalAddr().String())
	return host
}
