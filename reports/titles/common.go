package titles

import (
	"slices"
	"strings"

	"psim/internal/units"
	"psim/results"
)

// parts lists what titles say of a result, in their order. The place is last.
func parts(r results.Result) []string {
	return []string{Model(r), Schedule(r), Sizes(r), r.Kind, Place(r)}
}

// placeAt and kindAt are where parts has the place and the kind, which are one part of a title.
const kindAt, placeAt = 3, 4

// Common describes what all of some results are: "GPT-2 124M, 4 stages × 8 microbatches, predicted
// on 4 A100". Of predictions and measurements it says both.
func Common(list ...results.Result) string {
	shared := parts(list[0])
	for _, r := range list[1:] {
		for i, part := range parts(r) {
			switch {
			case part == shared[i]:
			case i == kindAt:
				shared[i] = results.Predicted + " and " + results.Measured
			default:
				shared[i] = ""
			}
		}
	}
	if i := slices.IndexFunc(shared, func(s string) bool { return s != "" }); i >= kindAt {
		shared[0] = units.Plural(len(list), "run")
	}
	return Join(append(shared[:kindAt:kindAt], shared[kindAt]+shared[placeAt])...)
}

// Differences describes each of some results by what they do not have in common. Results that do not
// differ in words are called by the names of their configurations, if these differ.
func Differences(list ...results.Result) []string {
	texts, all := make([]string, len(list)), make([][]string, len(list))
	for i, r := range list {
		all[i] = parts(r)
	}
	differ := func(part int) bool {
		return slices.ContainsFunc(all, func(p []string) bool { return p[part] != all[0][part] })
	}
	for i := range list {
		var own []string
		for k, part := range all[i][:kindAt] {
			if differ(k) {
				own = append(own, part)
			}
		}
		last := ""
		if differ(kindAt) {
			last = all[i][kindAt]
		}
		if differ(placeAt) {
			last += all[i][placeAt]
		}
		texts[i] = Join(append(own, strings.TrimSpace(last))...)
	}
	if !distinct(texts) {
		for i, r := range list {
			texts[i] = strings.TrimSuffix(oneLine(r.Name)+", "+texts[i], ", ")
		}
	}
	return texts
}

// distinct reports whether no two texts are equal.
func distinct(texts []string) bool {
	return len(slices.Compact(slices.Sorted(slices.Values(texts)))) == len(texts)
}
