package profiles

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
)

// findSteps finds where the steps begin on the device, by the first of these that the trace has: the profiler's
// annotations of the device, those of the host with the launches that lie in them, or an order of kernels that
// repeats. Else the whole trace is one step.
func (p *RankProfile) findSteps(host, device map[int]span) {
	launched := map[int]span{}
	if !p.Host {
		p.asked = slices.SortedFunc(maps.Values(host), func(a, b span) int { return cmp.Compare(a.start, b.start) })
		launched = p.launchedIn(p.asked)
	}
	switch {
	case len(device) > 0:
		p.found = "by annotations of the device"
	case len(launched) > 0:
		device, p.found = launched, "by what was launched within ProfilerStep"
	case p.Host && len(host) > 0:
		device, p.found = host, "by ProfilerStep"
	default:
		p.periodic()
		return
	}
	p.steps = slices.SortedFunc(maps.Values(device), func(a, b span) int { return cmp.Compare(a.number, b.number) })
	for i := range p.steps {
		if p.Host {
			break // a range of the host holds what it does
		}
		s := &p.steps[i]
		if s.last = i+1 == len(p.steps); !s.last {
			s.end = p.steps[i+1].start
		}
	}
	p.steps = slices.DeleteFunc(p.steps, func(s span) bool { return s.end <= s.start })
}

// holding returns the number of the step of a list, sorted by start, that holds a time, or −1.
func holding(list []span, at int64) int {
	i, exact := slices.BinarySearchFunc(list, at, func(s span, at int64) int { return cmp.Compare(s.start, at) })
	if !exact {
		i--
	}
	if i < 0 || at >= list[i].end {
		return -1
	}
	return list[i].number
}

// launchedIn returns for each range of the host the time in which the kernels ran that were launched in it.
func (p *RankProfile) launchedIn(ranges []span) map[int]span {
	found := map[int]span{}
	for _, k := range p.kernels {
		at, exact := slices.BinarySearchFunc(ranges, k.launch, func(s span, at int64) int {
			return cmp.Compare(s.start, at)
		})
		if !exact {
			at--
		}
		if k.launch == 0 || at < 0 || k.launch >= ranges[at].end {
			continue
		}
		number := ranges[at].number
		s, ok := found[number]
		if !ok {
			s = span{start: k.start, end: k.end, number: number}
		}
		s.start, s.end = min(s.start, k.start), max(s.end, k.end)
		found[number] = s
	}
	return found
}

// periodic makes steps of the order of kernels on the busiest stream, where it repeats.
func (p *RankProfile) periodic() {
	var order []int32 // indices in kernels
	busiest := p.busiest()
	for i, k := range p.kernels {
		if k.class < Transfer && k.thread == busiest {
			order = append(order, int32(i))
		}
	}
	names := make([]int32, len(order))
	for i, k := range order {
		names[i] = p.kernels[k].name
	}
	length := period(names)
	if length == 0 {
		p.found = "as the whole trace, since there is no ProfilerStep and no order of kernels repeats"
		s := span{start: p.kernels[0].start, last: true}
		for _, k := range p.kernels {
			s.end = max(s.end, k.end)
		}
		p.steps = []span{s}
		return
	}
	p.found = "by the order of kernels, which repeats after " + strconv.Itoa(length)
	for at := len(order) % length; at+length < len(order); at += length {
		s := span{start: p.kernels[order[at]].start, end: p.kernels[order[at+length]].start, number: len(p.steps)}
		p.steps = append(p.steps, s)
	}
}

// busiest returns the thread that computes the longest.
func (p *RankProfile) busiest() int32 {
	times := map[int32]int64{}
	for _, k := range p.kernels {
		if k.class < Transfer {
			times[k.thread] += k.end - k.start
		}
	}
	best := int32(-1)
	for _, thread := range slices.Sorted(maps.Keys(times)) {
		if best < 0 || times[thread] > times[best] {
			best = thread
		}
	}
	return best
}

// Bounds of the search for a period: names that may mark a step, occurrences of each, and the share of names whose
// kernels must come again. Attempts of a whole step differ by few kernels, as of a logger.
const (
	mostMarkers  = 40
	mostDistance = 8
	mustRepeat   = 0.9
)

// period returns after how many kernels the order repeats, or 0. Layers repeat within a step as well. So every name
// has the same say, however often it comes: with the distance of layers, what a step has once (embedding, loss,
// optimizer) does not come again.
func period(names []int32) int {
	places := map[int32][]int{}
	for i, name := range names {
		places[name] = append(places[name], i)
	}
	rare := slices.SortedFunc(maps.Keys(places), func(a, b int32) int {
		return cmp.Or(cmp.Compare(len(places[a]), len(places[b])), cmp.Compare(a, b))
	})
	distances := map[int]bool{}
	markers := 0
	for _, name := range rare {
		at := places[name]
		if len(at) < 2 || markers == mostMarkers {
			continue
		}
		markers++
		for i := 1; i < min(len(at), 1+mostDistance); i++ {
			distances[at[i]-at[0]] = true
			distances[at[len(at)-1]-at[len(at)-1-i]] = true
		}
	}
	for _, d := range slices.Sorted(maps.Keys(distances)) {
		if 2*d <= len(names) && repeats(names, places, rare, d) >= mustRepeat {
			return d
		}
	}
	return 0
}

// repeats returns the mean over the names of the share of kernels that come again at a distance.
func repeats(names []int32, places map[int32][]int, different []int32, distance int) float64 {
	sum := 0.0
	for _, name := range different {
		again := 0
		for _, i := range places[name] {
			after, before := i+distance, i-distance
			if after < len(names) && names[after] == name || after >= len(names) && names[before] == name {
				again++
			}
		}
		sum += float64(again) / float64(len(places[name]))
	}
	return sum / float64(len(places))
}
