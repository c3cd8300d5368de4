package rankings

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"psim/internal/csvfile"
)

// A PlanPoint holds what a search has found out about a plan.
type PlanPoint struct {
	Plan PlanShape
	Set  []string // the settings that the search varies
	// Pruned is the reason why the plan was discarded; "" if it was not.
	Pruned string
	// Work and Bound are lower bounds on the step time, 0 where unknown. Work follows from
	// the average work of the ranks, and is found first and for all plans. Bound is the
	// largest lower bound that was found.
	Work, Bound time.Duration
	// Simulated plans have a step time and a peak memory. Fits says whether the peak fits
	// in memory with the margin.
	Simulated  bool
	StepTime   time.Duration
	PeakMemory int64
	Fits       bool
}

// The states of points that were not discarded. The state of a point that was discarded is
// the reason.
const (
	pointSimulated = "simulated"
	pointOpen      = "not reached" // the search was interrupted before
)

// Slower is the reason why a plan is discarded whose bound is above the step time of the
// last of the best plans.
const Slower = "slower by a lower bound"

// TooLarge is the reason why a plan is discarded whose graph needs more memory than this computer has
// free. Nothing is known of its step and its memory.
const TooLarge = "too large to simulate here"

// state returns the state of a point, given the step time of the last of the best plans. A
// plan whose bound is above that time may or may not have been simulated, depending on the
// order in which workers found the best plans. It counts as discarded by its bound, so that
// equal searches write equal files.
func (p *PlanPoint) state(last time.Duration) string {
	switch {
	case last > 0 && p.Bound > last:
		return Slower
	case p.Pruned != "":
		return p.Pruned
	case p.Simulated:
		return pointSimulated
	}
	return pointOpen
}

// PlanDimensions names the dimensions of plans, as the fields of a plan are called.
func PlanDimensions() []string {
	return []string{
		"data", "tensor", "stages", "virtual_stages", "micro", "microbatches", "schedule", "recompute", "zero",
		"sequence", "context", "expert", "expert_tensor",
	}
}

// VariedKeys lists the keys that have several values and are not dimensions.
func VariedKeys(vary []Variation) (keys []string) {
	for _, v := range vary {
		_, name, _ := strings.Cut(v.Key, ".")
		if len(v.Values) > 1 && v.Key != "schedule.name" && !slices.Contains(PlanDimensions(), name) {
			keys = append(keys, v.Key)
		}
	}
	return keys
}

// Value returns a plan's value in a dimension, as PlanDimensions names it.
func (p PlanShape) Value(dimension string) string {
	switch dimension {
	case "data":
		return strconv.Itoa(p.Data)
	case "tensor":
		return strconv.Itoa(p.Tensor)
	case "stages":
		return strconv.Itoa(p.Stages)
	case "virtual_stages":
		return strconv.Itoa(p.VirtualStages)
	case "micro":
		return strconv.FormatInt(p.Micro, 10)
	case "microbatches":
		return strconv.Itoa(p.Microbatches)
	case "schedule":
		return p.Schedule
	case "recompute":
		return p.Recompute
	case "zero":
		return strconv.Itoa(p.Zero)
	case "sequence":
		return strconv.FormatBool(p.Sequence)
	case "context":
		return strconv.Itoa(p.Context)
	case "expert":
		return strconv.Itoa(p.Expert)
	case "expert_tensor":
		return strconv.Itoa(p.ExpertTensor)
	}
	return ""
}

// pointColumns lists the columns of points.csv.
func pointColumns() string {
	return strings.Join(PlanDimensions(), ",") + ",others,state,work_ns,bound_ns,step_time_ns,peak_memory_bytes,fits"
}

// others joins the settings of a plan that have one of some keys.
func (p *PlanPoint) others(keys []string) (joined string) {
	for _, set := range p.Set {
		if key, _, _ := strings.Cut(set, "="); slices.Contains(keys, key) {
			if joined != "" {
				joined += " "
			}
			joined += set
		}
	}
	return joined
}

// SetValue returns the value of a key in the settings of a plan, or "".
func (p PlanPoint) SetValue(key string) string {
	for _, set := range p.Set {
		if value, ok := strings.CutPrefix(set, key+"="); ok {
			return value
		}
	}
	return ""
}

// WritePlanPoints writes a row for every plan, in their order. Others are the varied keys that are not
// dimensions. Last is the step time of the last of the best plans, or 0 if there are fewer than were wanted.
func WritePlanPoints(w io.Writer, list []PlanPoint, others []string, last time.Duration) error {
	out := csvfile.NewWriter(w, pointColumns())
	for i := range list {
		p := &list[i]
		p.Plan.write(out)
		out.Text(p.others(others))
		state := p.state(last)
		out.Text(state)
		out.Int(int64(p.Work))
		out.Int(int64(p.Bound))
		if state == pointSimulated {
			out.Row(int64(p.StepTime), p.PeakMemory, p.Fits)
		} else {
			out.Row("", "", "")
		}
	}
	return out.End()
}

