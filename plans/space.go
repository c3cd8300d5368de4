package plans

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"psim/configs"
	"psim/costmodel/group"
	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/schedules"
	"psim/schedules/order"
)

// Any is the trainer that runs everything.
const Any = "any"

// A Space is all plans of a configuration on a number of devices.
type Space struct {
	Devices int
	Global  int64 // samples of a step
	Plans   []Plan
	// WithinNode counts the devices of a node where no network joins nodes, so that no plan
	// can have more; else 0.
	WithinNode int

	dimensions []dimension
	config     *configs.Config
	model      models.Model
	network    network.Network // undivided
	blocks     int
	mixed      int // experts of a layer
	perNode    int
	margin     float64
	remarked   bool // the margin is not the configuration's
	schedules  map[string]schedules.Schedule
	asked      map[string][]string // values by key, in place of a dimension's own
	offered    configs.Offers      // by the trainer
	fixed      []string
	differing  map[string]bool      // whether a recomputation is one of its own
	operations map[string]bool      // that some recomputation repeats
	divided    map[group.Group]bool // whether it can share the network
	shared     *configs.Config
	placements map[placementKey]string
	serving    map[placementKey][]string // schedules for a shape, whose key names none
	same       map[placementKey]bool     // see repeated
	mutex      sync.Mutex
	kinds      map[string]kind // of the orders of schedules
	others     []string
	words      sync.Map // settings by key and value
	end        deadEnd
}

// NewSpace lists the plans of a configuration. That there are none is no error.
func NewSpace(c *configs.Config, q Query) (*Space, error) {
	if err := check(c, q); err != nil {
		return nil, err
	}
	var whole *Space
	var unjoined error
	for _, others := range combinations(q.varied()) {
		asked, err := c.With(others...)
		if err != nil {
			return nil, err
		}
		s, err := newSpace(asked, q, others)
		if err != nil {
			return nil, err
		}
		if err := asked.Joined(q.Devices); err != nil {
			unjoined = cmp.Or(unjoined, err)
			continue // no plan of these settings can run
		}
		p := Plan{Others: others}
		p.Context, p.Expert = 1, 1
		s.choose(0, &p)
		if whole != nil {
			whole.Plans = append(whole.Plans, s.Plans...)
			whole.WithinNode = min(whole.WithinNode, s.WithinNode)
		} else {
			whole = s
		}
	}
	if whole == nil {
		return nil, unjoined
	}
	return whole, nil
}

// newSpace makes the space, without plans, of a configuration with others of the settings
// that vary.
func newSpace(c *configs.Config, q Query, others []string) (s *Space, err error) {
	s = &Space{dimensions: dimensions(), Devices: q.Devices, margin: q.Margin, asked: map[string][]string{}, divided: map[group.Group]bool{}, placements: map[placementKey]string{}, serving: map[placementKey][]string{}, same: map[placementKey]bool{}, kinds: map[string]kind{}, differing: map[string]bool{}, operations: map[string]bool{}, fixed: q.Fix, others: others}
	s.remarked = c.Machine.MemoryMargin != q.Margin
	if s.config, err = c.With(fmt.Sprintf("machine.memory_margin=%v", q.Margin)); err != nil {
		return nil, err
	}
	if s.offered, err = offers(s.config, q); err != nil {
		return nil, err
	}
	if err := s.read(q); err != nil {
		return nil, err
	}
	if list, own := s.offered["train.precision"], s.config.Train.Precision; !s.offered.Has("train.precision", own) {
		return nil, fmt.Errorf("the trainer %s does not train in %s; it has %s; --trainer names another", cmp.Or(q.Trainer, s.config.Train.Stack), own, strings.Join(list, ", "))
	}
	return s, nil
}

// combinations makes the settings of keys that are no dimension, all with all.
func combinations(vary map[string][]string) [][]string {
	keys := Keys()
	all := [][]string{nil}
	for _, key := range sorted(vary) {
		if slices.Contains(keys, key) {
			continue
		}
		var next [][]string
		for _, before := range all {
			for _, v := range vary[key] {
				next = append(next, append(slices.Clone(before), key+"="+v))
			}
		}
		all = next
	}
	return all
}

