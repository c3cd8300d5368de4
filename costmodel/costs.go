package costmodel

import (
	"fmt"
	"time"

	"psim/schedules/graph"
)

// Costs prices the tasks of a graph that was built from this workload, on a
// machine.
func (w Workload) Costs(m Machine, g *graph.Graph) (graph.Costs, error) {
	compute, err := m.Compute(w.Training)
	if err != nil {
		return graph.Costs{}, err
	}
	if err := m.check(g); err != nil {
		return graph.Costs{}, err
	}
	p := &pricer{
		workload: w, machine: m, compute: compute, graph: g,
		optimizer: make([]time.Duration, g.Ranks()/w.replicas()),
	}
	p.versions = versionsOf(g)
	p.buckets = bucketsOf(g, len(w.Layers))
	p.gatherUnits()
	p.priceStages()
	p.findShared()
	p.followMemory()
	if err := p.checkTimes(); err != nil {
		return graph.Costs{}, err
	}
	p.priceSlices()
	p.priceOptimizers()
	for _, ranks := range g.Groups {
		p.slowest = append(p.slowest, m.Group(ranks))
	}
	costs := graph.Costs{Task: p.task, Persistent: w.Persistent(g.Ranks())}
	if costs.Host = m.threads(g); costs.Host != nil {
		p.priceLaunches()
		costs.Task = p.launching
	}
	return costs, nil
}

