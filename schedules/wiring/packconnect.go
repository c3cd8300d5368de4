package wiring

import (
	"slices"

	"psim/schedules/graph"
	"psim/schedules/order"
)

// connect adds what the actions of a rank wait for on others: of a pair that runs as one
// its first half for both.
func (k *Packer) connect(r int32) {
	tasks, i := k.packed.Tasks, k.packed.Begin[k.compute[r]]
	actions, cuts := k.Order[r], k.cuts()
	for n := range actions {
		a := &actions[n]
		k.needs = k.needs[:0]
		if a.Pair && k.Pairs == Fused {
			k.need(r, i, k.received(&actions[n+1]))
		}
		k.need(r, i, k.received(a))
		if len(k.needs) > 0 {
			k.wait(&tasks[i])
		}
		parts := int32(1)
		if cuts {
			_, parts = k.cut(int32(n), a)
		}
		i += parts
	}
}

// received finds the task after which what an action receives is there; None if it is the
// first or the last on its way.
func (k *Packer) received(a *order.Action) int32 {
	m := k.microbatches
	switch {
	case a.Kind == graph.Forward && a.Stage > 0:
		return k.made[0][(a.Stage-1)*m+a.Microbatch]
	case (a.Kind == graph.Backward || a.Kind == graph.InputGradient) && int(a.Stage) < k.Placement.Stages()-1:
		return k.made[1][(a.Stage+1)*m+a.Microbatch]
	}
	return graph.None
}

// need has the i-th task, of a rank, wait for another. What stands before it on the same
// stream needs no word.
func (k *Packer) need(r, i, on int32) {
	if on != graph.None && (on >= i || on < k.packed.Begin[k.compute[r]]) {
		k.needs = append(k.needs, on)
	}
}

// wait has a task wait for what is needed, beside what it waits for.
func (k *Packer) wait(t *graph.PackedTask) {
	if t.Dep != graph.None {
		k.needs = append(k.needs, t.Dep)
	}
	if t.Dep = k.needs[0]; len(k.needs) > 1 {
		t.Dep = -2 - int32(len(k.packed.More))
		k.packed.More = append(append(k.packed.More, int32(len(k.needs))), k.needs...)
	}
}

// replicate adds the other replicas.
func (k *Packer) replicate() {
	out, g := &k.packed, k.graph
	n, classes, streams, more := int32(len(out.Tasks)), len(g.Tasks), len(g.Streams), int32(len(out.More))
	ranks := int32(k.Shape.Ranks)
	g.Tasks, g.Streams = slices.Grow(g.Tasks, classes*k.Shape.Replicas), slices.Grow(g.Streams, streams*k.Shape.Replicas)
	for d := int32(1); int(d) < k.Shape.Replicas; d++ {
		for s := range streams {
			one := g.Streams[s]
			one.Rank += d * ranks
			one.Name = k.renamed(s, d)
			g.Streams = append(g.Streams, one)
			out.Begin = append(out.Begin, out.Begin[s+1]+d*n)
		}
		for r := range k.Shape.Ranks {
			out.First = append(out.First, out.First[r+1]+d*int32(streams))
		}
		for c := range classes {
			k.add(k.copied(c, d, int32(streams)))
		}
		copy(out.Counts[int(d)*classes:], out.Counts[:classes])
		for i := int32(0); i < more; i += 1 + out.More[i] {
			out.More = append(out.More, out.More[i])
			for _, on := range out.More[i+1 : i+1+out.More[i]] {
				out.More = append(out.More, on+d*n)
			}
		}
		for _, t := range out.Tasks[:n] {
			t.Class += d * int32(classes)
			switch {
			case t.Dep >= 0:
				t.Dep += d * n
			case t.Dep < graph.None:
				t.Dep -= d * more
			}
			out.Tasks = append(out.Tasks, t)
		}
	}
	out.Copies = 1
}

// renamed returns the name of a stream in another replica.
func (k *Packer) renamed(s int, d int32) string {
	for dir := range k.to {
		for copy, stream := range k.stream[dir] {
			if int(stream) == s {
				return sendName(dir, k.to[dir][copy]+d*int32(k.Shape.Ranks))
			}
		}
	}
	return k.graph.Streams[s].Name
}

// copied returns the task of a class as another replica has it.
func (k *Packer) copied(class int, d, streams int32) graph.Task {
	t := k.packed.Shifted(class, d)
	t.Stream += d * streams
	switch {
	case k.Shards == nil:
	case t.Kind == graph.AllToAll:
		t.Bytes = t.Bytes / k.samples(t.Microbatch, 0) * k.samples(t.Microbatch, int(d))
	case t.Kind.Message():
		boundary := t.Stage
		if t.Kind == graph.SendBackward {
			boundary--
		}
		t.Bytes = k.payload(t.Kind, boundary, t.Microbatch, int(d))
	}
	return t
}

// members counts who takes part in a collective.
func (k *Packer) members() {
	out, g := &k.packed, k.graph
	for i, ranks := range g.Groups {
		n := int32(len(ranks))
		if out.Copies > 1 && i < len(g.Groups)-out.Copies*int(out.Within) {
			n = 1
		}
		out.Members = append(out.Members, n)
	}
}
