package plans

import (
	"sync"

	"psim/configs"
	"psim/costmodel"
	"psim/schedules/graph"
)

// A ready has what the plans of a unit have in common when they are simulated: stages, and
// their prices.
type ready struct {
	*configs.Division
	*costmodel.Prices
	mutex    sync.Mutex
	compared bool // whether the replicas have been
	alike    bool // whether one stands for all
}

// ready returns what the plans of a unit have in common, made again where it was forgotten.
func (u *unit) ready() (*ready, error) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	if u.kept == nil {
		p, err := pricesOf(u.cut.Divide())
		if err != nil {
			return nil, err
		}
		u.kept = p.ready()
	}
	return u.kept, nil
}

func (p *prices) ready() *ready { return &ready{Division: p.Division, Prices: p.all} }

// forget drops it, which takes memory.
func (u *unit) forget() {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	u.kept, u.noted = nil, false
}

// A kept lists the units whose prices are kept, first those longest kept.
type kept struct {
	units   []*unit
	tensors int // of all
}

// mostTensors bounds what is kept: a mixture of hundreds of experts has tens of thousands.
const mostTensors = 2 << 20

// add notes that the prices of a unit are kept, and forgets others where they are many.
func (k *kept) add(u *unit) {
	if u.noted {
		return
	}
	u.noted = true
	k.units, k.tensors = append(k.units, u), k.tensors+u.tensors
	for k.tensors > mostTensors && len(k.units) > 1 {
		k.tensors -= k.units[0].tensors
		k.units[0].forget()
		k.units = k.units[1:]
	}
}

// same reports whether one replica stands for all: these do the same then at the same time, and a
// message or collective of every stream costs the same in each, on links that they do not share.
// The order says nothing about that, so plans of a unit are compared once.
func (u *ready) same(g *graph.Graph, costs graph.Costs) bool {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	if !u.compared {
		costs.Host = nil
		u.alike = u.Workload.Shards == nil && u.Machine.Host.Threads != "node" && g.Routes().Alike(costs)
		u.compared = true
	}
	return u.alike
}
