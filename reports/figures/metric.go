package figures

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"psim/internal/nearest"
	"psim/results"
)

// metric draws a number of the results, by its key in result.json. Of a number that every
// rank has, it draws the largest.
func metric(r Request) (Picture, error) {
	key, err := findKey(r.Key, r.Items)
	if err != nil {
		return nil, err
	}
	q := ofKey(key)
	b, err := newBars(q.label, r, q, func(i *Item) (value, error) {
		x, known := metrics(i.Run.Result)[key]
		if !known {
			return value{}, fmt.Errorf("%s: has no %s", i.named(), key)
		}
		if key == "step_time_s" {
			return timeOf(i.Run.Result), nil
		}
		return value{mean: x}, nil
	})
	if err != nil {
		return nil, err
	}
	return b.picture(), nil
}

// metrics lists the numbers of a result by their keys, and the rate of one with [times] and no batch, whose
// steps may hold different work.
func metrics(r results.Result) map[string]float64 {
	r.Predicted, r.Runs = nil, nil
	list := map[string]float64{}
	data, err := json.Marshal(r)
	if err != nil { // numbers that JSON cannot hold, in results that were never files
		return list
	}
	var object map[string]any
	if json.Unmarshal(data, &object) == nil {
		flatten(list, "", object)
	}
	if r.Throughput.Samples == 0 && r.StagesWithTimes() > 0 {
		list["microbatches_per_s"] = r.MicrobatchesPerSecond()
	}
	if r.Measurement != nil && r.Source != "" { // a number that a file of another program lacks is unknown, not 0
		maps.DeleteFunc(list, func(_ string, x float64) bool { return x == 0 })
	}
	return list
}

// flatten adds the numbers of a JSON object to a list. Of a number that is in several
// objects of an array, it adds the largest.
func flatten(list map[string]float64, prefix string, object map[string]any) {
	for key, x := range object {
		key = prefix + key
		switch x := x.(type) {
		case float64:
			if before, seen := list[key]; !seen || x > before {
				list[key] = x
			}
		case map[string]any:
			if key != "config" { // settings rather than results
				flatten(list, key+".", x)
			}
		case []any:
			for _, part := range x {
				if part, ok := part.(map[string]any); ok {
					flatten(list, key+".", part)
				}
			}
		}
	}
}

// findKey returns the full key of a number that some of the results have. The key may be
// given in full, by a part that is in no other key, or by the name that other programs use.
func findKey(key string, items []Item) (string, error) {
	others := map[string]string{
		"training_time":     "step_time_s",
		"tokens_per_second": "throughput.tokens_per_s",
		"throughput":        "throughput.samples_per_s",
	}
	if k, ok := others[key]; ok {
		key = k
	}
	all := map[string]bool{}
	for _, i := range items {
		for k := range metrics(i.Run.Result) {
			all[k] = true
		}
	}
	names := slices.Sorted(maps.Keys(all))
	if all[key] {
		return key, nil
	}
	var matches []string
	for _, name := range names {
		if strings.HasSuffix(name, "."+key) || strings.HasPrefix(name, key+".") {
			matches = append(matches, name)
		}
	}
	if len(matches) == 1 {
		return matches[0], nil
	}
	if len(matches) > 1 {
		return "", fmt.Errorf("metric %q stands for several numbers; use one of %s", key, strings.Join(matches, ", "))
	}
	return "", fmt.Errorf("unknown metric %q; use one of %s%s",
		key, strings.Join(names, ", "), nearest.Suggest(key, names))
}
