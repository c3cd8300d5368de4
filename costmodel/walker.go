package costmodel

import (
	"slices"
	"time"

	"psim/costmodel/network"
	"psim/costmodel/training"
	"psim/internal/units"
)

// A walker follows a thread and a device through kernels, from the time at which the thread begins
// to launch them. A kernel runs when it has been launched and the kernel before it has ended.
type walker struct {
	compute  *Compute
	host     HostTimes
	samples  int64
	launched time.Duration // when the thread has launched all kernels so far
	ends     time.Duration // when the device has finished them
	busy     time.Duration // how long the device was busy with them
	known    *walks
	// threadOnly leaves out the device, whose times are not wanted: ends and busy mean nothing.
	threadOnly bool
}

// walks holds the results of walks, once for all layers that share their operations.
type walks struct {
	list    []walked
	stepped []steppedLayer
}

// A walked is the effect of passes of a layer, its repeated forward or a step of a backward on a
// walker that begins at 0.
type walked struct {
	layer                network.Layer
	samples              int64
	passes               string
	launched, ends, busy time.Duration
}

// walking names passes of a layer.
func walking(passes []network.Pass) string {
	switch {
	case len(passes) == 2:
		return "backward"
	case passes[0] == network.Forward:
		return "forward"
	case passes[0] == network.InputGradient:
		return "input"
	}
	return "weight"
}

// once walks through a layer, or repeats the effect of an earlier walk through a layer that shares
// its operations. Kernels follow the later of the thread and the device, so that both ways give the
// same result from wherever a walker is. A thread that waits for the device layer by layer has to
// walk every time.
func (w *walker) once(l network.Layer, passes string, walk func(*walker)) {
	if len(l.Ops) == 0 || w.host.Layer > 0 {
		walk(w)
		return
	}
	for i := range w.known.list {
		if k := &w.known.list[i]; k.passes == passes && k.samples == w.samples && k.layer.Shares(l) {
			w.follow(k)
			return
		}
	}
	k := w.fresh(walk)
	k.layer, k.samples, k.passes = l, w.samples, passes
	w.known.list = append(w.known.list, k)
	w.follow(&k)
}

// fresh walks from 0.
func (w *walker) fresh(walk func(*walker)) walked {
	first := &walker{compute: w.compute, host: w.host, samples: w.samples, known: w.known, threadOnly: w.threadOnly}
	walk(first)
	return walked{launched: first.launched, ends: first.ends, busy: first.busy}
}

// follow adds the effect of a walk from 0 to where the walker is.
func (w *walker) follow(k *walked) {
	w.ends = max(units.Sum(w.ends, k.busy), units.Sum(w.launched, k.ends))
	w.launched, w.busy = units.Sum(w.launched, k.launched), units.Sum(w.busy, k.busy)
}

// free reports whether launching takes no time, so that there is nothing to follow.
func (w *walker) free() bool { return w.host.Operation == 0 && w.host.Layer == 0 }

func (w *walker) launch() launch {
	return launch{thread: w.launched, lead: max(w.ends, w.launched) - w.busy}
}

// prepare walks through the host's work before a layer.
func (w *walker) prepare() {
	if w.host.Layer > 0 {
		w.launched = units.Sum(max(w.launched, w.ends), time.Duration(w.host.Layer))
	}
}

// layer walks through passes of a layer, those of a backward from its last operation to the first.
// The time of a layer that was measured includes its launches.
func (w *walker) layer(l network.Layer, passes ...network.Pass) {
	if w.free() {
		return
	}
	w.prepare()
	w.once(l, walking(passes), func(w *walker) { w.passes(l, passes...) })
}

// passes walks through passes of a layer, in the way in which they were measured or are computed.
func (w *walker) passes(l network.Layer, passes ...network.Pass) {
	which := timeOf(passes[0])
	switch {
	case len(passes) == 2 && w.compute.twoPass:
		w.twoPassBackward(l)
		return
	case len(passes) == 2:
		which = backwardTime
	}
	if t, ok := w.compute.measured.at(l, which, w.samples); ok {
		w.kernels(0, t)
		return
	}
	if len(passes) == 2 {
		w.backward(l.Ops)
		return
	}
	if passes[0] == network.Forward {
		w.operations(l.Ops, network.Forward)
		return
	}
	w.reversed(l.Ops, passes[0])
}

