package plans

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"psim/configs"
	"psim/internal/files"
	"psim/internal/jsonfile"
	"psim/results/rankings"
)

// divisionByLayers names this way to divide a space in the files of shards. Shards that were divided
// otherwise have other plans.
const divisionByLayers = "layers"

// divisionOf names how a shard's plans are chosen.
func divisionOf(shard rankings.Shard) string {
	if shard.Of == 0 {
		return ""
	}
	return divisionByLayers
}

// sharded returns the plans of a space that a shard searches. Plans whose layers divide alike stay together: each unit
// of them goes to the shard that has the fewest plans so far, the largest units first.
func sharded(space *Space, shard rankings.Shard) (list []Plan) {
	if shard.Of == 0 {
		return whole(space)
	}
	unitsOf, plans := divide(space, (space.count+shard.Of-1)/shard.Of)
	order := make([]int32, len(plans))
	for unit := range order {
		order[unit] = int32(unit)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(plans[b], plans[a]) })
	has := make([]int, shard.Of)    // how many plans every shard has
	own := make([]bool, len(plans)) // by unit
	for _, unit := range order {
		least := 0
		for i, n := range has {
			if n < has[least] {
				least = i
			}
		}
		has[least] += plans[unit]
		own[unit] = least == shard.Number-1
	}
	list = make([]Plan, 0, has[shard.Number-1])
	var one stem
	for _, one = range space.stems {
		zeros, sequences, n := len(one.ends[1]), len(one.ends[2]), 0
		units := unitsOf[:len(one.ends[0])*sequences]
		if unitsOf = unitsOf[len(units):]; !slices.ContainsFunc(units, func(u int32) bool { return own[u] }) {
			continue
		}
		one.plans(0, func(p *Plan) bool {
			if own[units[n/(zeros*sequences)*sequences+n%sequences]] {
				list = append(list, *p)
			}
			n++
			return true
		})
	}
	return list
}

// whole returns the plans of a space, and counts those that it drops.
func whole(space *Space) (list []Plan) {
	if space.drops == nil {
		list = make([]Plan, 0, space.count)
	}
	for p := range space.all() {
		if p.space.drops != nil && p.space.drops.tooLarge(p) {
			space.Dropped++
		} else {
			list = append(list, *p)
		}
	}
	return list
}

// divide numbers the units of plans that differ only in their stages and in the size of their microbatches. It returns
// the units of every stem, one for every recomputation and within it one for every sequence parallelism, and how many
// plans each unit has. A unit that has a given number of plans or more is full.
func divide(space *Space, full int) (unitsOf []int32, plans []int) {
	all := map[layersOf][]int32{} // of stems that begin alike, which have the same values of these two
	for i := range space.stems {
		one := &space.stems[i]
		layers := layersOf{one.space, layerKeyOf(&one.Plan)}
		layers.layerKey.micro, layers.layerKey.sequence, layers.layerKey.recompute = 0, false, ""
		units := all[layers]
		if units == nil {
			units = slices.Repeat([]int32{-1}, len(one.ends[0])*len(one.ends[2]))
			all[layers] = units
		}
		for j, unit := range units {
			if unit < 0 || plans[unit] >= full {
				units[j], plans = int32(len(plans)), append(plans, 0)
			}
			plans[units[j]] += len(one.ends[1])
		}
		unitsOf = append(unitsOf, units...)
	}
	return unitsOf, plans
}

// Shared says where the shards of a search tell each other the steps of their best plans, so that each need not prove
// best plans of its own that are not among those of all.
type Shared struct {
	Folder  string // "" if they do not
	Version string // of psim: another one may find other steps
}

// A shard reads what others know after a tenth of the time that it has searched for, but not more often than every
// sharePause, nor less often than every longestShare: a thousand shards of a long search read the file a few hundred
// times a second.
const sharePause, longestShare = 20 * time.Millisecond, 5 * time.Second

// boardPrefix begins the name of the file in which they do.
const boardPrefix = "steps-"

// A knownStep is the step of a plan that fits.
type knownStep struct {
	Step  time.Duration `json:"step_ns"`
	Shard int           `json:"shard"` // that found it
	Index int           `json:"index"` // of the plan in that shard
}

