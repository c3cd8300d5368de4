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

// A PlanPoint is what is known of a plan.
type PlanPoint struct {
	Plan PlanShape
	Set  []string
	// Pruned is the reason why it was discarded; "" if it was not.
	Pruned string
	// Work and Bound are times that its step is no shorter than, where they are known: by
	// what its ranks have to do on average, which is found first and for all plans, and the
	// longest that was found.
	Work, Bound time.Duration
	// Simulated plans have a step time and a peak memory; Fits tells whether that fits,
	// with the margin.
	Simulated  bool
	StepTime   time.Duration
	PeakMemory int64
	Fits       bool
}

// The states of a point; one that was discarded has its reason in place of them.
const (
	pointSimulated = "simulated"
	pointOpen      = "not reached" // of a search that was interrupted
)

// Slower is why a plan is discarded whose bound is above what the last of the best plans
// takes.
const Slower = "slower by a lower bound"

// state says what became of a point. A plan whose bound is above what the last of the
// best plans takes may have been simulated or not, as workers happened to find the best:
// it counts as discarded by its bound, so that equal searches say the same.
func (p PlanPoint) state(last time.Duration) string {
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
	return []string{"data", "tensor", "stages", "virtual_stages", "micro", "microbatches", "schedule", "recompute", "zero", "sequence", "context", "expert", "expert_tensor"}
}

// VariedKeys lists the keys that have several values and are no dimension.
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
	i := slices.Index(PlanDimensions(), dimension)
	if i < 0 {
		return ""
	}
	return []string{
		strconv.Itoa(p.Data), strconv.Itoa(p.Tensor), strconv.Itoa(p.Stages), strconv.Itoa(p.VirtualStages),
		strconv.FormatInt(p.Micro, 10), strconv.Itoa(p.Microbatches), p.Schedule, p.Recompute, strconv.Itoa(p.Zero), strconv.FormatBool(p.Sequence),
		strconv.Itoa(p.Context), strconv.Itoa(p.Expert), strconv.Itoa(p.ExpertTensor),
	}[i]
}

// pointColumns lists the columns of points.csv.
func pointColumns() string {
	return strings.Join(PlanDimensions(), ",") + ",others,state,work_ns,bound_ns,step_time_ns,peak_memory_bytes,fits"
}

// others joins the settings of a plan that are no dimension, those of some keys.
func (p PlanPoint) others(keys []string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(p.Set), func(set string) bool {
		key, _, _ := strings.Cut(set, "=")
		return !slices.Contains(keys, key)
	}), " ")
}

// value finds that of a key among the settings of a plan.
func (p PlanPoint) SetValue(key string) string {
	for _, set := range p.Set {
		if value, ok := strings.CutPrefix(set, key+"="); ok {
			return value
		}
	}
	return ""
}

// WritePlanPoints writes a row for every plan, in the order of their settings. Others are the
// keys of what varies beside the dimensions, and last is the step time of the last of the
// best plans, 0 where there are fewer than were wanted.
func WritePlanPoints(w io.Writer, list []PlanPoint, others []string, last time.Duration) error {
	out := csvfile.NewWriter(w, pointColumns())
	for _, p := range settled(list, last) {
		var cells []any
		for _, d := range PlanDimensions() {
			cells = append(cells, p.Plan.Value(d))
		}
		cells = append(cells, p.others(others), p.state(last))
		if p.state(last) == pointSimulated {
			out.Row(append(cells, int64(p.Work), int64(p.Bound), int64(p.StepTime), p.PeakMemory, p.Fits)...)
			continue
		}
		out.Row(append(cells, int64(p.Work), int64(p.Bound), "", "", "")...)
	}
	return out.End()
}

// settled lists points in the order that shards have, too. Of those that are slower by
// their bound equal searches know the work, and that they are slower than the last.
func settled(list []PlanPoint, last time.Duration) []PlanPoint {
	list = sortedPoints(list)
	for i, p := range list {
		if p.state(last) == Slower {
			list[i].Simulated, list[i].Pruned, list[i].Bound = false, Slower, max(p.Work, last)
		}
	}
	return list
}

// sortedPoints puts points into an order that shards have, too.
func sortedPoints(list []PlanPoint) []PlanPoint {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b PlanPoint) int {
		x, y := a.Plan, b.Plan
		return cmp.Or(
			cmp.Compare(x.Tensor, y.Tensor), cmp.Compare(x.Stages, y.Stages), cmp.Compare(x.Micro, y.Micro), cmp.Compare(x.Schedule, y.Schedule),
			cmp.Compare(x.VirtualStages, y.VirtualStages), cmp.Compare(x.Recompute, y.Recompute), cmp.Compare(x.Zero, y.Zero),
			cmp.Compare(x.Value("sequence"), y.Value("sequence")),
			cmp.Compare(x.Context, y.Context), cmp.Compare(x.Expert, y.Expert), cmp.Compare(x.ExpertTensor, y.ExpertTensor), slices.Compare(a.Set, b.Set),
		)
	})
	return list
}

// ReadPlanPoints reads what WritePlanPoints has written; settings that are dimensions are no
// longer in Set.
func ReadPlanPoints(r io.Reader) ([]PlanPoint, error) {
	const most = math.MaxInt32
	t, err := csvfile.NewReader(r, pointColumns(), len(pointColumns()))
	if err != nil {
		return nil, err
	}
	var list []PlanPoint
	for t.Next() {
		count := func(column string) int { return int(t.Number(column, 0, most)) }
		p := PlanPoint{
			Plan: PlanShape{
				Data: count("data"), Tensor: count("tensor"), Stages: count("stages"), VirtualStages: count("virtual_stages"),
				Micro: t.Number("micro", 1, math.MaxInt64), Microbatches: count("microbatches"), Schedule: strings.Clone(t.Text("schedule")),
				Recompute: strings.Clone(t.Text("recompute")), Zero: count("zero"), Sequence: t.Text("sequence") == "true",
				Context: count("context"), Expert: count("expert"), ExpertTensor: count("expert_tensor"),
			},
			Work:  time.Duration(t.Number("work_ns", 0, math.MaxInt64)),
			Bound: time.Duration(t.Number("bound_ns", 0, math.MaxInt64)),
		}
		if others := t.Text("others"); others != "" {
			p.Set = strings.Split(strings.Clone(others), " ")
		}
		switch state := t.Text("state"); state {
		case pointSimulated:
			p.Simulated, p.StepTime = true, time.Duration(t.Number("step_time_ns", 0, math.MaxInt64))
			p.PeakMemory, p.Fits = t.Number("peak_memory_bytes", 0, math.MaxInt64), t.Text("fits") == "true"
		case pointOpen:
		case "":
			t.Fail("state", fmt.Errorf("is missing"))
		default:
			p.Pruned = strings.Clone(state)
		}
		list = append(list, p)
	}
	return list, t.Err
}
