package costmodel

import (
	"time"

	"psim/costmodel/network"
	"psim/costmodel/stages"
	"psim/costmodel/training"
	"psim/internal/units"
	"psim/schedules/graph"
)

// A class is one of the kinds of work that computing tasks are made of.
type class uint8

const (
	products  class = iota // with parameters
	attention              // fused, or its products of activations
	between                // bound by memory: norms, functions, softmax, loss, copies
	measured               // layers that were measured whole
	tensor                 // exposed exchanges of a tensor-parallel group
	context                // exposed exchanges among the parts of sequences
	launches               // starts of kernels on the device
	classes
)

// classNames lists the names in graph.Share, in the order of class.
var classNames = [classes]string{"products", "attention", "between", "measured", "tensor", "context", graph.Launches}

// IsProducts reports whether a share is of products or attention, whose rates are measured.
func IsProducts(s graph.Share) bool {
	return s.Class == classNames[products] || s.Class == classNames[attention]
}

// made adds up the time of a task by class.
type made [classes]time.Duration

// shares lists the classes that take time.
func (m made) shares() (list []graph.Share) {
	for k, t := range m {
		if t > 0 {
			list = append(list, graph.Share{Class: classNames[k], Time: t})
		}
	}
	return list
}

// MadeOf says what the computing tasks of a plan's graph on the given number of ranks are made
// of. The classes add up to the time of a pass over a microbatch. Slices of a backward, and a
// stage that takes all microbatches at once, have the same proportions.
func MadeOf(m Machine, staged *stages.Staged, ranks int) (func(t *graph.Task) []graph.Share, error) {
	c, err := m.slowest(ranks).Compute(staged.Training)
	if err != nil {
		return nil, err
	}
	type key struct {
		kind  graph.Kind
		stage int32
		size  int32
	}
	p := &pricer{compute: c, staged: staged}
	known := map[key][]graph.Share{}
	return func(t *graph.Task) []graph.Share {
		k := key{t.Kind, t.Stage, staged.SizeOf(t)}
		if known[k] == nil {
			known[k] = p.madeOf(t.Kind, int(t.Stage), staged.Sizes[k.size]).shares()
		}
		return known[k]
	}, nil
}

// madeOf adds up the work of a stage's pass over a microbatch, by class.
func (p *pricer) madeOf(k graph.Kind, stage int, samples int64) (m made) {
	c, staged := p.compute, p.staged
	if staged.TakesAll(stage) {
		samples = staged.Batch(0)
	}
	layers := staged.Stages[stage].Layers
	if last := len(layers) - 1; staged.LossApart(stage) {
		switch k {
		case graph.Loss:
			m.layer(c, layers[last], network.Forward, samples)
			return m
		case graph.Forward:
			layers = layers[:last]
		}
	}
	for _, l := range layers {
		switch k {
		case graph.Forward:
			m.layer(c, l, network.Forward, samples)
		case graph.WeightGradient:
			m.layer(c, l, network.WeightGradient, samples)
		case graph.InputGradient:
			m.repeated(c, l, staged.Training, samples)
			m.layer(c, l, network.InputGradient, samples)
		default:
			m.repeated(c, l, staged.Training, samples)
			m.backward(c, l, samples)
		}
	}
	if k != graph.WeightGradient {
		m[between] += p.copies(stage)
	}
	switch k {
	case graph.Forward:
		m[tensor] += p.received(stage, stage-1, samples).Exposed
	case graph.InputGradient, graph.Backward:
		m[tensor] += p.received(stage, stage+1, samples).Exposed
	}
	return m
}

// layer adds one pass of a layer.
func (m *made) layer(c Compute, l network.Layer, p network.Pass, samples int64) {
	if t, ok := c.measured.at(l, timeOf(p), samples); ok {
		m[measured] += t
		return
	}
	m.operations(c, l.Ops, p, samples)
}

// backward adds the whole backward of a layer.
func (m *made) backward(c Compute, l network.Layer, samples int64) {
	if t, ok := c.measured.at(l, backwardTime, samples); ok {
		if c.twoPass {
			t = c.Backward(l, samples)
		}
		m[measured] += t
		return
	}
	m.layer(c, l, network.InputGradient, samples)
	m.layer(c, l, network.WeightGradient, samples)
	if c.twoPass {
		m.operations(c, l.Rewalked(), network.InputGradient, samples)
		return
	}
	m[tensor] -= c.hidden(l.Ops, samples)
}

// repeated adds the forward operations that a layer runs again, since it did not keep their
// results.
func (m *made) repeated(c Compute, l network.Layer, t training.Options, samples int64) {
	if _, ok := c.measured.at(l, forwardTime, samples); ok {
		m[measured] += c.Recompute(l, t, samples)
		return
	}
	m.operations(c, t.Repeated(l), network.Forward, samples)
}

// operations adds one pass of operations. The time to start them is a class of its own, and
// what a product moves besides its operands and result counts as between.
func (m *made) operations(c Compute, ops []network.Op, p network.Pass, samples int64) {
	started := c
	started.launch = 0
	plain := started
	plain.anomalies = false
	for _, o := range ops {
		if o.Class == network.Exchange {
			of := tensor
			if o.Exchanges[p].Context {
				of = context
			}
			m[of] = units.Sum(m[of], c.Op(o, p, samples))
			continue
		}
		m[context] = units.Sum(m[context], c.within(o, p, samples).Exposed)
		o.Passed = 0
		whole, work := c.Op(o, p, samples), started.Op(o, p, samples)
		alone := o
		alone.GradientMoved = 0
		own := plain.Op(alone, p, samples)
		m[classOf(o)] += own
		m[between] += work - own
		m[launches] += whole - work
	}
}

// classOf returns the class of an operation other than an exchange.
func classOf(o network.Op) class {
	switch {
	case o.Class == network.Attention, o.Class == network.Scan, o.Class == network.Product && !o.Weight:
		return attention
	case o.Class == network.Product:
		return products
	}
	return between
}

// MadeOf says what tasks with explicit times are made of: the keys of [times] that price them.
func (t Times) MadeOf(task *graph.Task) (list []graph.Share) {
	s, mb := task.Stage, task.Microbatch
	add := func(class string, table TimeTable) {
		if d := table.At(s, mb); d > 0 {
			list = append(list, graph.Share{Class: class, Time: d})
		}
	}
	if task.Kind == graph.Forward {
		add("forward", t.Forward)
	}
	if task.Kind == graph.Backward {
		add("backward", t.Backward)
	}
	if task.Kind == graph.Backward || task.Kind == graph.InputGradient {
		add("backward_input", t.InputGradient)
	}
	if task.Kind == graph.Backward || task.Kind == graph.WeightGradient {
		add("backward_weight", t.WeightGradient)
	}
	return list
}