func sorted(vary map[string][]string) []string {
	var keys []string
	for key := range vary {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// read finds in the configuration what bounds the dimensions.
func (s *Space) read(q Query) (err error) {
	if s.model, err = s.config.ReadModel(); err != nil {
		return err
	}
	if s.network, err = s.model.Network(); err != nil {
		return err
	}
	if err := s.readNodes(); err != nil {
		return err
	}
	s.blocks = len(s.network.Layers)
	if s.config.Model.Transformer() {
		s.blocks = 0
		for _, l := range s.network.Layers {
			if l.Repeatable {
				s.blocks++
			}
		}
	}
	if s.Global, err = global(s.config); err != nil {
		return err
	}
	s.schedules = map[string]schedules.Schedule{}
	for _, one := range append(schedules.Catalog(), configs.Searched()...) {
		s.schedules[one.Name] = one
	}
	for _, l := range s.network.Layers {
		s.mixed = max(s.mixed, l.Experts)
	}
	for _, recompute := range []string{"none", "full", "selective", "mla_up_proj"} { // which come before modules
		s.differing[recompute] = s.repeating(recompute)
	}
	s.findKinds()
	s.shared = s.config.Sharing()
	return s.ask(q)
}

// readNodes finds how many devices a node has.
func (s *Space) readNodes() error {
	machine, err := s.config.ReadMachine()
	if err != nil {
		return err
	}
	s.perNode = machine.DevicesPerNode
	if machine.Network.Bandwidth == 0 {
		s.WithinNode = s.perNode
	}
	return nil
}

// findKinds finds the kinds of orders.
func (s *Space) findKinds() {
	for name, one := range s.schedules {
		s.kinds[name] = splitOrder
		if configs.IsSearched(name) {
			continue
		}
		switch o, err := one.Order(one.Example(), nil); {
		case err != nil || o.Paired() || s.config.Parallel.ExpertOverlap || s.config.Parallel.DelayWeights:
			s.kinds[name] = pairedOrder
		case o.Split():
		case one.Pipelined && serial(o):
			s.kinds[name] = serialOrder
		default:
			s.kinds[name] = wholeOrder
		}
	}
}

// serial reports whether an order of several ranks has one action at a time, because each
// waits for the one before.
func serial(o order.Order) bool {
	clocks, err := o.Clocks()
	if err != nil {
		return false
	}
	all := slices.Concat(clocks...)
	slices.Sort(all)
	return len(slices.Compact(all)) == o.Actions()
}

// global finds the samples of a step.
func global(c *configs.Config) (int64, error) {
	if c.Batch.Global > 0 {
		return c.Batch.Global, nil
	}
	samples, err := c.Batch.Samples(c.Parallel.Data, c.Schedule.Microbatches)
	if err != nil {
		return 0, fmt.Errorf("%s: batch.%w", c.Name(), err)
	}
	return samples[0] * int64(len(samples)) * int64(max(1, c.Parallel.Data)), nil
}

// choose tries the values of a dimension, and of those after it.
func (s *Space) choose(i int, p *Plan) {
	if i == len(s.dimensions) {
		plan := *p
		plan.space = s
		s.place(&plan)
		s.Plans = append(s.Plans, plan)
		return
	}
	d := s.dimensions[i]
	values, legal := s.valuesOf(p, d.key, d.values(s, p)), false
	for _, v := range values {
		if assign(d.at(p), v) == nil && d.legal(s, p) {
			legal = true
			s.choose(i+1, p)
		}
	}
	if !legal {
		s.note(i, values, p)
	}
}

// valuesOf lists the values of a dimension: those that are asked for, or else its own,
// of which the trainer may offer some. Without tensor-parallel groups there is no sequence
// to divide, even where a trainer always does.
func (s *Space) valuesOf(p *Plan, key string, values []string) []string {
	if asked, ok := s.asked[key]; ok {
		values = asked
	}
	if s.offered[key] == nil || key == "parallel.sequence" && p.Tensor == 1 {
		return values
	}
	return slices.DeleteFunc(slices.Clone(values), func(v string) bool { return !s.offered.Has(key, v) })
}