// twoPassBackward walks through a backward in two passes.
func (w *walker) twoPassBackward(l network.Layer) {
	if _, ok := w.compute.measured.at(l, inputTime, w.samples); ok {
		w.kernels(0, w.compute.rewalk(l, w.samples))
	} else {
		for _, o := range slices.Backward(l.Rewalked()) {
			w.operations([]network.Op{o}, network.InputGradient)
		}
	}
	w.layer(l, network.WeightGradient)
	w.layer(l, network.InputGradient)
}

// repeated walks through the forward operations that a layer runs again.
func (w *walker) repeated(l network.Layer, t training.Options) {
	if w.free() {
		return
	}
	w.once(l, "repeated", func(w *walker) {
		if _, ok := w.compute.measured.at(l, forwardTime, w.samples); ok {
			w.kernels(0, w.compute.Recompute(l, t, w.samples))
			return
		}
		w.operations(t.Repeated(l), network.Forward)
	})
}

// backward walks through a whole backward. An exchange that overlaps with the products after it in
// forward order is launched before these.
func (w *walker) backward(ops []network.Op) {
	for _, step := range steps(ops) {
		w.step(step)
	}
}

// step walks through a step of a whole backward.
func (w *walker) step(ops []network.Op) {
	if o := ops[0]; o.Class == network.Exchange && o.Overlapped {
		w.overlapped(ops[1:], network.InputGradient, o, network.WeightGradient)
		w.overlapped(ops[1:], network.WeightGradient, o, network.InputGradient)
		return
	}
	w.operations(ops, network.InputGradient, network.WeightGradient)
}

// steps cuts operations into the steps of a backward, in its order. An exchange that overlaps with
// the products after it forms a step with them; every other operation is a step by itself.
func steps(ops []network.Op) (list [][]network.Op) {
	for end := len(ops); end > 0; {
		i := end - 1
		for i > 0 && hides(ops[i]) {
			i--
		}
		if o := ops[i]; o.Class != network.Exchange || !o.Overlapped {
			i = end - 1
		}
		list = append(list, ops[i:end])
		end = i
	}
	return list
}

// overlapped walks through one pass of products and an exchange that runs at the same time.
func (w *walker) overlapped(products []network.Op, p network.Pass, exchange network.Op, q network.Pass) {
	other := *w
	other.operations([]network.Op{exchange}, q)
	w.launched = other.launched
	for _, o := range slices.Backward(products) {
		w.operations([]network.Op{o}, p)
	}
	w.ends, w.busy = max(w.ends, other.ends), max(w.busy, other.busy)
}

// reversed walks through one pass of a backward, from the last operation.
func (w *walker) reversed(ops []network.Op, p network.Pass) {
	for _, o := range slices.Backward(ops) {
		w.operations([]network.Op{o}, p)
	}
}

func (w *walker) operations(ops []network.Op, passes ...network.Pass) {
	if w.free() {
		return
	}
	for _, o := range ops {
		for _, p := range passes {
			var busy time.Duration
			if !w.threadOnly {
				busy = w.compute.Op(o, p, w.samples)
			}
			w.kernels(w.host.launches(w.compute, o, p, w.samples), busy)
		}
	}
}

func (w *walker) kernels(n int, busy time.Duration) {
	w.launched = units.Sum(w.launched, time.Duration(n)*time.Duration(w.host.Operation))
	w.ends = units.Sum(max(w.ends, w.launched), busy)
	w.busy = units.Sum(w.busy, busy)
}

// Launching returns the time of the thread for a layer's forward and backward, with recomputation.
// It includes the device's time if the thread waits for the device layer by layer.
func (h HostTimes) Launching(c *Compute, l network.Layer, t training.Options, samples int64) time.Duration {
	w := walker{compute: c, host: h, samples: samples, known: &walks{}, threadOnly: h.Layer == 0}
	w.layer(l, network.Forward)
	w.repeated(l, t)
	w.layer(l, network.InputGradient, network.WeightGradient)
	if h.Layer > 0 {
		return max(w.launched, w.ends)
	}
	return w.launched
}
