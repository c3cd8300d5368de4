package costmodel

import "psim/schedules/graph"

// normBytes is the square of a norm, in fp32.
const normBytes = 4

// priceClipping adds to the update of every rank what clipping the norm of all
// gradients takes beside scaling them: reading its own, and summing one number over
// all devices that hold different ones, those of a replica, or of all where ZeRO
// shards them. Ranks do not wait for each other there: the sum of gradients has
// made them already.
func (p *pricer) priceClipping() {
	w := p.workload
	ranks := p.graph.Shape.Ranks
	if w.Zero > 0 {
		ranks = p.graph.Ranks()
	}
	all := make([]int32, ranks)
	for r := range all {
		all[r] = int32(r)
	}
	link := p.machine.Slowest(all)
	if ranks == 1 {
		link = p.machine.group()
	}
	sum := CollectiveTime(graph.AllReduce, link, ranks*p.machine.tensor(), normBytes)
	bytes := make([]int64, len(p.optimizer))
	for s := range w.Layers {
		for _, r := range w.Placement.Ranks(s) {
			bytes[r] += w.share(w.padded(s)*w.state().Gradient, 1)
		}
	}
	for r := range p.optimizer {
		p.optimizer[r] = total(p.optimizer[r], p.compute.Move(bytes[r]), sum)
	}
}
