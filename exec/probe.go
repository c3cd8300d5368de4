package exec

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"psim/exec/processes"
	"psim/exec/programs"
)

// A Probe is how long a fixed matrix product took on devices that all computed it
// again and again for a moment: where nothing else runs, always the same.
type Probe struct {
	// Fastest is the shortest time on any device, and Mean the longest of the
	// devices' means, in the moment in which that was least: what takes a part of the
	// cores all the time shows in every moment, a single stall in one.
	Fastest, Mean time.Duration
}

// The product takes about a millisecond on a core, and a GPU's launch is as long: a
// moment sees some dozens. On a quiet machine the first is enough.
const (
	probeSize    = 256
	probeTime    = 50 * time.Millisecond
	probeMoments = 4
	probeSteady  = 1.1 // a mean over the fastest that no other moment is tried for
)

// probe adds a probe of the devices, if that is asked for.
func (m *Measurement) probe(ctx context.Context, devices []*programs.Device, o MeasureOptions) error {
	if !o.Probe {
		return nil
	}
	p, err := NewProbe(ctx, devices, o.World)
	m.Probes = append(m.Probes, p)
	return err
}

// NewProbe probes devices, those of other processes of a World as well, which all call it.
func NewProbe(ctx context.Context, devices []*programs.Device, w *processes.World) (p Probe, err error) {
	own := slices.DeleteFunc(slices.Clone(devices), func(d *programs.Device) bool { return d == nil })
	if w == nil {
		p, err = probe(own)
	} else {
		p, err = probeTogether(ctx, own, w)
	}
	return p, duringRun(err)
}

// probeTogether probes the devices of all processes at once, and joins what they have
// shown at the first.
func probeTogether(ctx context.Context, devices []*programs.Device, w *processes.World) (p Probe, err error) {
	key := w.Next("probe")
	if err = w.Barrier(ctx, key+" begins"); err != nil {
		return p, err
	}
	if p, err = probe(devices); err != nil {
		return p, err
	}
	data, err := encode(p)
	if err != nil {
		return p, err
	}
	all, err := w.Gather(ctx, key, data)
	for _, data := range all {
		var q Probe
		if err := decode(data, &q); err != nil {
			return p, err
		}
		p = Probe{Fastest: min(p.Fastest, q.Fastest), Mean: max(p.Mean, q.Mean)}
	}
	return p, err
}

func probe(devices []*programs.Device) (p Probe, err error) {
	for range probeMoments {
		next, err := moment(devices)
		if err != nil {
			return p, err
		}
		p = p.best(next)
		if float64(p.Mean) <= probeSteady*float64(p.Fastest) {
			break
		}
	}
	return p, nil
}

// best joins what two moments have shown; the zero value has shown nothing.
func (p Probe) best(q Probe) Probe {
	if p == (Probe{}) {
		return q
	}
	return Probe{Fastest: min(p.Fastest, q.Fastest), Mean: min(p.Mean, q.Mean)}
}

// moment lets all devices compute the product at once.
func moment(devices []*programs.Device) (p Probe, err error) {
	list, errs := make([]programs.ProductTimes, len(devices)), make([]error, len(devices))
	var all sync.WaitGroup
	for i, d := range devices {
		all.Go(func() { list[i], errs[i] = d.Product(probeSize, probeTime) })
	}
	all.Wait()
	p.Fastest = slices.MinFunc(list, func(a, b programs.ProductTimes) int { return int(a.Fastest - b.Fastest) }).Fastest
	p.Mean = slices.MaxFunc(list, func(a, b programs.ProductTimes) int { return int(a.Mean - b.Mean) }).Mean
	return p, errors.Join(errs...)
}
