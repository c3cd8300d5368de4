package exec

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"psim/exec/processes"
	"psim/exec/programs"
	"psim/internal/cores"
)

// A place counts the devices of the processes that share cores, or GPUs: those of
// processes before this one, and all.
type place struct{ before, all int }

// A site is what a process tells of where it computes.
type site struct {
	Host    string
	Devices int
	Allowed []int // the cores that it may run on; nil where the system does not say
	Cores   int   // how many it may use
	Heap    int64 // bytes in use on its heap
}

// placed finds the places of all processes.
func placed(sites []site, o DeviceOptions) []place {
	list := make([]place, len(sites))
	for k, own := range sites {
		for other, s := range sites {
			if s.Host != own.Host || !strings.HasPrefix(o.Backend, "xla") && !slices.Equal(s.Allowed, own.Allowed) {
				continue
			}
			list[k].all += s.Devices
			if other < k {
				list[k].before += s.Devices
			}
		}
	}
	return list
}

// A ranksOpened holds the devices of this process's ranks; those of others are nil.
type ranksOpened struct {
	devices    []*programs.Device
	comparable bool  // whether times on all are (see Comparable)
	cores      int   // how many tasks of all devices can run at once; 0 is any number
	heap       int64 // of the other processes, before
}

// OpenRanks opens the devices of this process's ranks, of so many; those of the ranks of
// other processes are nil. Without a World all are this one's. Close them when done. It
// tells whether times on all of them are comparable.
func OpenRanks(ctx context.Context, ranks int, o DeviceOptions, w *processes.World) (devices []*programs.Device, comparable bool, err error) {
	r, err := o.openRanks(ctx, ranks, w)
	return r.devices, r.comparable, err
}

// openRanks opens the devices of this process's ranks, of so many.
func (o DeviceOptions) openRanks(ctx context.Context, ranks int, w *processes.World) (r ranksOpened, err error) {
	if w == nil {
		devices, err := OpenDevices(ranks, o)
		return ranksOpened{devices, Comparable(ranks, o), o.Cores(), 0}, err
	}
	if ranks < w.Size {
		return r, fmt.Errorf("%d processes for %d devices: every process needs one at least", w.Size, ranks)
	}
	begins := w.Divide(ranks)
	sites, err := exchange(ctx, w, begins[w.Rank+1]-begins[w.Rank])
	if err != nil {
		return r, err
	}
	places := placed(sites, o)
	opened, err := o.openAt(sites[w.Rank].Devices, places[w.Rank])
	if err != nil {
		return r, err
	}
	r = ranksOpened{devices: make([]*programs.Device, ranks), comparable: true, heap: -sites[w.Rank].Heap}
	copy(r.devices[begins[w.Rank]:], opened)
	for k, at := range places {
		r.comparable = r.comparable && o.comparable(at.all, sites[k].Cores)
		if at.before == 0 { // cores that no process before it has
			r.cores += o.coresOf(sites[k].Cores)
		}
		r.heap += sites[k].Heap
	}
	return r, nil
}

// exchange tells all processes where each computes.
func exchange(ctx context.Context, w *processes.World, devices int) (sites []site, err error) {
	own := site{Host: w.Processes()[w.Rank].Host, Devices: devices, Cores: runtime.GOMAXPROCS(0), Heap: heapBytes()}
	own.Allowed, _ = cores.Allowed() // none where the system does not say
	data, err := encode(own)
	if err != nil {
		return nil, err
	}
	key := w.Next("devices")
	all, err := w.Gather(ctx, key, data)
	if err != nil {
		return nil, err
	}
	sites = make([]site, w.Size)
	for k := range all {
		if err := decode(all[k], &sites[k]); err != nil {
			return nil, fmt.Errorf("process %d tells of its devices: %w", k, err)
		}
	}
	if data, err = encode(sites); err != nil {
		return nil, err
	}
	if data, err = w.Broadcast(ctx, key, data); err == nil && w.Rank > 0 {
		err = decode(data, &sites)
	}
	return sites, err
}
