package plans

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"psim/configs"
	"psim/costmodel"
	"psim/costmodel/memory"
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// stagePrices price the tasks of a stage group.
type stagePrices struct {
	*configs.Division
	graph      *graph.Graph   // without tasks
	ledger     *memory.Ledger // of the stages
	all        *costmodel.Prices
	costs      func(*graph.Task) graph.Cost // without launches
	boundaries []wiring.Boundary            // sizes of messages
	exchanges  []wiring.Exchanges           // of experts, by stage; nil for none
	sync       wiring.Sync                  // sums over replicas
	group      func(rank int32, expert bool) int32
	routes     []route // by copy of the stages, once the step is bounded
	tails      tails
}

// newStagePrices counts the memory of stages without wiring any tasks: its graph has no groups yet.
func newStagePrices(d *configs.Division) *stagePrices {
	p := &stagePrices{Division: d, boundaries: d.Workload.Boundaries(), exchanges: d.Workload.WiredExchanges()}
	p.graph = &graph.Graph{
		Name: d.Schedule.Name, Shape: d.Shape, Placement: d.Workload.Placement, Layered: d.Workload.Layered(),
	}
	p.ledger = memory.NewLedger(d.Workload, p.graph)
	return p
}

// price prices the stages.
func (g *stagePrices) price() (err error) {
	pipeline := wiring.Pipeline{Shape: g.Shape, Placement: g.Workload.Placement}
	g.Workload.Fill(&pipeline)
	g.sync, g.group = pipeline.Sync.Derived(), pipeline.AddGroups(g.graph)
	if g.all, err = costmodel.NewPrices(g.Machine, g.Workload, g.ledger, g.graph); err == nil {
		g.costs, err = g.all.Unlaunched(g.graph)
	}
	return err
}

// sharedPrices are the stages and prices that the simulations of a stage group share.
type sharedPrices struct {
	*configs.Division
	*costmodel.Prices
	routes   []route // by copy of the stages
	tails    tails
	mutex    sync.Mutex
	compared bool // whether alike is known
	alike    bool // whether one replica stands for all
}

func (g *stagePrices) shared() *sharedPrices {
	return &sharedPrices{Division: g.Division, Prices: g.all, routes: g.routes, tails: g.tails}
}

// sharedPrices returns the group's shared prices, and makes them again if they were
// forgotten.
func (g *stageGroup) sharedPrices() (*sharedPrices, error) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.shared == nil {
		cut, err := g.plan.cut()
		if err != nil {
			return nil, err
		}
		p := newStagePrices(cut.Divide())
		if err := p.price(); err != nil {
			return nil, err
		}
		p.bound()
		g.shared = p.shared()
	}
	return g.shared, nil
}

// forget frees the memory of the shared prices.
func (g *stageGroup) forget() {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.shared, g.cached = nil, false
}

// A priceCache lists the groups whose shared prices are in memory.
type priceCache struct {
	groups  []*stageGroup
	tensors int // of all groups
}

// mostTensors bounds the cache: a mixture of hundreds of experts has tens of thousands of
// tensors.
const mostTensors = 1 << 19

// add puts a group into the cache. While the cache is full, it forgets the group whose plans are the last to
// be simulated: those with the highest bound.
func (c *priceCache) add(g *stageGroup) {
	if g.cached || g.left == 0 {
		return
	}
	g.cached = true
	c.groups, c.tensors = append(c.groups, g), c.tensors+g.tensors
	for c.tensors > mostTensors && len(c.groups) > 1 {
		c.remove(slices.MaxFunc(c.groups, func(a, b *stageGroup) int { return cmp.Compare(a.least, b.least) }))
	}
}

// decided notes that a plan of a group needs the group's prices no more.
func (c *priceCache) decided(g *stageGroup) {
	if g.left--; g.left > 0 {
		c.add(g) // its prices may have been made again
	} else {
		c.remove(g)
	}
}

// remove forgets the prices of a group.
func (c *priceCache) remove(g *stageGroup) {
	if i := slices.Index(c.groups, g); i >= 0 {
		c.groups, c.tensors = slices.Delete(c.groups, i, i+1), c.tensors-g.tensors
	}
	g.forget()
}

// replicasAlike reports whether one replica stands for all: replicas do the same at the same
// time if a message or collective of every stream costs the same in each, on links that they
// do not share. The answer does not depend on the order of tasks, so the plans of a group are
// compared once.
func (p *sharedPrices) replicasAlike(g *graph.Graph, costs graph.Costs) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if !p.compared {
		costs.Host = nil
		p.alike = p.Workload.Shards == nil && p.Machine.Host.Threads != "node" && g.Routes().Alike(costs)
		p.compared = true
	}
	return p.alike
}

// exchange prices the all-to-alls of an expert group in the forward of a stage, and in its
// backward.
func (g *stagePrices) exchange(stage int, microbatch int32) (forward, backward time.Duration) {
	if g.exchanges == nil {
		return 0, 0
	}
	rank, x := g.graph.Placement.Rank(int32(stage), microbatch), &g.exchanges[stage]
	for part, bytes := range slices.Concat(x.Forward, x.Backward) {
		busy := g.costs(&graph.Task{
			Kind: graph.AllToAll, Part: uint16(part), Rank: rank, Stage: int32(stage), Microbatch: microbatch,
			Peer: g.graph.Experts.ExchangeGroup(0, rank, int32(g.Shape.Ranks)), Bytes: bytes * g.Workload.Samples[0],
		}).Busy
		if part < len(x.Forward) {
			forward += busy
		} else {
			backward += busy
		}
	}
	return forward, backward
}

// task prices a compute task of the first replica.
func (g *stagePrices) task(k graph.Kind, rank int32, stage int, microbatch int32) graph.Cost {
	t := computeTask(k, rank, stage, microbatch)
	return g.costs(&t)
}

func computeTask(k graph.Kind, rank int32, stage int, microbatch int32) graph.Task {
	return graph.Task{Kind: k, Rank: rank, Stage: int32(stage), Microbatch: microbatch, Peer: graph.None}
}

// message prices the message of a stage to the next stage, or back to the one before. It
// costs nothing within a rank, before the first stage and after the last.
func (g *stagePrices) message(k graph.Kind, stage, to int, microbatch int32) graph.Cost {
	t, next := g.messageTask(k, stage, to, microbatch)
	if !next || g.graph.Placement.Together(stage, to) {
		return graph.Cost{}
	}
	return g.costs(&t)
}

// messageTask returns that message, or what would be one within a rank, and false before the first stage and
// after the last.
func (g *stagePrices) messageTask(k graph.Kind, stage, to int, microbatch int32) (t graph.Task, next bool) {
	at := g.graph.Placement
	if min(stage, to) < 0 || max(stage, to) == at.Stages() {
		return t, false
	}
	bytes := g.boundaries[min(stage, to)].Forward
	if k == graph.SendBackward {
		bytes = g.boundaries[min(stage, to)].Backward
	}
	return graph.Task{
		Kind: k, Rank: at.Rank(int32(stage), microbatch), Peer: at.Rank(int32(to), microbatch),
		Stage: int32(stage), Microbatch: microbatch, Bytes: bytes * g.Workload.Samples[0],
	}, true
}
