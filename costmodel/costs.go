package costmodel

import (
	"fmt"
	"time"

	"psim/schedules"
)

// Costs prices the tasks of a graph that was built from this workload, on a
// machine.
func (w Workload) Costs(m Machine, g *schedules.Graph) (schedules.Costs, error) {
	compute, err := m.Compute(w.Training)
	if err != nil {
		return schedules.Costs{}, err
	}
	if err := m.check(g); err != nil {
		return schedules.Costs{}, err
	}
	p := &pricer{
		workload: w, machine: m, compute: compute, graph: g,
		optimizer: make([]time.Duration, g.Ranks()/w.replicas()),
	}
	p.buckets = bucketsOf(g, len(w.Layers))
	p.gathered = gatheredOf(g, len(w.Layers))
	p.priceStages()
	if err := p.checkTimes(); err != nil {
		return schedules.Costs{}, err
	}
	p.priceSlices()
	p.priceOptimizers()
	for _, ranks := range g.Groups {
		p.slowest = append(p.slowest, m.Slowest(ranks))
	}
	costs := schedules.Costs{Task: p.task, Persistent: w.Persistent(g.Ranks())}
	if costs.Host = m.threads(g); costs.Host != nil {
		p.priceLaunches()
		costs.Task = p.launching
	}
	return costs, nil
}

// check reports that the machine lacks a link that the graph needs.
func (m *Machine) check(g *schedules.Graph) error {
	what, devices := "ranks", g.Ranks()*m.tensor()
	if m.tensor() > 1 {
		what = "devices"
	}
	if n := m.DevicesPerNode; n > 0 && n%m.tensor() != 0 && m.tensor()%n != 0 {
		return fmt.Errorf("devices_per_node = %d: some groups of parallel.tensor = %d would be in two nodes; one must divide the other", n, m.tensor())
	}
	if devices > 1 && m.Link.Bandwidth == 0 && m.DevicesPerNode != 1 {
		return fmt.Errorf("link: %d %s need one between them; name it, such as link = \"pcie4\" (psim list devices), or give [machine.link] bandwidth and latency", devices, what)
	}
	if nodes := m.Nodes(g.Ranks()); nodes > 1 && m.Network.Bandwidth == 0 {
		return fmt.Errorf("network: %d %s take %d nodes (devices_per_node = %d), and no network joins them; name one, such as network = \"ib-hdr\"",
			devices, what, nodes, m.DevicesPerNode)
	}
	return nil
}

// bucketsOf reads the sizes of the gradient buckets of every stage off the
// first replica of a graph.
func bucketsOf(g *schedules.Graph, stages int) [][]int64 {
	buckets := make([][]int64, stages)
	for i := range g.Tasks {
		t := &g.Tasks[i]
		sums := t.Kind == schedules.AllReduce || t.Kind == schedules.ReduceScatter
		if sums && t.Stage != schedules.None && int(t.Rank) < g.Shape.Ranks && int(t.Part) == len(buckets[t.Stage]) {
			buckets[t.Stage] = append(buckets[t.Stage], t.Bytes)
		}
	}
	return buckets
}

// pricer holds what pricing a task looks up.
type pricer struct {
	workload  Workload
	machine   Machine
	compute   Compute
	graph     *schedules.Graph
	buckets   [][]int64       // by stage: gradients in bytes
	gathered  []int64         // by stage: parameters in bytes that each use gathers
	sizes     []int64         // the distinct sizes of microbatches
	sizeOf    []int32         // by microbatch: index into prices[stage]
	prices    [][]price       // by stage and size of microbatch
	sliced    []sliced        // by stage and copy
	launches  [][]launches    // by stage and size of microbatch; nil where they cost nothing
	tensors   []int           // by rank of a replica: of parameters
	optimizer []time.Duration // by rank of a replica
	slowest   []Link          // by group
}

// sliced is how a stage's backward is cut where gradient buckets are complete.
type sliced struct {
	microbatch int32             // whose backward it is; None for all
	times      [][]time.Duration // by size of microbatch; nil where it is whole
	inner      [][]schedules.Inner
}

