package profiles

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// A ProfiledStep is what the traces of one or several ranks say of a step: the one in the middle of those that all of
// them have, by its time.
type ProfiledStep struct {
	Ranks  int    // traces
	World  int    // ranks of the run, or 0
	Most   int    // the highest rank; −1 if unknown
	Device string // its name, or nothing
	Host   bool   // operations of CPUs
	Number int
	Found  string // how the steps were found, in words
	// Steps is how many whole steps all ranks have; Shortest and Longest are theirs. Without a whole one the step
	// lasts from its first kernel to its last, and Steps is 0.
	Steps             int
	Shortest, Longest time.Duration
	Times             ClassTimes // means over the ranks, which add up to the step
	// Collectives of this step, and how many of them are known on several ranks, by which their waiting is told from
	// their transfer. Of some, traces of other ranks are missing that may have come later still.
	Collectives, Matched, Incomplete int
	// Clocks is by how much the clocks of the ranks differed at most, and Apart by how much the ends of common
	// collectives still do, in the middle.
	Clocks, Apart time.Duration
	// Last is the rank that the others wait for the longest, and Waited how long they do, on average; −1 if unknown.
	Last   int
	Waited time.Duration
}

// Together puts the profiles of different ranks of one run together.
func Together(list []*RankProfile) (*ProfiledStep, error) {
	list = slices.SortedStableFunc(slices.Values(list), func(a, b *RankProfile) int {
		return cmp.Compare(a.Rank, b.Rank)
	})
	for i, p := range list[1:] {
		switch before := list[i]; {
		case p.Rank == before.Rank && p.Rank >= 0:
			return nil, fmt.Errorf("%s and %s are both of rank %d; name one trace of each rank",
				before.Name, p.Name, p.Rank)
		case p.World > 0 && p.Rank >= p.World:
			return nil, fmt.Errorf("%s is of rank %d, and says that its run has %d; name traces of one run", p.Name,
				p.Rank, p.World)
		case p.World != before.World:
			return nil, fmt.Errorf("%s is of %d ranks and %s of %d; name traces of one run",
				before.Name, before.World, p.Name, p.World)
		case p.Host != before.Host:
			return nil, fmt.Errorf("of %s and %s only one has kernels of a GPU; name traces of one run",
				before.Name, p.Name)
		}
	}
	first := list[0]
	s := &ProfiledStep{
		Ranks: len(list), World: first.World, Most: list[len(list)-1].Rank, Device: first.Device, Host: first.Host,
		Found: first.found, Last: -1,
	}
	if err := s.choose(list); err != nil {
		return nil, err
	}
	met := meet(list)
	met.align(s, list)
	met.split(s, list)
	for _, p := range list {
		at := p.step(s.Number)
		for c, t := range p.account(at.start, at.end) {
			s.Times[c] += t
		}
	}
	s.Times.divide(len(list))
	return s, nil
}

// divide divides times and keeps their sum: it rounds the running total.
func (t *ClassTimes) divide(n int) {
	var sum, done time.Duration
	for c := range t {
		sum += t[c]
		upTo := sum / time.Duration(n)
		t[c], done = upTo-done, upTo
	}
}

// step returns a step by its number, or nil.
func (p *RankProfile) step(number int) *span {
	i, ok := slices.BinarySearchFunc(p.steps, number, func(s span, n int) int { return cmp.Compare(s.number, n) })
	if !ok {
		return nil
	}
	return &p.steps[i]
}

// choose finds the step in the middle. A step without an end of its own counts only if there is no other.
func (s *ProfiledStep) choose(list []*RankProfile) error {
	type common struct {
		number int
		whole  bool
		time   time.Duration
	}
	var steps []common
	for _, at := range list[0].steps {
		c := common{number: at.number, whole: true}
		for _, p := range list {
			own := p.step(at.number)
			if own == nil {
				c.number = -1
				break
			}
			c.whole = c.whole && !own.last
			c.time += time.Duration(own.end-own.start) / time.Duration(len(list))
		}
		if c.number >= 0 {
			steps = append(steps, c)
		}
	}
	if len(steps) == 0 {
		return errors.New("the traces have no step in common; profile the same steps on every rank")
	}
	whole := slices.DeleteFunc(slices.Clone(steps), func(c common) bool { return !c.whole })
	if s.Steps = len(whole); s.Steps > 0 {
		steps = whole
	}
	slices.SortStableFunc(steps, func(a, b common) int { return cmp.Compare(a.time, b.time) })
	s.Number = steps[(len(steps)-1)/2].number
	s.Shortest, s.Longest = steps[0].time, steps[len(steps)-1].time
	return nil
}

