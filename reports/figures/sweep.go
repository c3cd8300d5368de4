package figures

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg/draw"

	"psim/internal/units"
	"psim/reports/chart"
)

// A table holds a number of every result, by the settings that differ.
type table struct {
	items  []Item
	across dimension   // along the horizontal axis
	others []dimension // the other settings that differ
	key    string
	quantity
	values []float64
	notes  []string
}

// newTable finds a number of the results, and the setting for the horizontal axis: the
// first whose values are numbers, or else the first.
func newTable(r Request) (table, error) {
	key := r.Key
	if key == "" {
		key = "step_time_s"
	}
	key, err := findKey(key, r.Items)
	if err != nil {
		return table{}, err
	}
	t := table{items: r.Items, key: key, quantity: ofKey(key), others: dimensions(r.Items), notes: r.Notes}
	if len(t.others) == 0 {
		return t, errors.New("all results have the same settings; a sweep varies at least one")
	}
	first := max(0, slices.IndexFunc(t.others, func(d dimension) bool { return d.numbers != nil }))
	t.across = t.others[first]
	t.others = slices.Delete(slices.Clone(t.others), first, first+1)
	for i := range r.Items {
		x, known := metrics(r.Items[i].Run.Result)[key]
		if !known {
			return t, fmt.Errorf("%s: has no %s", r.Items[i].named(), key)
		}
		t.values = append(t.values, x)
	}
	if slices.Max(t.values) <= 0 {
		return t, Nothing{fmt.Errorf("%s is 0 everywhere, so there is nothing to draw", key)}
	}
	return t, nil
}

// A curve is a line through the points that have the same other settings.
type curve struct {
	name   string
	points []int // items, by their values on the horizontal axis
}

// curves lists the lines, in the order of their values.
func (t table) curves() []curve {
	var list []curve
	for _, v := range t.across.values {
		for i := range t.items {
			if t.items[i].at(t.across) != v {
				continue
			}
			name := t.other(t.items[i])
			at := slices.IndexFunc(list, func(c curve) bool { return c.name == name })
			if at < 0 {
				at, list = len(list), append(list, curve{name: name})
			}
			list[at].points = append(list[at].points, i)
		}
	}
	rank := func(c curve) (places []int) {
		for _, d := range t.others {
			places = append(places, slices.Index(d.values, t.items[c.points[0]].at(d)))
		}
		return places
	}
	slices.SortStableFunc(list, func(a, b curve) int { return slices.Compare(rank(a), rank(b)) })
	return list
}

// other names an item by all settings except the one on the horizontal axis.
func (t table) other(i Item) string {
	var parts []string
	for _, d := range t.others {
		parts = append(parts, valueTitle(d.key, i.at(d)))
	}
	return strings.Join(parts, ", ")
}

// valueTitle names a value of a setting. A name says itself what it is of.
func valueTitle(key, value string) string {
	if part := lastPart(key); part == "name" || part == "kind" {
		return value
	}
	return axisTitle(key) + " " + valueText(value)
}

// valueText writes a value of a setting. Thousands of a whole number are separated.
func valueText(value string) string {
	if n, err := strconv.ParseInt(value, 10, 64); err == nil {
		return units.FormatCount(n)
	}
	return value
}

// valueTexts writes the values of a setting.
func (d dimension) valueTexts() (texts []string) {
	for _, v := range d.values {
		texts = append(texts, valueText(v))
	}
	return texts
}

// axisTitle names a setting for people: by its key without the section, or by the section
// if the key is its name.
func axisTitle(key string) string {
	words := map[string]string{
		"parallel.data": "data-parallel replicas", "parallel.tensor": "tensor-parallel devices",
		"parallel.zero": "ZeRO stage", "batch.global": "global batch",
	}
	section, name, ok := strings.Cut(key, ".")
	switch {
	case !ok || name == "name":
		return section
	case words[key] != "":
		return words[key]
	}
	return strings.NewReplacer(".", " ", "_", " ").Replace(name)
}

func lastPart(key string) string { return key[strings.LastIndex(key, ".")+1:] }

// sweep draws a number over a setting, a line for each value of the others.
func sweep(r Request) (Picture, error) {
	t, err := newTable(r)
	if err != nil {
		return nil, err
	}
	return func(w io.Writer, format string) error { return t.figure().Write(w, format) }, nil
}

func (t table) figure() *chart.Figure {
	const height = 230
	f := chart.New(title(t.label, t.items), height)
	t.axis(&f.Y, t.label, slices.Max(t.values)*t.scale)
	f.Y.Min, f.Y.Max = min(0, slices.Min(t.values)*t.scale), f.Y.Max*1.06
	if t.numeric() {
		f.Values(axisTitle(t.across.key), t.across.numbers, t.across.valueTexts())
	} else {
		f.Columns(axisTitle(t.across.key), t.across.valueTexts())
	}
	cross := draw.GlyphStyle{Color: chart.RGB(chart.Alarm), Radius: 4.5, Shape: draw.CrossGlyph{}}
	unfit := &plotter.Scatter{GlyphStyle: cross}
	lines, remark := t.styled(f)
	for _, c := range lines {
		line, points := chart.Line(c.Line), &plotter.Scatter{GlyphStyle: c.Marks}
		for _, k := range c.points {
			at := point(t.place(k), t.values[k]*t.scale)
			line.XYs = append(line.XYs, at)
			if !t.items[k].Run.Result.FitsMemory {
				unfit.XYs = append(unfit.XYs, at)
			}
		}
		if points.XYs = line.XYs; t.numeric() {
			f.Add(line)
		}
		f.Add(points)
	}
	if len(unfit.XYs) > 0 {
		f.Add(unfit)
		f.Explain("does not fit in memory", unfit)
	}
	if remark != "" {
		f.Explain(remark, nil)
	}
	f.Remark(t.notes)
	return f
}

// numeric reports whether the horizontal axis is of numbers. Nothing lies between names, so that
// lines do not join these.
func (t table) numeric() bool { return t.across.numbers != nil }

// place returns where an item lies on the horizontal axis.
func (t table) place(item int) float64 {
	at := slices.Index(t.across.values, t.items[item].at(t.across))
	if t.numeric() {
		return t.across.numbers[at]
	}
	return float64(at)
}
