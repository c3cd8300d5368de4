package costmodel

import (
	"slices"
	"time"

	"psim/costmodel/network"
	"psim/costmodel/training"
	"psim/internal/units"
	"psim/schedules/graph"
)

// A slicer cuts the passes of a stage into slices. A forward is cut at the layers whose
// parameters are gathered together. A backward is cut where a gradient bucket is complete, that
// is after the operations that make the gradients of its tensors. Both are cut at all-to-alls
// instead where there are any. A layer that was measured whole, or that is walked twice,
// completes all of its tensors at its end.
type slicer struct {
	*pricer
	kind         graph.Kind
	stage        int
	samples      int64
	walker       walker        // since the start of the current slice
	done, before time.Duration // time up to now, and up to the start of the current slice
	missing      []int         // tensors of every bucket without a gradient so far

	known   network.Layer // the layer that stepped and makers describe
	stepped               // its steps
	makers  []int         // by tensor of the layer: the step that makes its gradient

	again    network.Layer   // the layer that againOps and againFor describe
	againOps []network.Op    // its repeated operations
	againFor []time.Duration // their times; a single time for a layer without all-to-alls

	times    []time.Duration // of the slices so far
	launches []launch
}

// slice prices the slices of a stage's pass, in time and in launches.
func (p *pricer) slice(k graph.Kind, stage int, samples int64) ([]time.Duration, []launch) {
	if k == graph.WeightGradient && p.staged.Unsplit(stage) {
		k = graph.Backward
	}
	s := &slicer{pricer: p, kind: k, stage: stage, samples: samples}
	s.begin(time.Duration(p.host.Task))
	switch {
	case len(p.staged.Exchanges(stage, graph.Forward)) > 0:
		s.cutAtAllToAlls()
	case k == graph.Forward:
		s.forward()
	default:
		s.backward()
	}
	return s.times, s.launches
}

// training returns the options that say which forwards are repeated.
func (s *slicer) training() training.Options { return s.staged.Training }

// forward cuts an F at the groups of layers whose parameters are gathered while it runs. The
// gathering of the tensor that the stage received comes first.
func (s *slicer) forward() {
	st := &s.staged.Stages[s.stage]
	s.done = s.received(s.stage, s.stage-1, s.samples).Exposed
	layers := st.Layers
	for _, piece := range st.Ahead {
		for _, l := range layers[:piece.Layers] {
			if s.staged.LossApart(s.stage) && l.OnlyLoss() {
				continue // a task of its own
			}
			s.done = units.Sum(s.done, s.compute.Layer(l, network.Forward, s.samples))
			s.walker.layer(l, network.Forward)
		}
		layers = layers[piece.Layers:]
		s.end()
	}
}

// backward cuts a B or W where buckets are complete.
func (s *slicer) backward() {
	st := &s.staged.Stages[s.stage]
	for _, bucket := range st.Buckets {
		s.missing = append(s.missing, len(bucket.Tensors))
	}
	if s.kind == graph.Backward {
		s.done = s.received(s.stage, s.stage+1, s.samples).Exposed
	}
	for i, l := range slices.Backward(st.Layers) {
		if s.kind == graph.Backward {
			s.repeat(s.training().RepeatedBefore(st.Layers, i))
		}
		s.layer(l, st.Held[i], st.BucketOf[i])
	}
	s.end()
}

// begin begins a slice, before which the host is busy for some time.
func (s *slicer) begin(host time.Duration) {
	s.before = s.done
	s.walker = walker{compute: &s.compute, host: s.host, samples: s.samples, launched: host, known: s.walks}
}

// end ends the current slice.
func (s *slicer) end() {
	s.times, s.launches = append(s.times, s.done-s.before), append(s.launches, s.walker.launch())
	s.begin(0)
}

// repeat goes through the forward operations that layers run again.
func (s *slicer) repeat(layers []network.Layer) {
	for _, l := range layers {
		if !l.Shares(s.again) {
			s.again, s.againFor = l, []time.Duration{s.compute.Recompute(l, s.training(), s.samples)}
		}
		s.done = units.Sum(s.done, s.againFor[0])
		s.walker.repeated(l, s.training())
	}
}

