package wiring

import (
	"slices"

	"psim/schedules/graph"
	"psim/schedules/order"
)

// ends tells how far a rank has come: its last computing task, and the last that ends
// the step so far.
type ends struct{ computed, closing int32 }

// rank adds the tasks of a rank of the first replica, each with what it waits for on its
// own rank.
func (k *Packer) rank(r int32) {
	tasks, at, cuts, copies := k.packed.Tasks, ends{graph.None, graph.None}, k.cuts(), int32(len(k.to[0]))
	k.gatherAhead(r)
	next := k.cursor[k.compute[r]]
	actions, width := k.Order[r], k.sizes*variants
	for i := range actions {
		a := &actions[i]
		on := k.copyOf(a)
		index := (int32(a.Kind)*copies+on)*width + k.variant(a, on)
		buckets, parts := int32(0), int32(1)
		if cuts {
			buckets, parts = k.cut(int32(i), a)
		}
		if parts > 1 && k.divided(a.Stage) {
			k.cursor[k.compute[r]] = next
			at = k.exchanged(r, int32(i), a, index, at)
			next = k.cursor[k.compute[r]]
			continue
		}
		for part := range parts {
			class := k.class(r, a, index, part, parts)
			tasks[next] = graph.PackedTask{Dep: k.limit(int32(i), a, part, at.closing), Class: class}
			k.packed.Counts[class]++
			at.computed = next
			next++
			if part == parts-1 && a.Kind != graph.WeightGradient {
				k.send(r, a, on, index, at.computed)
			}
			if parts == buckets {
				at.closing = k.sum(r, on, part, at.computed)
			}
		}
		for b := int32(0); b < buckets && parts < buckets; b++ {
			at.closing = k.sum(r, on, b, at.computed)
		}
	}
	k.cursor[k.compute[r]] = next
	k.tail(r, at)
}

// variant tells apart microbatches of a stage that differ in size, or in what the
// neighbour on the same rank has done.
func (k *Packer) variant(a *order.Action, on int32) int32 {
	v := int32(0)
	if k.sizes > 1 {
		v = variants * k.sizeOf[a.Microbatch]
	}
	if !k.shared {
		return v
	}
	at, m := a.Stage*k.microbatches+a.Microbatch, k.microbatches
	switch a.Kind {
	case graph.WeightGradient:
		k.done[at] |= weight
		if a.Stage > 0 && k.Placement.Together(int(a.Stage)-1, int(a.Stage)) && k.done[at-m]&backward != 0 {
			k.graph.Late[at] = true
			v++
		}
	case graph.InputGradient, graph.Backward:
		k.done[at] |= backward
		if a.Kind == graph.InputGradient {
			k.done[at] |= input
		}
		if int(a.Stage) < k.Placement.Stages()-1 && k.to[0][on] == graph.None && k.done[at+m]&(input|weight) == input {
			v++
		}
	}
	return v
}

// limit finds the sum that a computing task waits for where whole gradients of one
// microbatch may be live (see connector.limit), or in a first forward, before which there
// are no sums, the gather.
func (k *Packer) limit(i int32, a *order.Action, part, closing int32) int32 {
	if a.Kind == graph.Forward && k.first[a.Stage] == i && len(k.Sync.Ahead[a.Stage]) > 0 {
		return k.awaits(a.Stage, k.gathered[a.Stage], int(part))
	}
	if !k.Sync.EveryMicrobatch || part > 0 || k.Sync.Overlap && !k.Pipeline.sums(a.Kind, a.Stage) {
		return graph.None
	}
	return closing
}

// class finds the class of an action, or of a part of it.
func (k *Packer) class(r int32, a *order.Action, index, part, parts int32) int32 {
	classes := k.classes
	if parts > 1 {
		index += int32(len(classes)) / 2
	}
	if classes[index] == graph.None {
		classes[index] = int32(len(k.graph.Tasks))
		for n := range parts {
			k.add(graph.Task{
				Kind: a.Kind, Part: uint16(n), Rank: r, Stream: k.compute[r], Stage: a.Stage, Microbatch: a.Microbatch, Peer: graph.None,
			})
		}
	}
	return classes[index] + part
}

// add adds a class, that of a task.
func (k *Packer) add(t graph.Task) int32 {
	k.graph.Tasks = append(k.graph.Tasks, t)
	k.packed.Counts = append(k.packed.Counts, 0)
	return int32(len(k.graph.Tasks) - 1)
}

// put adds a task on a stream other than the computing one, and returns its place.
func (k *Packer) put(stream, class, dep int32) int32 {
	i := k.cursor[stream]
	k.cursor[stream]++
	k.packed.Tasks[i] = graph.PackedTask{Dep: dep, Class: class}
	k.packed.Counts[class]++
	return i
}

