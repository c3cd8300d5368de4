package costmodel

import (
	"slices"
	"time"

	"psim/costmodel/network"
	"psim/costmodel/training"
	"psim/internal/units"
)

// A walker follows a thread and a device through kernels, from when the thread
// begins to launch them: none runs before it is launched, nor before the one
// before it has ended.
type walker struct {
	compute        Compute
	host           HostTimes
	samples        int64
	launched, ends time.Duration
	busy           time.Duration
	known          *walks
}

// walks hold what was walked through, once for all layers that share their operations.
type walks struct {
	list    []walked
	stepped []steppedLayer
}

// A walked is what passes of a layer, its repeated forward or a step of a backward do to a
// walker that begins at 0.
type walked struct {
	layer                network.Layer
	samples              int64
	what                 string
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

// once walks through a layer, or does what walking through one that shares its operations
// did: kernels follow the later of the thread and the device, so that from wherever a walker
// is, both ways add up. A thread that waits for the device layer by layer has to walk.
func (w *walker) once(l network.Layer, what string, walk func(*walker)) {
	if len(l.Ops) == 0 || w.host.Layer > 0 {
		walk(w)
		return
	}
	for i := range w.known.list {
		if k := &w.known.list[i]; k.what == what && k.samples == w.samples && k.layer.Shares(l) {
			w.follow(k)
			return
		}
	}
	k := w.fresh(walk)
	k.layer, k.samples, k.what = l, w.samples, what
	w.known.list = append(w.known.list, k)
	w.follow(&k)
}

// fresh walks from 0.
func (w *walker) fresh(walk func(*walker)) walked {
	first := &walker{compute: w.compute, host: w.host, samples: w.samples, known: w.known}
	walk(first)
	return walked{launched: first.launched, ends: first.ends, busy: first.busy}
}

// follow does from where the walker is what was walked from 0.
func (w *walker) follow(k *walked) {
	w.ends = max(units.Sum(w.ends, k.busy), units.Sum(w.launched, k.ends))
	w.launched, w.busy = units.Sum(w.launched, k.launched), units.Sum(w.busy, k.busy)
}

// free reports whether kernels are launched for nothing: then there is nothing to follow.
func (w *walker) free() bool { return w.host.Operation == 0 && w.host.Layer == 0 }

func (w *walker) launch() launch {
	return launch{thread: w.launched, lead: max(w.ends, w.launched) - w.busy}
}

// prepare walks through what comes before a layer.
func (w *walker) prepare() {
	if w.host.Layer > 0 {
		w.launched = units.Sum(max(w.launched, w.ends), time.Duration(w.host.Layer))
	}
}

// layer walks through passes of a layer, those of a backward from its last
// operation to the first. One that was measured took its launches along.
func (w *walker) layer(l network.Layer, passes ...network.Pass) {
	if w.free() {
		return
	}
	w.prepare()
	w.once(l, walking(passes), func(w *walker) { w.kind(l, passes...) })
}

// kind walks through passes of a layer by how these are made.
func (w *walker) kind(l network.Layer, passes ...network.Pass) {
	which := timeOf(passes[0])
	switch {
	case len(passes) == 2 && w.compute.twoPass:
		w.twice(l)
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

// twice walks through a backward in two passes.
func (w *walker) twice(l network.Layer) {
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

// repeated walks through what a layer did not keep and runs again.
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

// backward walks through a whole backward. Exchanges that run beside the products
// which follow them in forward order are launched before what hides them.
func (w *walker) backward(ops []network.Op) {
	for _, step := range steps(ops) {
		w.step(step)
	}
}

// step walks through a step of a whole backward.
func (w *walker) step(ops []network.Op) {
	if o := ops[0]; o.Class == network.Exchange && o.Overlapped {
		w.beside(ops[1:], network.InputGradient, o, network.WeightGradient)
		w.beside(ops[1:], network.WeightGradient, o, network.InputGradient)
		return
	}
	w.operations(ops, network.InputGradient, network.WeightGradient)
}

// steps cuts operations in the order of a backward: each is a step by itself, and an
// exchange that runs beside the products after it is one with these.
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

// beside walks through one pass of products and an exchange that runs next to it.
func (w *walker) beside(products []network.Op, p network.Pass, exchange network.Op, q network.Pass) {
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
			w.kernels(w.host.launches(w.compute, o, p, w.samples), w.compute.Op(o, p, w.samples))
		}
	}
}

func (w *walker) kernels(n int, busy time.Duration) {
	w.launched = units.Sum(w.launched, time.Duration(n)*time.Duration(w.host.Operation))
	w.ends = units.Sum(max(w.ends, w.launched), busy)
	w.busy = units.Sum(w.busy, busy)
}

// Launching returns what the thread takes for a layer's forward and backward and what is
// repeated for that, with the device's time where it waits for the device layer by layer.
func (h HostTimes) Launching(c Compute, l network.Layer, t training.Options, samples int64) time.Duration {
	w := walker{compute: c, host: h, samples: samples, known: &walks{}}
	w.layer(l, network.Forward)
	w.repeated(l, t)
	w.layer(l, network.InputGradient, network.WeightGradient)
	if h.Layer > 0 {
		return max(w.launched, w.ends)
	}
	return w.launched
}
