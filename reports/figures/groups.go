package figures

import (
	"fmt"
	"slices"
	"strings"

	"psim/internal/units"
	"psim/results"
)

// A group is one experiment: what was predicted for it, what was measured, or both.
type group struct {
	label               string
	predicted, measured *Item
}

// grouped puts predictions beside measurements of the same experiment.
func grouped(items []Item) []group {
	var list []group
	for i := range items {
		item := &items[i]
		at := slices.IndexFunc(list, func(g group) bool {
			return *g.side(item.Run.Result.Kind) == nil && g.first().same(item) && g.first().devices() == item.devices()
		})
		if at < 0 {
			at, list = len(list), append(list, group{})
		}
		*list[at].side(item.Run.Result.Kind) = item
	}
	name(list)
	return list
}

// same reports whether two results are of one experiment. What another program
// has measured has no configuration of psim: its schedule says what was run.
func (i *Item) same(other *Item) bool {
	if i.foreign() || other.foreign() {
		a, b := i.Run.Result, other.Run.Result
		return a.Schedule == b.Schedule && a.FullySharded == b.FullySharded && i.foreign() != other.foreign()
	}
	return i.experiment() == other.experiment()
}

// foreign reports whether an item was read from a file of another program.
func (i *Item) foreign() bool {
	return i.Run.Result.Measurement != nil && i.Run.Result.Source != ""
}

func (g *group) side(kind string) **Item {
	if kind == results.Measured {
		return &g.measured
	}
	return &g.predicted
}

func (g group) first() *Item {
	if g.predicted != nil {
		return g.predicted
	}
	return g.measured
}

// items lists what there is of a group.
func (g group) items() []*Item {
	return slices.DeleteFunc([]*Item{g.predicted, g.measured}, func(i *Item) bool { return i == nil })
}

// experiment tells what may run on more or fewer devices.
func (i Item) experiment() string { return i.Run.Result.Name + "\n" + i.Run.Result.Schedule }

// name gives groups labels that differ: their own where they were predicted just
// now, else numbers of devices, schedules or configurations if these tell them
// apart, and at last their folders.
func name(list []group) {
	ways := []func(group) string{
		func(g group) string {
			if i := slices.IndexFunc(g.items(), func(i *Item) bool { return i.Path == "" }); i >= 0 {
				return g.items()[i].Label
			}
			return ""
		},
		func(g group) string { return units.Plural(g.first().devices(), "device") },
		func(g group) string { return g.first().Run.Result.Schedule },
		func(g group) string { return g.first().Run.Result.Name },
		func(g group) string {
			return fmt.Sprintf("%s=%d", g.first().Run.Result.Name, g.first().devices())
		},
		func(g group) string { return g.first().Label },
		func(g group) string { return strings.TrimSuffix(g.first().Path, "/result.json") },
	}
	for k, way := range ways {
		seen, apart := map[string]bool{}, true
		for i := range list {
			list[i].label = way(list[i])
			apart = apart && list[i].label != "" && !seen[list[i].label]
			seen[list[i].label] = true
		}
		if apart && (len(list) > 1 || k == 0 || k >= 3) {
			return
		}
	}
	for i := range list { // the same result twice
		list[i].label = fmt.Sprintf("%d: %s", i+1, list[i].first().Label)
	}
}

// common returns what all results are of, or nothing.
func common(items []Item, of func(results.Result) string) string {
	first := of(items[0].Run.Result)
	if slices.ContainsFunc(items, func(i Item) bool { return of(i.Run.Result) != first }) {
		return ""
	}
	return first
}

// title says what is drawn, of what, and whether it was predicted or measured.
func title(what string, items []Item) string {
	name := common(items, func(r results.Result) string { return r.Name })
	parts := []string{what}
	for _, part := range []string{name, common(items, func(r results.Result) string { return r.Kind })} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "  ·  ")
}