// layer goes through the backward of a layer, which makes the gradients of the tensors held,
// each in a bucket.
func (s *slicer) layer(l network.Layer, held []network.Tensor, buckets []int) {
	c, which := s.compute, weightTime
	if s.kind == graph.Backward {
		which = backwardTime
	}
	_, measured := c.measured.at(l, which, s.samples)
	switch whole := measured || c.twoPass; {
	case whole && s.kind == graph.Backward:
		s.done = units.Sum(s.done, c.Backward(l, s.samples))
		s.walker.layer(l, network.InputGradient, network.WeightGradient)
	case whole:
		s.done = units.Sum(s.done, c.Layer(l, network.WeightGradient, s.samples))
		s.walker.layer(l, network.WeightGradient)
	default:
		s.walker.prepare()
		s.know(l, held)
		for i := range s.steps {
			s.done = units.Sum(s.done, s.took[i])
			s.walker.follow(&s.hosts[i])
			s.complete(buckets, i)
		}
		s.complete(buckets, len(s.steps))
		return
	}
	s.known, s.makers = network.Layer{}, make([]int, len(held))
	s.complete(buckets, 0)
}

// know finds the steps of a layer, and the step that makes the gradient of each of its tensors:
// a step after the last one if no step does.
func (s *slicer) know(l network.Layer, held []network.Tensor) {
	if l.Shares(s.known) && len(held) == len(s.makers) {
		return
	}
	s.known, s.makers = l, make([]int, len(held))
	s.stepped = s.walks.steps(l, s)
	for i, t := range held {
		s.makers[i] = slices.IndexFunc(s.steps, func(ops []network.Op) bool {
			return slices.ContainsFunc(ops, func(o network.Op) bool { return o.Makes(t) })
		})
		if s.makers[i] < 0 {
			s.makers[i] = len(s.steps)
		}
	}
}

// stepped holds the steps of a layer in a pass, their times and their effects on a walker.
type stepped struct {
	steps [][]network.Op
	took  []time.Duration
	hosts []walked
}

// A steppedLayer holds the steps of a layer for a pass over a number of samples.
type steppedLayer struct {
	layer   network.Layer
	kind    graph.Kind
	samples int64
	stepped
}

// steps finds the steps of a layer, or makes them for a slicer.
func (k *walks) steps(l network.Layer, s *slicer) (made stepped) {
	for i := range k.stepped {
		if have := &k.stepped[i]; have.kind == s.kind && have.samples == s.samples && have.layer.Shares(l) {
			return have.stepped
		}
	}
	made.steps = steps(l.Ops)
	for _, ops := range made.steps {
		made.took = append(made.took, s.step(ops))
		made.hosts = append(made.hosts, s.walker.fresh(func(w *walker) { s.walk(w, ops) }))
	}
	k.stepped = append(k.stepped, steppedLayer{l, s.kind, s.samples, made})
	return made
}

// step prices a step of a layer.
func (s *slicer) step(ops []network.Op) time.Duration {
	pass := func(p network.Pass) time.Duration { return s.compute.roofline(ops, p, s.samples) }
	switch s.kind {
	case graph.WeightGradient:
		return pass(network.WeightGradient)
	case graph.InputGradient:
		return pass(network.InputGradient)
	}
	return units.Sum(pass(network.InputGradient), pass(network.WeightGradient)) - s.compute.hidden(ops, s.samples)
}

// walk goes through the launches of a step.
func (s *slicer) walk(w *walker, ops []network.Op) {
	switch s.kind {
	case graph.WeightGradient:
		w.reversed(ops, network.WeightGradient)
	case graph.InputGradient:
		w.reversed(ops, network.InputGradient)
	default:
		w.step(ops)
	}
}

// complete counts the tensors whose gradients a step of a layer makes, and ends the slices that
// complete a bucket. The last slice ends with the backward instead. buckets has the bucket of
// every tensor of the layer.
func (s *slicer) complete(buckets []int, step int) {
	for i, b := range buckets {
		if s.makers[i] == step {
			s.missing[b]--
		}
	}
	for len(s.times) < len(s.missing)-1 && s.missing[len(s.times)] == 0 {
		s.end()
	}
}
