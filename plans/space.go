package plans

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"psim/configs"
	"psim/costmodel/group"
	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/schedules"
)

// Any names a trainer without limits.
const Any = "any"

// A Space holds all legal plans of a configuration on a number of devices.
type Space struct {
	Devices int
	Global  int64  // samples of a step
	Plans   []Plan // of the shard that the query names
	Dropped int    // further legal plans whose parameters do not fit, unless the query asks for all points
	// WithinNode is the number of devices of a node if no network connects nodes, so that
	// no plan can have more; otherwise 0.
	WithinNode int

	dimensions        []dimension
	stems             []stem // of all plans, whatever the shard
	count             int    // of all plans
	lastEnds          *[ends][]string
	legal             []string // reused by addStem
	names             []string // of schedules, unless the query asks for others
	shapes            map[placementKey]placed
	config            *configs.Config
	divider           *models.Divider
	network           network.Network // undivided
	blocks            int
	layerExperts      int // the largest number of experts of a layer
	devicesPerNode    int
	margin            float64
	marginDiffers     bool // from the configuration's
	schedules         map[string]schedules.Schedule
	asked             map[string][]string // values that the query asks for, by key
	offered           configs.Offers      // by the trainer
	fixed             []string
	distinctRecompute map[string]bool      // recomputations that are legal and differ from others
	seenRepeats       map[string]bool      // operations that a recomputation repeats, as text
	divisible         map[group.Group]bool // whether the network divides over a group
	shared            *configs.Config
	placements        map[placementKey]string
	schedulesFor      map[placementKey][]string // by shape: keys without a schedule
	sameOrder         map[placementKey]bool     // answers of repeatsEarlier
	mutex             sync.Mutex                // of sameOrder
	orderKinds        map[string]orderKind      // by schedule
	texts             sync.Map                  // settings by key and value
	deadEnd           deadEnd
	drops             leastShares // nil keeps plans whose parameters do not fit
}

// NewSpace lists the plans of a configuration. A space may be empty (see WhyEmpty).
func NewSpace(c *configs.Config, q Query) (*Space, error) {
	if err := checkQuery(c, q); err != nil {
		return nil, err
	}
	var whole *Space
	var unjoined error
	for _, extra := range extraSettings(q.varied()) {
		varied, err := c.With(extra...)
		if err != nil {
			return nil, err
		}
		s, err := newSpace(varied, q)
		if err != nil {
			return nil, err
		}
		if err := varied.Joined(q.Devices); err != nil {
			unjoined = cmp.Or(unjoined, err)
			continue // no plan with these settings can run
		}
		p := Plan{Extra: extra}
		p.Context, p.Expert = 1, 1
		s.enumerate(0, &p)
		if whole != nil {
			whole.stems, whole.count = append(whole.stems, s.stems...), whole.count+s.count
			whole.WithinNode = min(whole.WithinNode, s.WithinNode)
		} else {
			whole = s
		}
	}
	if whole == nil {
		return nil, unjoined
	}
	whole.Plans = sharded(whole, q.Shard)
	return whole, nil
}

// newSpace makes a space without plans.
func newSpace(c *configs.Config, q Query) (s *Space, err error) {
	s = &Space{
		dimensions: dimensions(), Devices: q.Devices, margin: q.Margin, fixed: q.Fix,
		asked: map[string][]string{}, divisible: map[group.Group]bool{},
		placements: map[placementKey]string{}, shapes: map[placementKey]placed{},
		schedulesFor: map[placementKey][]string{},
		sameOrder:    map[placementKey]bool{}, orderKinds: map[string]orderKind{},
		distinctRecompute: map[string]bool{}, seenRepeats: map[string]bool{},
	}
	s.marginDiffers = c.Machine.MemoryMargin != q.Margin || !c.Defined("machine.memory_margin") && q.variesMachine()
	if s.config, err = c.With(fmt.Sprintf("machine.memory_margin=%v", q.Margin)); err != nil {
		return nil, err
	}
	if s.offered, err = offersOf(s.config, q); err != nil {
		return nil, err
	}
	if err := s.read(q); err != nil {
		return nil, err
	}
	if list, own := s.offered["train.precision"], s.config.Train.Precision; !s.offered.Has("train.precision", own) {
		return nil, fmt.Errorf("the trainer %s does not train in %s, only in %s; name another by --trainer",
			cmp.Or(q.Trainer, s.config.Train.Stack), own, strings.Join(list, ", "))
	}
	return s, nil
}