// send adds the message of an action on a copy of its stage, whose index of classes is given,
// if there is one, and notes after which task its result is there.
func (k *Packer) send(r int32, a *order.Action, on, index, computed int32) {
	d := direction(a.Kind)
	stream, made := k.stream[d][on], computed
	if stream != graph.None {
		kind, boundary := graph.SendForward, a.Stage
		if d == 1 {
			kind, boundary = graph.SendBackward, a.Stage-1
		}
		class := &k.classes[index+(int32(kind)-int32(a.Kind))*int32(len(k.to[0]))*k.sizes*variants]
		if *class == graph.None {
			*class = k.add(graph.Task{
				Kind: kind, Rank: r, Stream: stream, Stage: a.Stage, Microbatch: a.Microbatch,
				Peer: k.to[d][on], Bytes: k.payload(kind, boundary, a.Microbatch, 0),
			})
		}
		made = k.put(stream, *class, computed)
	}
	k.made[d][a.Stage*k.microbatches+a.Microbatch] = made
}

// gatherAhead adds the gathers of parameters that the step before has updated (see
// rankBuilder.gatherAhead).
func (k *Packer) gatherAhead(r int32) {
	if !k.ahead() {
		return
	}
	for _, s := range slices.Backward(k.copiesOn[r]) { // of which there is one of every stage
		for part, bytes := range k.Sync.Ahead[s] {
			class := k.add(graph.Task{
				Kind: graph.AllGather, Part: uint16(part), Rank: r, Stream: k.gradient[r], Stage: s, Microbatch: graph.None, Peer: k.group(r, k.Sync.ahead(s, part)), Bytes: bytes,
			})
			if i := k.put(k.gradient[r], class, graph.None); part == 0 {
				k.gathered[s] = i
			}
		}
	}
}

// sum adds the collective of one gradient bucket of a copy, and returns its place.
func (k *Packer) sum(r, copy, bucket, computed int32) int32 {
	if k.sums[copy] == graph.None {
		stage, _ := k.stage(copy)
		k.sums[copy] = int32(len(k.graph.Tasks))
		for b, bytes := range k.Sync.Buckets[stage] {
			k.add(graph.Task{
				Kind: k.Sync.Kind(), Part: uint16(b), Rank: r, Stream: k.gradient[r], Stage: stage, Microbatch: graph.None,
				Peer: k.group(r, k.Sync.expert(stage, b)), Bytes: bytes,
			})
		}
	}
	return k.put(k.gradient[r], k.sums[copy]+bucket, computed)
}

// tail adds what follows the last backward of a rank (see rankBuilder.tail).
func (k *Packer) tail(r int32, at ends) {
	active := k.Sync.active(k.Shape)
	shares := k.Placement.Second != nil && active && k.Sync.Sharded
	if !shares {
		at = k.sumTied(r, at)
	}
	if active && !k.summing() {
		for _, copy := range k.copiesOn[r] {
			s, _ := k.stage(copy)
			for b := range k.Sync.Buckets[s] {
				at.closing = k.sum(r, copy, int32(b), at.computed)
			}
		}
	}
	if shares {
		at = k.sumTied(r, at)
	}
	whole := graph.Task{Rank: r, Stream: k.compute[r], Stage: graph.None, Microbatch: graph.None, Peer: graph.None}
	if active {
		average := whole
		average.Kind, average.Bytes = graph.Average, k.averaged(k.stagesOn(r))
		k.put(k.compute[r], k.add(average), at.closing)
		at.closing = graph.None // its stream says so
	}
	if !k.Optimizer {
		return
	}
	whole.Kind = graph.Optimizer
	if updated := k.put(k.compute[r], k.add(whole), at.closing); k.gathersUpdated() {
		k.gatherUpdated(r, updated)
	}
}

// sumTied adds the sums of what several ranks of the replica hold.
func (k *Packer) sumTied(r int32, at ends) ends {
	for i, t := range k.Tied {
		if ranks := k.tiedRanks(t); len(ranks) > 1 && slices.Contains(ranks, r) {
			at.closing = k.put(k.gradient[r], k.add(graph.Task{
				Kind: graph.AllReduce, Rank: r, Stream: k.gradient[r], Stage: graph.None, Microbatch: graph.None, Peer: k.groups.tied[0][i], Bytes: t.Bytes,
			}), at.computed)
		}
	}
	return at
}

// gatherUpdated adds the gathers of what a task has updated (see rankBuilder.gathersUpdated).
func (k *Packer) gatherUpdated(r, updated int32) {
	for _, s := range k.stagesOn(r) {
		gather := graph.Task{
			Kind: graph.AllGather, Rank: r, Stream: k.gradient[r], Stage: s, Microbatch: graph.None, Peer: k.group(r, false), Bytes: k.Sync.Parameters[s],
		}
		k.put(k.gradient[r], k.add(gather), updated)
		if bytes := k.Sync.expertParameters(s); bytes > 0 {
			gather.Part, gather.Peer, gather.Bytes = 1, k.group(r, true), bytes
			k.put(k.gradient[r], k.add(gather), updated)
		}
	}
}
