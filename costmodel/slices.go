package costmodel

import (
	"slices"
	"time"

	"psim/costmodel/network"
	"psim/costmodel/stages"
	"psim/costmodel/training"
	"psim/internal/units"
	"psim/schedules/graph"
)

// A slicer cuts the passes of a stage: a forward at the layers that are gathered
// together, a backward where each of its gradient buckets is complete, when the
// operations have run that make its tensors' gradients; or both at all-to-alls. What was
// measured whole, and what is walked twice, completes all of a layer at its end.
type slicer struct {
	compute      Compute
	host         HostTimes
	training     training.Options
	kind         graph.Kind
	samples      int64
	walker       walker // from the start of the slice at hand
	walks        *walks // that it knows
	done, before time.Duration
	missing      []int // tensors of every bucket
	known        network.Layer
	stepped            // of the layer known
	makers       []int // by tensor of it: the step that makes its gradient
	repeated     network.Layer
	again        []network.Op    // of the layer repeated
	anew         []time.Duration // by these; of a layer without all-to-alls in one
	times        []time.Duration
	launches     []launch
}

// slice prices the parts of a stage's pass, in time and in launches.
func slice(c Compute, h HostTimes, known *walks, staged *stages.Staged, k graph.Kind, stage int, samples int64) ([]time.Duration, []launch) {
	s := &slicer{compute: c, host: h, walks: known, training: staged.Training, kind: k, samples: samples}
	s.begin(time.Duration(h.Task))
	switch {
	case len(staged.Exchanges(stage, graph.Forward)) > 0:
		s.exchanged(staged, stage)
	case k == graph.Forward:
		s.forward(staged, stage)
	default:
		s.backward(staged, stage)
	}
	return s.times, s.launches
}

// forward cuts an F at the pieces of layers whose parameters are gathered beside it. The
// gathering of what it received comes first.
func (s *slicer) forward(staged *stages.Staged, stage int) {
	st := &staged.Stages[stage]
	s.done = received(s.compute, staged, stage, stage-1, s.samples).Exposed
	layers := st.Layers
	for _, piece := range st.Ahead {
		for _, l := range layers[:piece.Layers] {
			s.done = units.Sum(s.done, s.compute.Layer(l, network.Forward, s.samples))
			s.walker.layer(l, network.Forward)
		}
		layers = layers[piece.Layers:]
		s.end()
	}
}

// backward cuts a B or W where buckets are complete.
func (s *slicer) backward(staged *stages.Staged, stage int) {
	st := &staged.Stages[stage]
	for _, bucket := range st.Buckets {
		s.missing = append(s.missing, len(bucket.Tensors))
	}
	if s.kind == graph.Backward {
		s.done = received(s.compute, staged, stage, stage+1, s.samples).Exposed
	}
	for i, l := range slices.Backward(st.Layers) {
		if s.kind == graph.Backward {
			s.repeat(s.training.RepeatedBefore(st.Layers, i))
		}
		s.layer(l, st.Held[i], st.BucketOf[i])
	}
	s.end()
}

// begin begins a slice, before which the host has something to do.
func (s *slicer) begin(host time.Duration) {
	s.before = s.done
	s.walker = walker{compute: s.compute, host: s.host, samples: s.samples, launched: host, known: s.walks}
}

// end ends the slice at hand.
func (s *slicer) end() {
	s.times, s.launches = append(s.times, s.done-s.before), append(s.launches, s.walker.launch())
	s.begin(0)
}

// repeat goes through what layers did not keep and run again.
func (s *slicer) repeat(layers []network.Layer) {
	for _, l := range layers {
		if !l.Shares(s.repeated) {
			s.repeated, s.anew = l, []time.Duration{s.compute.Recompute(l, s.training, s.samples)}
		}
		s.done = units.Sum(s.done, s.anew[0])
		s.walker.repeated(l, s.training)
	}
}

// layer goes through the backward of a layer, which brings some tensors, each in a bucket.
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

// know finds the steps of a layer, and which of them makes the gradient of each of its
// tensors: one behind the last, if none does.
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

// stepped holds the steps of a layer in a pass, what they take and what they do to a walker.
type stepped struct {
	steps [][]network.Op
	took  []time.Duration
	hosts []walked
}

// A steppedLayer is that of a layer, for a pass over so many samples.
type steppedLayer struct {
	layer   network.Layer
	kind    graph.Kind
	samples int64
	stepped
}

// steps finds those of a layer, or makes them for a slicer.
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

// complete counts the tensors whose gradients a step of a layer makes, of which each is in a
// bucket, and ends slices with which a bucket is complete. The last ends with the backward.
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