// priceStages prices every stage for every distinct size of microbatch.
func (p *pricer) priceStages() {
	index := map[int64]int32{}
	for _, n := range p.workload.Samples {
		if _, ok := index[n]; !ok {
			index[n] = int32(len(p.sizes))
			p.sizes = append(p.sizes, n)
		}
		p.sizeOf = append(p.sizeOf, index[n])
	}
	for s := range p.workload.Layers {
		var prices []price
		for _, n := range p.sizes {
			prices = append(prices, p.workload.price(p.compute, s, n))
		}
		p.prices = append(p.prices, prices)
	}
}

// checkTimes refuses times that are cut off at the longest that can be added.
func (p *pricer) checkTimes() error {
	for s, prices := range p.prices {
		for i := range prices {
			if prices[i].forward >= maxTime || prices[i].backward() >= maxTime {
				return fmt.Errorf("compute: stage %d would take more than %.0f hours for a microbatch on this device; check its rates and launch cost", s, float64(maxTime)/3.6e12)
			}
		}
	}
	return nil
}

// priceSlices finds the backwards that every stage has in slices, and prices
// them for every size of microbatch.
func (p *pricer) priceSlices() {
	p.sliced = make([]sliced, len(p.workload.Layers)+len(p.graph.SecondRank))
	for i := range p.graph.Tasks {
		t := &p.graph.Tasks[i]
		if !t.Kind.Compute() || t.Part == 0 || p.sliceOf(t).times != nil {
			continue
		}
		cut := sliced{microbatch: t.Microbatch}
		if p.workload.Zero >= 2 {
			cut.microbatch = schedules.None
		}
		for size, n := range p.sizes {
			times := p.workload.slice(p.compute, t.Kind, int(t.Stage), n, p.buckets[t.Stage])
			whole := p.prices[t.Stage][size].inner.of(t.Kind)
			cut.times, cut.inner = append(cut.times, times), append(cut.inner, whole.slices(times))
		}
		*p.sliceOf(t) = cut
	}
}

// sliceOf is how backwards of a task's stage, on its copy, are cut.
func (p *pricer) sliceOf(t *schedules.Task) *sliced {
	return &p.sliced[p.graph.CopyOf(t.Stage, t.Microbatch)]
}

// priceOptimizers prices the update of every rank's parameters: it reads the
// gradients and reads and writes the state, of its share.
func (p *pricer) priceOptimizers() {
	state := p.workload.state()
	bytes := make([]int64, len(p.optimizer))
	perParameter := state.Gradient + 2*state.Optimizer + state.Parameter
	if state.Parameter == 4 { // without a master copy the parameter itself is read too
		perParameter += state.Parameter
	}
	for s := range p.workload.Layers {
		for _, r := range p.workload.holders(s) {
			bytes[r] += p.workload.share(p.workload.padded(s)*perParameter, 1)
		}
	}
	for r := range bytes {
		p.optimizer[r] = p.compute.Move(bytes[r])
	}
	p.useMeasuredUpdates()
	if p.workload.Training.Clip {
		p.priceClipping()
	}
}

// task prices one task.
func (p *pricer) task(t *schedules.Task) schedules.Cost {
	switch t.Kind {
	case schedules.Forward, schedules.Backward, schedules.InputGradient, schedules.WeightGradient:
		return p.computeTask(t)
	case schedules.SendForward, schedules.SendBackward:
		cost := p.machine.message(t)
		// Both sides hold the whole tensor, whatever part of it is sent.
		if t.Kind == schedules.SendForward {
			cost.BytesAtStart, cost.BytesAtEnd = p.result(int(t.Stage), t), -p.prices[t.Stage][p.sizeOf[t.Microbatch]].output
		} else {
			cost.BytesAtStart = p.result(int(t.Stage)-1, t)
			cost.BytesAtEnd = -cost.BytesAtStart
		}
		return cost
	case schedules.AllReduce, schedules.ReduceScatter, schedules.AllGather:
		return p.collective(t)
	case schedules.Average:
		return schedules.Cost{Busy: p.average(t)}
	case schedules.Optimizer:
		return schedules.Cost{Busy: p.optimizer[int(t.Rank)%len(p.optimizer)]}
	}
	return schedules.Cost{}
}

