package plans

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"psim/internal/units"
)

// A deadEnd is a dimension for which no value was legal after the earlier choices.
type deadEnd struct {
	depth  int      // the index of the dimension
	values []string // the values that were tried, each once
	plan   Plan     // the earlier choices
}

// noteDeadEnd keeps the dead ends that got furthest, until a plan is found.
func (s *Space) noteDeadEnd(depth int, values []string, p *Plan) {
	switch {
	case s.count > 0 || depth < s.deadEnd.depth:
		return
	case depth > s.deadEnd.depth || s.deadEnd.values == nil:
		s.deadEnd = deadEnd{depth: depth, plan: *p}
	}
	for _, v := range values {
		if !slices.Contains(s.deadEnd.values, v) {
			s.deadEnd.values = append(s.deadEnd.values, v)
		}
	}
}

// WhyEmpty says why the space has no plans, or returns "" if it has some.
func (s *Space) WhyEmpty() string {
	if s.count > 0 {
		return ""
	}
	d, p := s.dimensions[s.deadEnd.depth], s.deadEnd.plan
	if d.key == "parallel.data" && s.asked[d.key] == nil {
		return s.whyBatchDoesNotDivide()
	}
	if s.deadEnd.values == nil {
		return "the trainer offers no value of " + d.key
	}
	why := fmt.Sprintf("no plan has %s = %s", d.key, listed(s.deadEnd.values))
	var before []string
	for _, earlier := range s.dimensions[:s.deadEnd.depth] {
		if earlier.implied == nil || !earlier.implied(&p) {
			before = append(before, earlier.key+" = "+text(earlier.at(&p)))
		}
	}
	if before != nil {
		why += ", for instance with " + strings.Join(before, ", ")
	}
	return why
}

// whyBatchDoesNotDivide says that no number of replicas divides the batch, and which batch
// or number of devices would work.
func (s *Space) whyBatchDoesNotDivide() string {
	var counts []int64
	for _, v := range s.deadEnd.values {
		n, _ := strconv.ParseInt(v, 10, 64)
		counts = append(counts, n)
	}
	slices.Sort(counts)
	var replicas []string
	for _, n := range counts {
		replicas = append(replicas, units.FormatCount(n))
	}
	least, fits := counts[0], int64(1)
	for d := int64(1); d <= min(least, s.Global); d++ {
		if s.Global%d == 0 {
			fits = d
		}
	}
	batch := (s.Global + least - 1) / least * least
	return fmt.Sprintf("with %s devices parallel.data can be %s, but none of these divides batch.global = %d; "+
		"set batch.global = %d, or take %s devices",
		units.FormatCount(int64(s.Devices)), listed(replicas), s.Global, batch,
		units.FormatCount(int64(s.Devices)/least*fits))
}

// listed writes the first few values, and how many more there are.
func listed(values []string) string {
	const most = 4
	text := strings.Join(values[:min(most, len(values))], ", ")
	if more := len(values) - most; more > 0 {
		return fmt.Sprintf("%s or %d more numbers", text, more)
	}
	if i := strings.LastIndex(text, ", "); i >= 0 {
		return text[:i] + " or " + text[i+2:]
	}
	return text
}