// compare orders steps, and equal ones by their plans.
func (k knownStep) compare(o knownStep) int {
	return cmp.Or(cmp.Compare(k.Step, o.Step), cmp.Compare(k.Shard, o.Shard), cmp.Compare(k.Index, o.Index))
}

// A board is a file with the shortest steps that any shard of a search knows, as many as plans are wanted. It is
// replaced by renaming: it is read whole, or not at all. Two shards may replace it at once. Then one of them misses its
// steps in it the next time, and puts them in again; until then others look at more plans than they must.
type board struct {
	path  string
	shard int
	rows  int
	known []knownStep // by this shard and by others, the shortest first
}

// newBoard returns the file of a query, or nil if its shard shares nothing.
func newBoard(c *configs.Config, q Query) (*board, error) {
	if q.Shared.Folder == "" || q.Shard.Of < 2 {
		return nil, nil
	}
	name, rows := fnv.New64a(), cmp.Or(q.Rows, defaultRows)
	err := json.NewEncoder(name).Encode([]any{
		c.Fingerprint(), q.Shared.Version, divisionOf(q.Shard), q.Shard.Of, rows,
		q.Devices, q.Trainer, q.Schedules, q.Fix, q.Vary, q.Margin,
	})
	path := filepath.Join(q.Shared.Folder, fmt.Sprintf("%s%016x.json", boardPrefix, name.Sum64()))
	return &board{path: path, shard: q.Shard.Number, rows: rows}, err
}

// exchange puts the steps of the best plans of this shard among those that are known, and returns the step of the last
// plan that is wanted, or 0 if fewer are known. Where the file cannot be read or written, the search is only slower.
func (s *board) exchange(best []knownStep) time.Duration {
	there := readBoard(s.path)
	s.known = slices.Concat(s.known, there, best)
	slices.SortFunc(s.known, knownStep.compare)
	s.known = slices.Compact(s.known)
	s.known = s.known[:min(s.rows, len(s.known))]
	if !slices.Equal(s.known, there) {
		if text, err := json.Marshal(s.known); err == nil {
			files.Swap(s.path, append(text, '\n'))
		}
	}
	if len(s.known) < s.rows {
		return 0
	}
	return s.known[s.rows-1].Step
}

// readBoard reads the steps of a file. A file that is cut has no steps.
func readBoard(path string) []knownStep {
	list, err := files.Read(path, func(r io.Reader) (list []knownStep, err error) {
		err = jsonfile.Read(r, jsonfile.MostBytes, &list)
		return list, err
	})
	if err != nil || slices.ContainsFunc(list, func(k knownStep) bool { return k.Step <= 0 }) {
		return nil
	}
	return list
}

// share exchanges steps with other shards until the search ends, and once more then.
func (s *search) share(ended <-chan struct{}) {
	begin := time.Now()
	for last := false; ; {
		s.mutex.Lock()
		best := make([]knownStep, len(s.Best))
		for i, p := range s.Best {
			best[i] = knownStep{p.Step, s.Board.shard, p.index}
		}
		s.mutex.Unlock()
		limit := s.Board.exchange(best)
		s.mutex.Lock()
		s.Limit = limit
		s.mutex.Unlock()
		if last {
			return
		}
		select {
		case <-ended:
			last = true
		case <-time.After(min(max(time.Since(begin)/10, sharePause), longestShare)):
		}
	}
}

// limit returns the step of the last of the best plans that are known, by this shard or by others, or 0 if fewer are
// known than are wanted.
func (s *search) limit() time.Duration {
	if len(s.Best) < s.Rows {
		return s.Limit
	}
	if own := s.Best[s.Rows-1].Step; s.Limit == 0 || own < s.Limit {
		return own
	}
	return s.Limit
}

// BestShared returns the shortest step that shards with a folder know, or 0 if none is known.
func BestShared(folder string) (best time.Duration) {
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), boardPrefix) {
			continue
		}
		for _, k := range readBoard(filepath.Join(folder, e.Name())) {
			if best == 0 || k.Step < best {
				best = k.Step
			}
		}
	}
	return best
}
