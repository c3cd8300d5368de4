package plans

import (
	"sync"

	"psim/configs"
	"psim/costmodel"
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// A ready has what the plans of a unit have in common when they are simulated: stages, and
// their prices.
type sharedPrices struct {
	*configs.Division
	*costmodel.Prices
	mutex    sync.Mutex
	compared bool // whether the replicas have been
	alike    bool // whether one stands for all
}

// ready returns what the plans of a unit have in common, made again where it was forgotten.
func (u *stageGroup) sharedPrices() (*sharedPrices, error) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	if u.shared == nil {
		p, err := newStagePrices(u.cut.Divide())
		if err != nil {
			return nil, err
		}
		u.shared = p.shared()
	}
	return u.shared, nil
}

func (p *stagePrices) shared() *sharedPrices {
	return &sharedPrices{Division: p.Division, Prices: p.all}
}

// forget drops it, which takes memory.
func (u *stageGroup) forget() {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	u.shared, u.cached = nil, false
}

// A kept lists the units whose prices are kept, first those longest kept.
type priceCache struct {
	units   []*stageGroup
	tensors int // of all
}

// mostTensors bounds what is kept: a mixture of hundreds of experts has tens of thousands.
const mostTensors = 2 << 20

// add notes that the prices of a unit are kept, and forgets others where they are many.
func (k *priceCache) add(u *stageGroup) {
	if u.cached {
		return
	}
	u.cached = true
	k.units, k.tensors = append(k.units, u), k.tensors+u.tensors
	for k.tensors > mostTensors && len(k.units) > 1 {
		k.tensors -= k.units[0].tensors
		k.units[0].forget()
		k.units = k.units[1:]
	}
}

// price hands the costs of a graph's tasks on, if of the first replica that stands for all:
// these do the same then at the same time, and a message or collective of every stream
// costs the same in each, on links that they do not share. Which these are the order does
// not say.
func (u *sharedPrices) price(g *graph.Graph, folded bool, tied int, to func(graph.Costs) error) error {
	costs, err := u.Costs(g)
	if err != nil {
		return errImpossible
	}
	if folded && !u.same(g, costs, tied) {
		return graph.ErrNotAlike
	}
	return to(costs)
}

// same reports whether one replica stands for all.
func (u *sharedPrices) same(g *graph.Graph, costs graph.Costs, tied int) bool {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	if !u.compared {
		costs.Host = nil
		u.alike = u.Workload.Shards == nil && u.Machine.Host.Threads != "node" && g.Alike(costs, tied)
		u.compared = true
	}
	return u.alike
}

// prices hold what a unit is made from.
type stagePrices struct {
	*configs.Division
	graph      *graph.Graph // without tasks
	all        *costmodel.Prices
	costs      graph.Costs
	boundaries []wiring.Boundary  // sizes of messages
	exchanges  []wiring.Exchanges // of experts, by stage; nil for none
	sync       wiring.Sync        // what is summed over replicas
	group      func(rank int32, expert bool) int32
}

// pricesOf prices tasks that are not there: of a graph with groups and nothing else.
func newStagePrices(d *configs.Division) (p stagePrices, err error) {
	whole := wiring.Pipeline{Shape: d.Shape, Placement: d.Workload.Placement}
	d.Workload.Fill(&whole)
	p = stagePrices{Division: d, boundaries: whole.Boundaries, exchanges: whole.Exchanges, sync: whole.Sync.Derived()}
	p.graph = &graph.Graph{Name: d.Schedule.Name, Shape: d.Shape, Placement: d.Workload.Placement, Layered: d.Workload.Zero == 3}
	p.group = whole.AddGroups(p.graph)
	if p.all, err = costmodel.NewPrices(d.Machine, d.Workload, p.graph); err != nil {
		return p, err
	}
	p.costs, err = p.all.Costs(p.graph)
	return p, err
}
