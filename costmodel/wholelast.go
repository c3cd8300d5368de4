package costmodel

import "time"

// taskPrice is what a stage costs for a microbatch: a share of the whole batch's
// price where the stage takes all microbatches at once.
func (w Workload) taskPrice(c Compute, stage int, samples int64) price {
	if !w.whole(stage) {
		return w.price(c, stage, samples)
	}
	p, all := w.price(c, stage, w.batch()), w.batch()
	for _, t := range []*time.Duration{&p.forward, &p.input, &p.weight, &p.recompute, &p.whole} {
		*t = share(*t, samples, all)
	}
	return p
}

// taskLaunches is the same for launching a stage's kernels.
func (w Workload) taskLaunches(c Compute, h Host, stage int, samples int64) launches {
	if !w.whole(stage) {
		return w.launchesOf(c, h, stage, samples)
	}
	l, all := w.launchesOf(c, h, stage, w.batch()), w.batch()
	for _, half := range []*launch{&l.forward, &l.input, &l.weight, &l.backward} {
		half.thread, half.lead = share(half.thread, samples, all), share(half.lead, samples, all)
	}
	return l
}

// whole reports whether a stage takes all microbatches at once.
func (w Workload) whole(stage int) bool { return w.WholeLast && stage == len(w.Layers)-1 }

// batch is the samples of one replica's step.
func (w Workload) batch() int64 {
	var n int64
	for _, samples := range w.Samples {
		n += samples
	}
	return n
}

func share(t time.Duration, samples, all int64) time.Duration {
	return nanoseconds(float64(t) * float64(samples) / float64(all))
}