// check reports that the machine lacks a link that the graph needs.
func (m *Machine) check(g *graph.Graph) error {
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
func bucketsOf(g *graph.Graph, stages int) [][]int64 {
	buckets := make([][]int64, stages)
	for i := range g.Tasks {
		t := &g.Tasks[i]
		sums := t.Kind == graph.AllReduce || t.Kind == graph.ReduceScatter
		if sums && t.Stage != graph.None && int(t.Rank) < g.Shape.Ranks && int(t.Part) == len(buckets[t.Stage]) {
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
	graph     *graph.Graph
	buckets   [][]int64       // by stage: gradients in bytes
	units     [][]int64       // by stage: parameters of what ZeRO 3 gathers
	gathered  []int64         // by stage: the same in bytes, where the graph does
	shared    []sharing       // by stage
	late      []bool          // by stage and microbatch
	sizes     []int64         // the distinct sizes of microbatches
	sizeOf    []int32         // by microbatch: index into prices[stage]
	prices    [][]price       // by stage and size of microbatch
	rooms     [][]rooms       // likewise
	sliced    []sliced        // by stage and copy
	launches  [][]launches    // by stage and size of microbatch; nil where they cost nothing
	tensors   []int           // by rank of a replica: of parameters
	optimizer []time.Duration // by rank of a replica
	slowest   []Link          // by group
	versions  versions        // of weights that are stashed
}

// sliced is how a stage's backward is cut where gradient buckets are complete.
type sliced struct {
	microbatch int32             // whose backward it is; None for all
	times      [][]time.Duration // by size of microbatch; nil where it is whole
	inner      [][]graph.Inner
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
	slices := slicesOf(p.graph, len(p.workload.Layers))
	for s := range p.workload.Layers {
		var prices []price
		cuts := p.workload.cuts(s, p.buckets[s], slices[s])
		for _, n := range p.sizes {
			price := p.workload.taskPrice(p.compute, s, n)
			price.segments = p.workload.segments(s, n, cuts)
			prices = append(prices, price)
		}
		p.prices = append(p.prices, prices)
	}
}

// slicesOf is into how many parts every stage's backward is cut.
func slicesOf(g *graph.Graph, stages int) []int {
	parts := make([]int, stages)
	for i := range g.Tasks {
		if t := &g.Tasks[i]; t.Kind.Compute() {
			parts[t.Stage] = max(parts[t.Stage], int(t.Part)+1)
		}
	}
	return parts
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
	p.sliced = make([]sliced, len(p.workload.Layers)+len(p.graph.Placement.Second))
	for i := range p.graph.Tasks {
		t := &p.graph.Tasks[i]
		if !t.Kind.Compute() || t.Part == 0 || p.sliceOf(t).times != nil {
			continue
		}
		cut := sliced{microbatch: t.Microbatch}
		if p.workload.Zero >= 2 {
			cut.microbatch = graph.None
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
func (p *pricer) sliceOf(t *graph.Task) *sliced {
	return &p.sliced[p.graph.Placement.Copy(t.Stage, t.Microbatch)]
}

// priceOptimizers prices the update of every rank's parameters: it reads the
// gradients and reads and writes the state, of its share.
func (p *pricer) priceOptimizers() {
	state := p.workload.state()
	bytes := make([]int64, len(p.optimizer))
	perParameter := state.Gradient*(1+p.workload.Training.GradientPasses()) + 2*state.Optimizer + state.Parameter
	if state.Parameter == 4 { // without a master copy the parameter itself is read too
		perParameter += state.Parameter
	}
	for s := range p.workload.Layers {
		for _, r := range p.workload.Placement.Ranks(s) {
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
func (p *pricer) task(t *graph.Task) graph.Cost {
	switch t.Kind {
	case graph.Forward, graph.Backward, graph.InputGradient, graph.WeightGradient:
		cost := p.computeTask(t)
		if p.versions.freed[action{t.Stage, t.Microbatch}] && t.Kind == graph.Backward {
			cost.BytesAtEnd -= p.workload.weights(t.Stage)
		}
		return cost
	case graph.SendForward, graph.SendBackward:
		cost := p.machine.message(t)
		// Both sides hold the whole tensor, whatever part of it is sent.
		if t.Kind == graph.SendForward {
			cost.BytesAtStart, cost.BytesAtEnd = p.lastOf(int(t.Stage), t).result, -p.lastOf(int(t.Stage), t).output
		} else {
			cost.BytesAtStart = p.lastOf(int(t.Stage)-1, t).result
			cost.BytesAtEnd = -cost.BytesAtStart
		}
		return cost
	case graph.AllReduce, graph.ReduceScatter, graph.AllGather:
		return p.collective(t)
	case graph.Average:
		return graph.Cost{Busy: p.average(t)}
	case graph.Optimizer:
		cost := graph.Cost{Busy: p.optimizer[int(t.Rank)%len(p.optimizer)]}
		if p.versions.kept[action{t.Stage, t.Microbatch}] {
			cost.BytesAtStart = p.workload.weights(t.Stage)
		}
		return cost
	}
	return graph.Cost{}
}

// collective prices a fused collective.
func (p *pricer) collective(t *graph.Task) graph.Cost {
	cost := graph.Cost{Busy: CollectiveTime(t.Kind, p.slowest[t.Peer], len(p.graph.Groups[t.Peer]), t.Bytes)}
	cost.BytesAtStart, cost.BytesAtEnd = p.collectiveBytes(t)
	return cost
}

// message prices a transfer between two ranks.
func (m *Machine) message(t *graph.Task) graph.Cost {
	link, queue := m.Between(t.Rank, t.Peer)
	return graph.Cost{Busy: link.Transfer(t.Bytes), Delay: time.Duration(link.Latency), Link: queue}
}

// lastOf is the segment whose result a stage hands on, for a task's microbatch.
func (p *pricer) lastOf(stage int, t *graph.Task) *segment {
	return p.prices[stage][p.sizeOf[t.Microbatch]].last()
}

// computeTask prices F, B, I and W. Parameters that were gathered for it are
// freed at its end.
func (p *pricer) computeTask(t *graph.Task) graph.Cost {
	size := p.sizeOf[t.Microbatch]
	price, rooms := &p.prices[t.Stage][size], &p.rooms[t.Stage][size]
	var cost graph.Cost
	switch t.Kind {
	case graph.Forward:
		cost.Busy, cost.Inner = price.forward, some(&price.inner.forward)
		rooms.forward.set(&cost)
	case graph.InputGradient:
		cost.Busy, cost.Inner = total(price.recompute, price.input), some(&price.inner.input)
		rooms.input[p.held(t)].set(&cost)
		cost.BytesAtEnd += p.stays(t)
	case graph.WeightGradient:
		return p.part(t, price.weight, &price.inner.weight, rooms.weight, rooms.weights)
	case graph.Backward:
		cost = p.part(t, price.backward(), &price.inner.whole, rooms.backward[p.held(t)], rooms.backwards[p.held(t)])
	}
	cost.BytesAtEnd -= p.gathered[t.Stage]
	return cost
}

// part prices a B or W, or a slice of one: the time up to its bucket, and the
// memory of the segments that run in it. Under ZeRO 2 and 3 it also makes room for
// the whole gradients, which are there until they have been reduced and scattered.
func (p *pricer) part(t *graph.Task, time time.Duration, inner *graph.Inner, whole room, parts []room) graph.Cost {
	cut, buckets := p.sliceOf(t), p.buckets[t.Stage]
	cost, last := graph.Cost{Busy: time, Inner: some(inner)}, true
	if cut.times != nil && (cut.microbatch == t.Microbatch || cut.microbatch == graph.None) {
		cost.Busy = cut.times[p.sizeOf[t.Microbatch]][t.Part]
		whole = parts[t.Part]
		last = int(t.Part) == len(buckets)-1
		cost.Inner = some(&cut.inner[p.sizeOf[t.Microbatch]][t.Part])
		buckets = buckets[t.Part : t.Part+1]
	}
	whole.set(&cost)
	if last {
		cost.BytesAtEnd += p.stays(t)
	}
	if p.workload.Zero >= 2 {
		for _, b := range buckets {
			cost.BytesAtStart += b
		}
	}
	return cost
}