// collective prices a fused collective. Under ZeRO 2 and 3 whole gradients are
// freed when they have been summed; a unit of ZeRO 3 has room for its whole
// parameters from when they start to be gathered.
func (p *pricer) collective(t *schedules.Task) schedules.Cost {
	cost := schedules.Cost{Busy: CollectiveTime(t.Kind, p.slowest[t.Peer], len(p.graph.Groups[t.Peer]), t.Bytes)}
	switch sums := t.Kind != schedules.AllGather && t.Stage != schedules.None; {
	case sums && p.workload.Zero >= 2:
		cost.BytesAtEnd = -t.Bytes
	case t.Kind == schedules.AllGather && t.Microbatch != schedules.None:
		cost.BytesAtStart = t.Bytes
	}
	return cost
}

// message prices a transfer between two ranks.
func (m *Machine) message(t *schedules.Task) schedules.Cost {
	link, queue := m.Between(t.Rank, t.Peer)
	return schedules.Cost{Busy: link.Transfer(t.Bytes), Delay: time.Duration(link.Latency), Link: queue}
}

// computeTask prices F, B, I and W. A forward takes over the buffer its input
// came in and makes room for its output; a backward makes room for the
// gradient it sends and frees the one it received. Parameters that were
// gathered for it are freed at its end.
func (p *pricer) computeTask(t *schedules.Task) schedules.Cost {
	s := int(t.Stage)
	price := &p.prices[s][p.sizeOf[t.Microbatch]]
	received := p.result(s-1, t) // the size of this stage's input, and of the gradient it sends
	switch t.Kind {
	case schedules.Forward:
		return schedules.Cost{
			Busy:         price.forward,
			BytesAtStart: price.keptForInput + price.keptForWeight + price.output - p.adopted(s, t),
			BytesAtEnd:   -p.gathered[s],
			Inner:        some(&price.inner.forward),
		}
	case schedules.InputGradient:
		return schedules.Cost{
			Inner:        some(&price.inner.input),
			Busy:         total(price.recompute, price.input),
			BytesAtStart: received + price.inputPeak,
			BytesAtEnd:   price.recomputedForWeight + price.between - price.keptForInput - price.inputPeak - price.result - p.gathered[s],
		}
	case schedules.WeightGradient:
		return p.part(t, schedules.Cost{
			Busy:       price.weight,
			Inner:      some(&price.inner.weight),
			BytesAtEnd: -price.keptForWeight - price.recomputedForWeight - price.between,
		})
	}
	return p.part(t, schedules.Cost{
		Busy:         price.backward(),
		Inner:        some(&price.inner.whole),
		BytesAtStart: received + price.backwardPeak,
		BytesAtEnd:   -price.keptForInput - price.keptForWeight - price.backwardPeak - price.result - p.gathered[s],
	})
}

// result is the size of what a stage sends on for the task's microbatch.
func (p *pricer) result(stage int, t *schedules.Task) int64 {
	if stage < 0 {
		return 0
	}
	return p.prices[stage][p.sizeOf[t.Microbatch]].result
}

// adopted is the buffer that a stage's input is in when its forward starts: a
// message's, or on the same rank the output of the stage before, if that
// stage does not keep it.
func (p *pricer) adopted(stage int, t *schedules.Task) int64 {
	if stage == 0 {
		return 0
	}
	before := p.prices[stage-1][p.sizeOf[t.Microbatch]]
	if p.workload.StageRank[stage-1] == p.workload.StageRank[stage] {
		return before.output
	}
	return before.result
}

// part gives a slice of a backward its share: the time up to its bucket, the
// bytes at the start of the first slice and at the end of the last. Under ZeRO
// 2 and 3 it also makes room for the whole gradients, which are there until they
// have been reduced and scattered.
func (p *pricer) part(t *schedules.Task, cost schedules.Cost) schedules.Cost {
	cut := p.sliceOf(t)
	buckets := p.buckets[t.Stage]
	if cut.times != nil && (cut.microbatch == t.Microbatch || cut.microbatch == schedules.None) {
		times := cut.times[p.sizeOf[t.Microbatch]]
		cost.Busy = times[t.Part]
		cost.Inner = some(&cut.inner[p.sizeOf[t.Microbatch]][t.Part])
		if t.Part > 0 {
			cost.BytesAtStart = 0
		}
		if int(t.Part) < len(times)-1 {
			cost.BytesAtEnd = 0
		}
		buckets = buckets[t.Part : t.Part+1]
	}
	if p.workload.Zero >= 2 {
		for _, b := range buckets {
			cost.BytesAtStart += b
		}
	}
	return cost
}
