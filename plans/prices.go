package plans

import (
	"cmp"
	"slices"
	"sync"

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
}

// newStagePrices counts the memory of stages without wiring any tasks: its graph has groups only.
func newStagePrices(d *configs.Division) *stagePrices {
	pipeline := wiring.Pipeline{Shape: d.Shape, Placement: d.Workload.Placement}
	d.Workload.Fill(&pipeline)
	p := &stagePrices{
		Division: d, boundaries: pipeline.Boundaries, exchanges: pipeline.Exchanges, sync: pipeline.Sync.Derived(),
	}
	p.graph = &graph.Graph{
		Name: d.Schedule.Name, Shape: d.Shape, Placement: d.Workload.Placement, Layered: d.Workload.Zero == 3,
	}
	p.group = pipeline.AddGroups(p.graph)
	p.ledger = memory.NewLedger(d.Workload, p.graph)
	return p
}

// price prices the stages.
func (p *stagePrices) price() (err error) {
	if p.all, err = costmodel.NewPrices(p.Machine, p.Workload, p.ledger, p.graph); err == nil {
		p.costs, err = p.all.Unlaunched(p.graph)
	}
	return err
}

// sharedPrices are the stages and prices that the simulations of a stage group share.
type sharedPrices struct {
	*configs.Division
	*costmodel.Prices
	mutex    sync.Mutex
	compared bool // whether alike is known
	alike    bool // whether one replica stands for all
}

func (p *stagePrices) shared() *sharedPrices {
	return &sharedPrices{Division: p.Division, Prices: p.all}
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
