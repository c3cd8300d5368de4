package figures

import (
	"fmt"
	"slices"
	"strings"

	"psim/internal/units"
	"psim/reports/titles"
	"psim/results"
)

// A group is one experiment: its prediction, its measurement, or both.
type group struct {
	label               string
	predicted, measured *Item
}

// grouped pairs each prediction with the measurement of the same experiment.
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

// same reports whether two results are of one experiment. A measurement of another program
// comes without a configuration of psim: it is matched by its schedule.
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

// items lists the results of a group.
func (g group) items() []*Item {
	return slices.DeleteFunc([]*Item{g.predicted, g.measured}, func(i *Item) bool { return i == nil })
}

// experiment identifies an experiment regardless of its number of devices.
func (i Item) experiment() string { return i.Run.Result.Name + "\n" + i.Run.Result.Schedule }

// name gives every group a label of its own. Predictions that were just made keep their
// labels; other groups are named by their numbers of devices, schedules or configurations
// if these differ, and otherwise by their folders.
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
		seen, distinct := map[string]bool{}, true
		for i := range list {
			list[i].label = way(list[i])
			distinct = distinct && list[i].label != "" && !seen[list[i].label]
			seen[list[i].label] = true
		}
		if distinct && (len(list) > 1 || k == 0 || k >= 3) {
			return
		}
	}
	for i := range list { // the same result was given twice
		list[i].label = fmt.Sprintf("%d: %s", i+1, list[i].first().Label)
	}
}

// common returns a property of the results if it is the same for all of them, else "".
func common(items []Item, of func(results.Result) string) string {
	first := of(items[0].Run.Result)
	if slices.ContainsFunc(items, func(i Item) bool { return of(i.Run.Result) != first }) {
		return ""
	}
	return first
}

// PredictedFor marks a figure of predictions that were just made, with their device if they have one
// in common. It returns the remark for a Request. Saved results are drawn as they were when they
// were made.
func PredictedFor(items []Item) []string {
	device := func(r results.Result) string {
		machine, _ := r.Config["machine"].(map[string]any)
		name, _ := machine["device"].(string)
		return name
	}
	saved := func(i Item) bool { return i.Path != "" || i.Run.Result.Kind != results.Predicted }
	if len(items) == 0 || slices.ContainsFunc(items, saved) {
		return nil
	}
	if name := common(items, device); name != "" {
		return []string{"predicted for " + name}
	}
	return []string{results.Predicted}
}

// title says which number is drawn, and in words what the results have in common.
func title(what string, items []Item) string {
	list := make([]results.Result, len(items))
	for i := range items {
		list[i] = items[i].Run.Result
	}
	return titles.Join(what) + ": " + titles.Common(list...)
}