// extraSettings lists all combinations of the settings that vary and are not dimensions.
func extraSettings(vary map[string][]string) [][]string {
	keys := Keys()
	all := [][]string{nil}
	for _, key := range sortedKeys(vary) {
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

func sortedKeys(vary map[string][]string) []string {
	var keys []string
	for key := range vary {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// read reads from the configuration all that limits the dimensions.
func (s *Space) read(q Query) (err error) {
	if s.config.Data.Pads() {
		return errors.New(`data.batches = "padded": a search varies microbatches, whose padding it does not model; ` +
			`set data.batches = "packed", or vary a few plans with psim sweep`)
	}
	model, err := s.config.ReadModel()
	if err != nil {
		return err
	}
	s.divider = model.Divider()
	if s.network, err = model.Network(); err != nil {
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
	if s.Global, err = globalBatch(s.config); err != nil {
		return err
	}
	s.schedules = map[string]schedules.Schedule{}
	for _, one := range append(schedules.Catalog(), configs.Searched()...) {
		s.schedules[one.Name] = one
	}
	s.names = s.ownNames()
	for _, l := range s.network.Layers {
		s.layerExperts = max(s.layerExperts, l.Experts)
	}
	// These names are preferred to lists of modules that repeat the same operations.
	for _, recompute := range []string{"none", "full", "selective", "mla_up_proj"} {
		s.distinctRecompute[recompute] = s.noteRecompute(recompute)
	}
	s.readOrderKinds()
	s.shared = s.config.Sharing()
	if !q.Points && q.Shard.Of == 0 {
		s.drops = leastShares{}
	}
	return s.ask(q)
}

// readNodes reads the number of devices of a node.
func (s *Space) readNodes() error {
	machine, err := s.config.ReadMachine()
	if err != nil {
		return err
	}
	s.devicesPerNode = machine.DevicesPerNode
	if machine.Network.Bandwidth == 0 {
		s.WithinNode = s.devicesPerNode
	}
	return nil
}

// globalBatch returns the number of samples of a step.
func globalBatch(c *configs.Config) (int64, error) {
	if c.Batch.Global > 0 {
		return c.Batch.Global, nil
	}
	samples, err := c.Batch.Samples(c.Parallel.Data, c.Schedule.Microbatches)
	if err != nil {
		return 0, fmt.Errorf("%s: batch.%w", c.Name(), err)
	}
	return samples[0] * int64(len(samples)) * int64(max(1, c.Parallel.Data)), nil
}

// enumerate adds the stems with all legal values of dimension i and later ones.
func (s *Space) enumerate(i int, p *Plan) {
	if i == len(s.dimensions)-ends {
		s.addStem(p)
		return
	}
	d := s.dimensions[i]
	values, legal := s.valuesOf(p, d.key, d.values(s, p)), false
	for _, v := range values {
		if assign(d.at(p), v) == nil && d.legal(s, p) {
			legal = true
			s.enumerate(i+1, p)
		}
	}
	if !legal {
		s.noteDeadEnd(i, values, p)
	}
}

// ends is the number of dimensions whose legal values do not depend on each other: recomputation, ZeRO and sequence
// parallelism, the last ones.
const ends = 3

// A stem stands for the plans of a space that differ only in these dimensions: one for every combination of their
// values. A space has millions of plans, and a shard keeps few of them.
type stem struct {
	Plan
	ends *[ends][]string // values; most stems share them with the stem before
}

// addStem adds the plans that begin as one does.
func (s *Space) addStem(p *Plan) {
	one, count := stem{Plan: *p, ends: s.lastEnds}, 1
	for e := range ends {
		i := len(s.dimensions) - ends + e
		d := &s.dimensions[i]
		values, legal := s.valuesOf(p, d.key, d.values(s, p)), s.legal[:0]
		for _, v := range values {
			if assign(d.at(p), v) == nil && d.legal(s, p) {
				legal = append(legal, v)
			}
		}
		if s.legal = legal; len(legal) == 0 {
			s.noteDeadEnd(i, values, p)
			return
		}
		if one.ends == nil || !slices.Equal(legal, one.ends[e]) {
			own := [ends][]string{}
			if one.ends != nil {
				own = *one.ends
			}
			own[e], one.ends = slices.Clone(legal), &own
		}
		assign(d.at(p), legal[0])
		count *= len(legal)
	}
	one.space, s.lastEnds = s, one.ends
	s.notePlacement(&one.Plan)
	s.stems, s.count = append(s.stems, one), s.count+count
}

// all yields every plan of a space, whatever the shard, in the same memory.
func (s *Space) all() iter.Seq[*Plan] {
	return func(yield func(*Plan) bool) {
		var one stem
		for _, one = range s.stems {
			if !one.plans(0, yield) {
				return
			}
		}
	}
}

// plans yields the plans of a stem with the values of the ends before e that it has now.
func (p *stem) plans(e int, yield func(*Plan) bool) bool {
	if e == ends {
		return yield(&p.Plan)
	}
	dimensions := p.space.dimensions
	at := dimensions[len(dimensions)-ends+e].at(&p.Plan)
	for _, v := range p.ends[e] {
		if assign(at, v) != nil || !p.plans(e+1, yield) {
			return false
		}
	}
	return true
}

// valuesOf lists the values of a dimension: those that the query asks for, or else its
// own, as far as the trainer offers them. parallel.sequence divides nothing without
// tensor-parallel groups, so its values are then not limited by the trainer.
func (s *Space) valuesOf(p *Plan, key string, values []string) []string {
	if asked, ok := s.asked[key]; ok {
		values = asked
	}
	if s.offered[key] == nil || key == "parallel.sequence" && p.Tensor == 1 {
		return values
	}
	return slices.DeleteFunc(slices.Clone(values), func(v string) bool { return !s.offered.Has(key, v) })
}
