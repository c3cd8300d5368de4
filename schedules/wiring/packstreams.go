package wiring

import (
	"slices"
	"strconv"

	"psim/internal/ram"
	"psim/schedules/graph"
	"psim/schedules/order"
)

// streams adds the streams of a rank of the first replica, in the order in which its
// tasks need them, and counts their tasks.
func (k *Packer) streams(r int32) {
	actions := k.Order[r]
	k.compute[r] = k.addStream(r, "compute")
	early, exchanges, missing := k.summing(), k.exchanges(r), 0
	for _, copy := range k.copiesOn[r] {
		for d := range k.to {
			if k.to[d][copy] != graph.None {
				missing++
			}
		}
	}
	k.findCuts(r)
	for i := 0; i < len(actions) && (missing > 0 || early && k.gradient[r] == graph.None || exchanges && k.experts[r] == graph.None); i++ {
		a := &actions[i]
		buckets, parts := k.cut(int32(i), a)
		if parts > 1 && k.divided(a.Stage) {
			k.expertStream(r)
		}
		if k.leavesEarly(a, buckets, parts) {
			k.gradients(r)
		}
		if to, on, d := k.sends(a), k.copyOf(a), direction(a.Kind); to != graph.None && k.stream[d][on] == graph.None {
			k.stream[d][on] = k.sendStream(r, to, d)
			missing--
		}
		if buckets > 0 {
			k.gradients(r)
		}
	}
	k.count(r)
}

// leavesEarly reports whether a sum leaves before the message of an action.
func (k *Packer) leavesEarly(a *order.Action, buckets, parts int32) bool {
	if parts == 1 || buckets == 0 || !k.divided(a.Stage) {
		return parts > 1 && buckets > 0
	}
	c := k.Pipeline.cut(*a, int(buckets), 0)
	return c.left(c.parts-2) > 0
}

// findCuts finds the actions of a rank that are cut, or after which sums leave. What is
// gathered ahead is the first on its stream.
func (k *Packer) findCuts(r int32) {
	ahead, summing := k.ahead(), k.summing()
	if !ahead && !summing {
		return
	}
	for i, a := range k.Order[r] {
		switch {
		case summing && makesGradients(a.Kind):
			k.last[k.copyOf(&a)] = int32(i)
		case ahead && a.Kind == graph.Forward && k.first[a.Stage] == graph.None:
			k.first[a.Stage] = int32(i)
			if len(k.Sync.Ahead[a.Stage]) > 0 {
				k.gradients(r)
			}
		}
	}
}

// addStream adds a stream of a rank of the first replica.
func (k *Packer) addStream(r int32, name string) int32 {
	k.cursor = append(k.cursor, 0)
	return k.graph.AddStream(r, name)
}

// gradients returns the stream of a rank's gradients, made when first needed.
func (k *Packer) gradients(r int32) int32 {
	if k.gradient[r] == graph.None {
		k.gradient[r] = k.addStream(r, "gradients")
	}
	return k.gradient[r]
}

// stagesOn lists the stages of a rank, last first.
func (k *Packer) stagesOn(r int32) []int32 {
	list := slices.Clone(k.copiesOn[r])
	for i, copy := range list {
		list[i], _ = k.stage(copy)
	}
	return list
}

// sendStream returns the stream of a rank's messages to another in a direction.
func (k *Packer) sendStream(r, to int32, d int) int32 {
	for len(k.names[d]) <= int(to) {
		k.names[d] = append(k.names[d], sendName(d, int32(len(k.names[d]))))
	}
	name := k.names[d][to]
	for s := int(k.compute[r]); s < len(k.graph.Streams); s++ {
		if k.graph.Streams[s].Name == name {
			return int32(s)
		}
	}
	return k.addStream(r, name)
}

func sendName(d int, to int32) string {
	return "send " + [2]string{"F", "B"}[d] + " to " + strconv.Itoa(int(to))
}

// count counts the tasks on a rank's streams.
func (k *Packer) count(r int32) {
	active, tail := k.Sync.active(k.Shape), int32(0)
	compute := int32(len(k.Order[r]))
	for _, t := range k.Tied {
		if ranks := k.tiedRanks(t); len(ranks) > 1 && slices.Contains(ranks, r) {
			tail++
		}
	}
	for _, copy := range k.copiesOn[r] {
		s, microbatches := k.stage(copy)
		for d := range k.to {
			if k.to[d][copy] != graph.None {
				k.cursor[k.stream[d][copy]] += microbatches
			}
		}
		if active {
			collectives, parts := k.collectives(s, microbatches)
			tail, compute = tail+collectives, compute+parts
		}
	}
	if active {
		compute++ // the average
	}
	if k.Optimizer {
		compute++
	}
	if exchanges := k.countExchanges(r); exchanges > 0 {
		compute += exchanges
		k.cursor[k.experts[r]] = exchanges
	}
	k.cursor[k.compute[r]] = compute
	if tail > 0 {
		k.cursor[k.gradients(r)] = tail
	}
}

// collectives counts those of a copy of a stage with so many microbatches, and the parts into
// which its actions are cut beyond the first.
func (k *Packer) collectives(s, microbatches int32) (n, parts int32) {
	times, buckets := int32(1), int32(len(k.Sync.Buckets[s]))
	if k.Sync.EveryMicrobatch {
		times = microbatches
	}
	n = times * buckets
	if k.Sync.Overlap && buckets > 0 && !k.divided(s) {
		parts = times * (buckets - 1)
	}
	if k.gathersUpdated() {
		n++
		if k.Sync.expertParameters(s) > 0 {
			n++
		}
	}
	if k.ahead() {
		pieces := int32(len(k.Sync.Ahead[s]))
		n += pieces
		if !k.divided(s) {
			parts += max(0, pieces-1)
		}
	}
	return n, parts
}

// gathersUpdated reports whether updated parameters are gathered at the end.
func (k *Packer) gathersUpdated() bool {
	return k.Optimizer && k.Sync.Sharded && k.Sync.Ahead == nil && k.Sync.active(k.Shape)
}

// reserve lays out the streams of the first replica, and memory for all that are packed.
func (k *Packer) reserve(folded bool) error {
	size := int64(0)
	for _, count := range k.cursor {
		size += int64(count)
	}
	replicas := int64(k.Shape.Replicas)
	if err := checkTasks(size * replicas); err != nil {
		return err
	}
	all := size
	if !folded {
		all *= replicas
	}
	if err := ram.CheckPacked(float64(all)); err != nil {
		return err
	}
	out, n, rank := &k.packed, int32(0), int32(0)
	for s := range k.cursor {
		for ; rank < k.graph.Streams[s].Rank; rank++ {
			out.First = append(out.First, int32(s))
		}
		count := k.cursor[s]
		k.cursor[s] = n
		n += count
		out.Begin = append(out.Begin, n)
	}
	out.First = append(out.First, int32(len(k.cursor)))
	out.Tasks = grown(out.Tasks, int(all))[:n]
	return nil
}
