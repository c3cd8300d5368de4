package picture

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"psim/internal/units"
	"psim/reports/chart"
	"psim/results"
	"psim/results/rankings"
)

// A ParetoFigure shows plans by the memory that they need and the time that they take.
type ParetoFigure struct {
	Title string
	Plans []rankings.Candidate
	// Capacity is the memory of a rank in bytes; 0 is unlimited or not known.
	Capacity int64
	// Shapes says that plans differ in how they divide the network. Their settings then
	// abbreviate it in letters.
	Shapes bool
	Remark string // for the legend
}

// PointsFigure makes a figure of the points of a search: the plans that were simulated. The
// margin is already subtracted from the capacity.
func PointsFigure(title string, points []rankings.PlanPoint, capacity int64, margin float64) ParetoFigure {
	f := ParetoFigure{Title: title, Capacity: capacity, Shapes: true}
	for i := range points {
		if p := &points[i]; p.Simulated {
			r := results.Result{
				Schedule: p.Plan.Schedule, StepTime: p.StepTime.Seconds(), VirtualStages: p.Plan.VirtualStages,
				Ranks: []results.RankResult{{PeakMemory: p.PeakMemory}}, MemoryMargin: margin, FitsMemory: p.Fits,
			}
			f.Plans = append(f.Plans, rankings.NewCandidate(r, []string{planLabel(p.Plan)}, 0))
		}
	}
	if left := len(points) - len(f.Plans); left > 0 {
		f.Remark = units.Plural(left, "more plan") + ", discarded without a simulation"
	}
	return f
}

// planLabel abbreviates how a plan divides the network, such as T8 P4 B1.
func planLabel(p rankings.PlanShape) string {
	text := fmt.Sprintf("T%d", p.Tensor)
	if p.Context > 1 {
		text += fmt.Sprintf(" C%d", p.Context)
	}
	if p.Expert > 1 {
		text += fmt.Sprintf(" E%d", p.Expert)
	}
	text += fmt.Sprintf(" P%d B%d", p.Stages, p.Micro)
	if p.Zero > 0 {
		text += fmt.Sprintf(" Z%d", p.Zero)
	}
	if p.Recompute != "none" && p.Recompute != "" {
		text += " R"
	}
	return text
}

// Pareto draws every plan as a point, with the peak memory of its fullest rank to the right
// and its step time upwards. A line connects the plans that no other plan beats in both, of those
// that fit if any do; these are labelled with their sizes.
func Pareto(w io.Writer, format string, p ParetoFigure) error {
	p, far := p.near()
	var peak int64
	var slowest float64
	for _, plan := range p.Plans {
		peak, slowest = max(peak, plan.PeakMemory()), max(slowest, plan.StepTime)
	}
	if peak <= 0 || slowest <= 0 {
		return errors.New("no plan takes both time and memory: there is nothing to draw")
	}
	beyond := p.Capacity/4 > peak // the points would be squeezed together
	if !beyond {
		peak = max(peak, p.Capacity)
	}
	f := chart.New(p.Title, 260)
	least, fastest := p.from(peak, slowest)
	chart.Bytes(&f.X, chart.Scale{
		Label: "peak memory of the fullest rank", Low: float64(least), High: float64(peak), Intervals: 10,
	})
	chart.Times(&f.Y, chart.Scale{
		Label: "step time", Low: nanoseconds(fastest), High: nanoseconds(slowest), Intervals: 6,
	})
	f.X.Max += 0.06 * (f.X.Max - f.X.Min) // leave some space on the right and at the top
	f.Y.Max += 0.1 * (f.Y.Max - f.Y.Min)
	limit := chart.Line(chart.Dotted(chart.RGB(chart.Alarm), 1.4),
		plotter.XY{X: float64(p.Capacity), Y: f.Y.Min}, plotter.XY{X: float64(p.Capacity), Y: f.Y.Max})
	if p.Capacity > 0 && !beyond {
		f.Add(limit)
	}
	p.draw(f)
	if text := capacityText(p.Capacity, p.Plans[0].MemoryMargin); beyond {
		f.Explain(text+", right of the picture", nil)
	} else if p.Capacity > 0 {
		f.Explain(text, limit)
	}
	for _, text := range []string{far, p.Remark} {
		if text != "" {
			f.Explain(text, nil)
		}
	}
	return f.Write(w, format)
}

// nanoseconds converts seconds to whole nanoseconds.
func nanoseconds(s float64) float64 { return math.Trunc(s * float64(time.Second)) }

// from returns where the axes begin: left of the plans, with the room that the longest label
// needs, and slightly below them.
func (p ParetoFigure) from(peak int64, slowest float64) (least int64, fastest float64) {
	least, fastest = peak, slowest
	for _, plan := range p.Plans {
		least, fastest = min(least, plan.PeakMemory()), min(fastest, plan.StepTime)
	}
	return int64(begin(float64(least), float64(peak), 0.3, 0.1)), begin(fastest, slowest, 0.15, 0.01)
}

// begin returns where an axis begins whose points lie from low to high. It begins below low
// by a share of the range from low to high, but at least by a share of low, and at 0 if that
// is close.
func begin(low, high, ofRange, ofLow float64) float64 {
	const near = 0.15
	from := low - max(ofRange*(high-low), ofLow*low)
	if from < near*high {
		return 0
	}
	return from
}

