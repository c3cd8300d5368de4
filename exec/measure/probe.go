package measure

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"psim/exec/backend"
	"psim/exec/cluster"
	"psim/exec/run"
)

// A Probe is how long a fixed matrix product took on devices that all computed it again and
// again for a moment. Where nothing else runs, it always takes the same time.
type Probe struct {
	// Fastest is the shortest time on any device. Mean is the largest of the devices' means, in
	// the moment in which that was least: a program that uses cores all the time shows in every
	// moment, and a single stall in only one.
	Fastest, Mean time.Duration
}

// The product takes a good part of a millisecond on a core, so a moment has some dozens of them. On a quiet
// machine the first moment is enough.
const (
	probeTime    = 50 * time.Millisecond
	probeMoments = 4
	probeSteady  = 1.1 // no other moment is tried if the mean is at most this multiple of the fastest
)

// probeSize returns the number of rows of the matrices. XLA hands a program to a thread in 20 to 60 µs,
// which makes a small product uneven: 1.4 times its fastest in the mean, with no neighbour at all.
func probeSize(d *backend.LocalDevice) int {
	if d.Backend.Name() == "xla" {
		return 512
	}
	return 256
}

// probe adds a probe of the devices, if that is asked for.
func (m *Findings) probe(ctx context.Context, r jobRun) error {
	if !r.Probe {
		return nil
	}
	p, err := NewProbe(ctx, r.devices, r.world())
	m.Probes = append(m.Probes, p)
	return err
}

// NewProbe probes devices. Several processes of a World all call it, and probe all their
// devices at once.
func NewProbe(ctx context.Context, devices []*backend.LocalDevice, w *cluster.World) (p Probe, err error) {
	own := slices.DeleteFunc(slices.Clone(devices), func(d *backend.LocalDevice) bool { return d == nil })
	if w == nil {
		p, err = probe(own)
	} else {
		p, err = probeTogether(ctx, own, w)
	}
	return p, run.Failed(err)
}

// probeTogether probes the devices of all processes at once, and joins the results at the
// first.
func probeTogether(ctx context.Context, devices []*backend.LocalDevice, w *cluster.World) (p Probe, err error) {
	key := w.Next("probe")
	if err = w.Barrier(ctx, key+" begins"); err != nil {
		return p, err
	}
	if p, err = probe(devices); err != nil {
		return p, err
	}
	all, err := cluster.GatherValues(ctx, w, key, p)
	for _, q := range all {
		p = Probe{Fastest: min(p.Fastest, q.Fastest), Mean: max(p.Mean, q.Mean)}
	}
	return p, err
}

// probe probes devices for a few moments.
func probe(devices []*backend.LocalDevice) (p Probe, err error) {
	for range probeMoments {
		next, err := probeOnce(devices)
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

// best joins the results of two moments. The zero value has no result.
func (p Probe) best(q Probe) Probe {
	if p == (Probe{}) {
		return q
	}
	return Probe{Fastest: min(p.Fastest, q.Fastest), Mean: min(p.Mean, q.Mean)}
}

// probeOnce lets all devices compute the product at once, for a moment.
func probeOnce(devices []*backend.LocalDevice) (p Probe, err error) {
	list, errs := make([]backend.ProductTimes, len(devices)), make([]error, len(devices))
	var all sync.WaitGroup
	for i, d := range devices {
		all.Go(func() { list[i], errs[i] = d.Product(probeSize(d), probeTime) })
	}
	all.Wait()
	p.Fastest = slices.MinFunc(list, func(a, b backend.ProductTimes) int { return int(a.Fastest - b.Fastest) }).Fastest
	p.Mean = slices.MaxFunc(list, func(a, b backend.ProductTimes) int { return int(a.Mean - b.Mean) }).Mean
	return p, errors.Join(errs...)
}
