package exec

import (
	"errors"
	"slices"
	"sync"
	"time"

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
func (m *Measurement) probe(devices []*programs.Device, o MeasureOptions) error {
	if !o.Probe {
		return nil
	}
	p, err := probe(devices)
	m.Probes = append(m.Probes, p)
	return duringRun(err)
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