// near leaves out the plans that need far more memory than there is, because they would
// squeeze the others together. It also returns a text that says how many they are.
func (p ParetoFigure) near() (shown ParetoFigure, far string) {
	const beyond = 1.5 // of the capacity
	limit, most, count := beyond*float64(p.Capacity), int64(0), 0
	for i, plan := range p.Plans {
		if peak := float64(plan.PeakMemory()); i == 0 || peak < limit/beyond {
			limit = max(limit, beyond*peak) // keep the plan that needs the least
		}
	}
	shown = p
	shown.Plans = nil
	for _, plan := range p.Plans {
		if p.Capacity > 0 && float64(plan.PeakMemory()) > limit {
			most, count = max(most, plan.PeakMemory()), count+1
		} else {
			shown.Plans = append(shown.Plans, plan)
		}
	}
	if count > 0 {
		far = fmt.Sprintf("%s, right of the picture: up to %s",
			units.Plural(count, "more plan"), units.FormatBytes(most))
	}
	return shown, far
}

// draw adds the plans, the best on top, and the Pareto front, along which less time costs
// more memory.
func (p ParetoFigure) draw(f *chart.Figure) {
	var schedules []string
	for _, plan := range p.Plans {
		if !slices.Contains(schedules, plan.Schedule) {
			schedules = append(schedules, plan.Schedule)
		}
	}
	slices.Sort(schedules)
	front, best := paretoFront(p.Plans)
	border := chart.Line(chart.Stroke(chart.RGB(chart.Faint), 1))
	border.StepStyle = plotter.PostStep
	points, labels := &plotter.Scatter{}, chart.Labels{Walls: []float64{float64(p.Capacity)}}
	var looks []draw.GlyphStyle
	add := func(i int32, radius vg.Length) plotter.XY {
		at := plotter.XY{X: float64(p.Plans[i].PeakMemory()), Y: p.Plans[i].StepTime * float64(time.Second)}
		points.XYs = append(points.XYs, at)
		looks = append(looks, chart.Look(slices.Index(schedules, p.Plans[i].Schedule), radius))
		return at
	}
	for i := range slices.Backward(p.Plans) {
		add(int32(i), 3)
	}
	for _, i := range front {
		at := add(i, 4.5)
		border.XYs, labels.XYs = append(border.XYs, at), append(labels.XYs, at)
		labels.Texts = append(labels.Texts, p.sizes(p.Plans[i]))
	}
	slices.Reverse(labels.XYs) // there may not be room for all labels: place that of the fastest first
	slices.Reverse(labels.Texts)
	labels.Texts, labels.Others = withoutRepeats(labels.Texts), points.XYs
	if p.Plans[front[len(front)-1]].FitsMemory {
		labels.Texts[0] = "best: " + labels.Texts[0]
	}
	points.GlyphStyleFunc = func(i int) draw.GlyphStyle { return looks[i] }
	f.Add(border, points, labels)
	for i, s := range schedules {
		f.Explain(s, &plotter.Scatter{GlyphStyle: chart.Look(i, 4)})
	}
	f.Explain(best, border)
	f.Explain(explainLetters(labels.Texts), nil)
}

// explainLetters says what the letters in labels mean.
func explainLetters(labels []string) string {
	var list []string
	for _, l := range []struct{ letter, means string }{
		{"T", "tensor"}, {"C", "context"}, {"E", "experts"}, {"P", "stages"}, {"B", "microbatch size"},
		{"Z", "ZeRO"}, {"R", "recompute"}, {"M", "microbatches"}, {"V", "stages per rank"},
	} {
		begins := func(word string) bool { return strings.HasPrefix(word, l.letter) }
		if slices.ContainsFunc(strings.Fields(strings.Join(labels, " ")), begins) {
			list = append(list, l.letter+" "+l.means)
		}
	}
	return strings.Join(list, ", ")
}

// withoutRepeats replaces each text that equals the one before it by an empty one.
func withoutRepeats(texts []string) []string {
	list := slices.Clone(texts)
	for i, text := range texts[min(1, len(texts)):] {
		if text == texts[i] {
			list[i+1] = ""
		}
	}
	return list
}

// sizes labels a plan with its number of microbatches, or with how it divides the network,
// and with its stages per rank if there are several.
func (p ParetoFigure) sizes(plan rankings.Candidate) string {
	text := fmt.Sprintf("M=%d", plan.Microbatches)
	if p.Shapes {
		text = plan.Set[0]
	}
	if plan.VirtualStages > 1 {
		text += fmt.Sprintf(" V=%d", plan.VirtualStages)
	}
	return text
}

// paretoFront lists the plans that no other plan beats in both memory and time, sorted by
// memory, and says so. If plans fit, the others do not count.
func paretoFront(plans []rankings.Candidate) (front []int32, text string) {
	var fit, all []int32
	for i := range plans {
		if all = append(all, int32(i)); plans[i].FitsMemory {
			fit = append(fit, int32(i))
		}
	}
	order, text := all, "no plan is better in both"
	if n := len(fit); n > 0 && n < len(all) {
		order, text = fit, "no plan that fits is better in both"
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		return cmp.Or(
			cmp.Compare(plans[a].PeakMemory(), plans[b].PeakMemory()),
			cmp.Compare(plans[a].StepTime, plans[b].StepTime),
		)
	})
	for _, i := range order {
		if len(front) == 0 || plans[i].StepTime < plans[front[len(front)-1]].StepTime {
			front = append(front, i)
		}
	}
	return front, text
}
