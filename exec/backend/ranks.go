package backend

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"psim/exec/cluster"
	"psim/internal/cores"
	"psim/internal/ram"
)

// A devicePlace counts the devices of all processes that share cores or GPUs with this one, and
// those of them that belong to processes before this one on its machine.
type devicePlace struct{ before, all int }

// A processSite tells the other processes where a process computes.
type processSite struct {
	Host    string
	Local   int // its number on the host, which orders the processes there
	Devices int
	Allowed []int // the cores that it may run on; nil if the system does not say
	Cores   int   // how many cores it may use
	Heap    int64 // bytes in use on its heap
}

// placesOf finds the places of all processes. Those of a host take its cores, or GPUs, in the
// order of their numbers there.
func placesOf(sites []processSite, o Options) []devicePlace {
	list := make([]devicePlace, len(sites))
	for k, own := range sites {
		for _, s := range sites {
			if s.Host != own.Host || o.onCores() && !slices.Equal(s.Allowed, own.Allowed) {
				continue
			}
			list[k].all += s.Devices
			if s.Local < own.Local {
				list[k].before += s.Devices
			}
		}
	}
	return list
}

// OpenedRanks are the devices of this process's ranks.
type OpenedRanks struct {
	Devices []*LocalDevice // by rank; nil for ranks of other processes
	// Comparable says whether times on the devices of all processes are comparable (see
	// Options.Comparable).
	Comparable bool
	// Cores is how many tasks of all devices can run at once; 0 is any number.
	Cores int
	// Heap is how many bytes the heaps of the other processes held before.
	Heap int64
}

// OpenRanks opens the devices of this process's ranks. Ranks is the number of ranks of the
// graph; without a World all of them belong to this process. Close the devices when done.
func OpenRanks(ctx context.Context, ranks int, o Options, w *cluster.World) (r OpenedRanks, err error) {
	if w == nil {
		devices, err := Open(ranks, o)
		comparable := o.Comparable(ranks, runtime.GOMAXPROCS(0)) && !o.sharesThreads(ranks)
		return OpenedRanks{Devices: devices, Comparable: comparable, Cores: o.Cores()}, err
	}
	if ranks < w.Size {
		return r, fmt.Errorf("%d processes for %d devices: every process needs one at least", w.Size, ranks)
	}
	begins, me := w.Divide(ranks), w.Processes()[w.Rank]
	own := processSite{
		Host: me.Host, Local: me.LocalRank, Devices: begins[w.Rank+1] - begins[w.Rank],
		Cores: runtime.GOMAXPROCS(0), Heap: ram.Heap(),
	}
	own.Allowed, _ = cores.Allowed() // nil where the system does not say
	sites, err := cluster.AllGatherValues(ctx, w, w.Next("devices"), own)
	if err != nil {
		return r, err
	}
	places := placesOf(sites, o)
	opened, err := o.openPlaced(sites[w.Rank].Devices, places[w.Rank])
	if err != nil {
		return r, err
	}
	r = OpenedRanks{Devices: make([]*LocalDevice, ranks), Comparable: true, Heap: -sites[w.Rank].Heap}
	copy(r.Devices[begins[w.Rank]:], opened)
	for k, at := range places {
		r.Comparable = r.Comparable && o.Comparable(at.all, sites[k].Cores) && !o.sharesThreads(sites[k].Devices)
		if at.before == 0 { // no process before it has the same cores
			r.Cores += o.coresOf(sites[k].Cores)
		}
		r.Heap += sites[k].Heap
	}
	return r, nil
}