// write writes the values of all dimensions, in the order of PlanDimensions.
func (p *PlanShape) write(out *csvfile.Writer) {
	for _, n := range [...]int64{
		int64(p.Data), int64(p.Tensor), int64(p.Stages), int64(p.VirtualStages), p.Micro, int64(p.Microbatches),
	} {
		out.Int(n)
	}
	out.Text(p.Schedule)
	out.Text(p.Recompute)
	out.Int(int64(p.Zero))
	out.Text(strconv.FormatBool(p.Sequence))
	for _, n := range [...]int{p.Context, p.Expert, p.ExpertTensor} {
		out.Int(int64(n))
	}
}

// Settle sorts points by their plans and settings, an order that does not depend on shards. Of the points
// that are slower by their bound it keeps only what equal searches agree on: the work, and that they are
// slower than the last of the best plans.
func Settle(list []PlanPoint, last time.Duration) []PlanPoint {
	settled := make([]PlanPoint, len(list))
	for i, from := range SettledOrder(list) {
		settled[i] = list[from]
		if p := &settled[i]; p.state(last) == Slower {
			p.Simulated, p.Pruned, p.Bound = false, Slower, max(p.Work, last)
		}
	}
	return settled
}

// SettledOrder returns the indices of points in the order of Settle.
func SettledOrder(list []PlanPoint) []int32 {
	order := make([]int32, len(list)) // points are large, and there may be millions
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return list[a].compare(&list[b]) })
	return order
}

// compare orders points by their plans and settings.
func (p *PlanPoint) compare(q *PlanPoint) int {
	x, y := &p.Plan, &q.Plan
	if c := cmp.Or(
		cmp.Compare(x.Tensor, y.Tensor), cmp.Compare(x.Stages, y.Stages), cmp.Compare(x.Micro, y.Micro),
	); c != 0 {
		return c // as for most
	}
	return cmp.Or(
		cmp.Compare(x.Schedule, y.Schedule), cmp.Compare(x.VirtualStages, y.VirtualStages),
		cmp.Compare(x.Recompute, y.Recompute), cmp.Compare(x.Zero, y.Zero),
		compareBools(x.Sequence, y.Sequence), cmp.Compare(x.Context, y.Context), cmp.Compare(x.Expert, y.Expert),
		cmp.Compare(x.ExpertTensor, y.ExpertTensor), slices.Compare(p.Set, q.Set),
	)
}

// compareBools puts false first.
func compareBools(x, y bool) int {
	switch {
	case x == y:
		return 0
	case y:
		return -1
	}
	return 1
}

// ReadPlanPoints reads points that WritePlanPoints has written.
func ReadPlanPoints(r io.Reader) ([]PlanPoint, error) {
	t, err := csvfile.NewReader(r, pointColumns(), len(pointColumns()))
	if err != nil {
		return nil, err
	}
	var list []PlanPoint
	words := words{texts: map[string]string{"": ""}, sets: map[string][]string{"": nil}}
	for t.Next() {
		p := PlanPoint{
			Plan:  words.readShape(t),
			Work:  time.Duration(t.Number("work_ns", 0, math.MaxInt64)),
			Bound: time.Duration(t.Number("bound_ns", 0, math.MaxInt64)),
		}
		p.Set = words.set(t.Text("others"))
		switch state := t.Text("state"); state {
		case pointSimulated:
			p.Simulated, p.StepTime = true, time.Duration(t.Number("step_time_ns", 0, math.MaxInt64))
			p.PeakMemory, p.Fits = t.Number("peak_memory_bytes", 0, math.MaxInt64), t.Text("fits") == "true"
		case pointOpen:
		case "":
			t.Fail("state", fmt.Errorf("is missing"))
		default:
			p.Pruned = words.text(state)
		}
		list = append(list, p)
	}
	return list, t.Err
}

// words holds the texts and the lists of settings that have been read, which are few for millions of points.
type words struct {
	texts map[string]string
	sets  map[string][]string
}

// text returns a copy of a text, the same for all that are equal.
func (w *words) text(text string) string {
	known, ok := w.texts[text]
	if !ok {
		known = strings.Clone(text)
		w.texts[known] = known
	}
	return known
}

// set splits settings with blanks between them. Do not change the list, which points share.
func (w *words) set(others string) []string {
	known, ok := w.sets[others]
	if !ok {
		others = strings.Clone(others)
		known = strings.Split(others, " ")
		w.sets[others] = known
	}
	return known
}

// readShape reads the columns of the dimensions.
func (w *words) readShape(t *csvfile.Reader) PlanShape {
	count := func(column string) int { return int(t.Number(column, 0, math.MaxInt32)) }
	text := func(column string) string { return w.text(t.Text(column)) }
	return PlanShape{
		Data: count("data"), Tensor: count("tensor"), Stages: count("stages"), VirtualStages: count("virtual_stages"),
		Micro: t.Number("micro", 1, math.MaxInt64), Microbatches: count("microbatches"),
		Schedule: text("schedule"), Recompute: text("recompute"), Zero: count("zero"),
		Sequence: t.Text("sequence") == "true", Context: count("context"),
		Expert: count("expert"), ExpertTensor: count("expert_tensor"),
	}
}