// A place is a kernel of a rank's profile.
type place struct{ profile, kernel int }

// A meeting is one collective, on the ranks whose traces have it.
type meeting struct {
	places  []place
	members int // of its group, or 0
}

// meetings are the collectives that several ranks have in common.
type meetings []meeting

// meet finds common collectives. Ranks call those of a group in the same order, so the first of a step meets the
// first, and so on. Where the numbers of calls differ, nothing is known. Collectives without a group are left out,
// unless the run has two ranks.
func meet(list []*RankProfile) meetings {
	type key struct {
		step        int
		group, name string
	}
	byKey := map[key][]ownCalls{}
	var keys []key
	for i, p := range list {
		began := slices.SortedStableFunc(slices.Values(p.steps), func(a, b span) int {
			return cmp.Compare(a.start, b.start)
		})
		for j, k := range p.kernels {
			if k.call < 0 {
				continue
			}
			c := p.calls[k.call]
			name, ok := c.collective(p.names[k.name])
			if !ok || c.group == "" && (p.World != 2 || len(list) != 2) {
				continue
			}
			at := key{p.stepOf(k, began), c.group, name}
			calls := byKey[at]
			if calls == nil {
				keys = append(keys, at)
			}
			if n := len(calls); n == 0 || calls[n-1].profile != i {
				calls = append(calls, ownCalls{profile: i})
			}
			calls[len(calls)-1].kernels = append(calls[len(calls)-1].kernels, j)
			byKey[at] = calls
		}
	}
	var found meetings
	for _, at := range keys {
		found = append(found, pair(list, byKey[at])...)
	}
	return found
}

// ownCalls are the kernels of one profile that call one group in a step. Profiles without any are left out: a run of
// many ranks has about as many groups, so that all of them for each would be the square.
type ownCalls struct {
	profile int
	kernels []int
}

// pair makes meetings of the calls of one group in a step.
func pair(list []*RankProfile, calls []ownCalls) (found meetings) {
	count := len(calls[0].kernels)
	for _, own := range calls {
		if len(own.kernels) != count {
			return nil
		}
	}
	for n := 0; len(calls) > 1 && n < count; n++ {
		var m meeting
		size := int64(0)
		for _, own := range calls {
			p := list[own.profile]
			c := p.calls[p.kernels[own.kernels[n]].call]
			if size > 0 && c.elements > 0 && c.elements != size && !strings.Contains(c.name, "all_to_all") {
				return nil // these are others
			}
			size = max(size, c.elements)
			m.members = max(m.members, c.members)
			m.places = append(m.places, place{own.profile, own.kernels[n]})
		}
		found = append(found, m)
	}
	return found
}

// message reports whether a call is of two ranks only: a send, a receive, or several of them in one kernel.
func (c *call) message(kernel string) bool {
	name := strings.ToLower(c.name)
	unsaid := name == "" || strings.Contains(name, "coalesced")
	return strings.HasPrefix(name, "send") || strings.HasPrefix(name, "recv") ||
		unsaid && strings.Contains(strings.ToLower(kernel), "sendrecv")
}

// collective returns the name by which a call is known on other ranks, if it has one. Several calls in one kernel
// (coalesced ones) say neither name nor size.
func (c *call) collective(kernel string) (string, bool) {
	name := c.name
	if name == "" {
		name, _, _ = strings.Cut(kernel, "(")
	}
	plain := strings.ToLower(name)
	return name, !strings.Contains(plain, "coalesced") && !strings.Contains(plain, "generic")
}

// stepOf returns the number of the step that asked for a kernel, or else in which it began. began are the steps by when
// they began.
func (p *RankProfile) stepOf(k kernel, began []span) int {
	if k.launch > 0 && len(p.asked) > 0 {
		return holding(p.asked, k.launch)
	}
	return holding(began, k.start)
}

// align takes out by how much the clocks of the ranks differ: a collective ends on all of its ranks at about the same
// time. Kernels that then do not run at the same time cannot be one collective, and that meeting is dropped.
func (l *meetings) align(s *ProfiledStep, list []*RankProfile) {
	shift := l.shifts(list)
	s.Clocks = time.Duration(slices.Max(shift) - slices.Min(shift))
	var apart []int64
	for _, m := range *l {
		_, ends := m.aligned(list, shift)
		apart = append(apart, slices.Max(ends)-slices.Min(ends))
	}
	if len(apart) == 0 {
		return
	}
	slack := middle(apart)
	s.Apart = time.Duration(slack)
	*l = slices.DeleteFunc(*l, func(m meeting) bool {
		starts, ends := m.aligned(list, shift)
		return slices.Max(starts) > slices.Min(ends)+slack
	})
}

// aligned returns the starts and ends of a meeting on a common clock.
func (m *meeting) aligned(list []*RankProfile, shift []int64) (starts, ends []int64) {
	for _, x := range m.places {
		k := &list[x.profile].kernels[x.kernel]
		starts, ends = append(starts, k.start-shift[x.profile]), append(ends, k.end-shift[x.profile])
	}
	return starts, ends
}

// shifts returns by how much the clock of each profile is ahead of the first one's, or of that of the first one which
// it has collectives with, if only through others.
func (l *meetings) shifts(list []*RankProfile) []int64 {
	apart := make([]map[int][]int64, len(list)) // ends of the second profile after those of the first
	for i := range apart {
		apart[i] = map[int][]int64{}
	}
	for _, m := range *l {
		a := m.places[0]
		for _, b := range m.places[1:] {
			d := list[b.profile].kernels[b.kernel].end - list[a.profile].kernels[a.kernel].end
			apart[a.profile][b.profile] = append(apart[a.profile][b.profile], d)
			apart[b.profile][a.profile] = append(apart[b.profile][a.profile], -d)
		}
	}
	shift, known := make([]int64, len(list)), make([]bool, len(list))
	for root := range list {
		if known[root] {
			continue
		}
		known[root] = true
		for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
			at := queue[0]
			for _, i := range slices.Sorted(maps.Keys(apart[at])) {
				if !known[i] {
					shift[i], known[i] = shift[at]+middle(apart[at][i]), true
					queue = append(queue, i)
				}
			}
		}
	}
	return shift
}

// middle returns the value in the middle.
func middle(list []int64) int64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

// split tells the waiting of collectives from their transfer, which is the shortest time that any rank spends in one:
// that of the rank that comes last.
func (l meetings) split(s *ProfiledStep, list []*RankProfile) {
	for i := range list {
		at := list[i].step(s.Number)
		for _, k := range list[i].kernels {
			if k.class == Transfer && k.start >= at.start && k.start < at.end {
				s.Collectives++
			}
		}
	}
	waited := map[int]time.Duration{}
	for _, m := range l {
		lengths := make([]int64, len(m.places))
		for i, x := range m.places {
			k := list[x.profile].kernels[x.kernel]
			lengths[i] = k.end - k.start
		}
		last := slices.Index(lengths, slices.Min(lengths))
		for i, x := range m.places {
			k, at := &list[x.profile].kernels[x.kernel], list[x.profile].step(s.Number)
			k.wait = lengths[i] - lengths[last]
			if k.start < at.start || k.start >= at.end {
				continue
			}
			s.Matched++
			if m.members > len(m.places) {
				s.Incomplete++
			}
			if i != last {
				waited[list[m.places[last].profile].Rank] += time.Duration(k.wait) / time.Duration(len(m.places)-1)
			}
		}
	}
	for _, rank := range slices.Sorted(maps.Keys(waited)) {
		if waited[rank] > s.Waited {
			s.Last, s.Waited = rank, waited[rank]
		}
	}
}
