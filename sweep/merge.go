package sweep

import (
	"fmt"
	"slices"
	"strings"

	"psim/results/rankings"
)

// Merge joins sweeps of one configuration over the same settings: the shards of one
// sweep, or sweeps over different values. A folder holds a sweep, or folders of shards.
// Points that are in several sweeps must agree. If points are missing, the error is a
// *rankings.MissingPoints.
func Merge(folders ...string) (rankings.Sweep, error) {
	parts, err := rankings.PartFolders("sweep", folders)
	if err != nil {
		return rankings.Sweep{}, err
	}
	var whole rankings.Sweep
	points, from := map[string]rankings.SweepPoint{}, map[string]string{}
	for i, folder := range parts {
		s, err := rankings.LoadSweep(folder)
		if err != nil {
			return whole, err
		}
		if i == 0 {
			whole.SweepInfo = s.SweepInfo
			whole.Shard, whole.Vary = "", slices.Clone(s.Vary)
		} else if err := addValues(&whole.SweepInfo, s.SweepInfo); err != nil {
			return whole, fmt.Errorf("%s: %w %s; only parts of one sweep can be merged", folder, err, parts[0])
		}
		for _, p := range s.Points {
			set := strings.Join(p.Set, "\n")
			if before, ok := points[set]; ok && !before.Same(p) {
				return whole, fmt.Errorf("%s: has another result for %s than %s",
					folder, strings.Join(p.Set, " "), from[set])
			}
			points[set], from[set] = p, folder
		}
	}
	return whole, orderPoints(&whole, points)
}

// mostMerged limits the combinations of a merged sweep.
const mostMerged = 1_000_000

// orderPoints adds the points in the order of their settings.
func orderPoints(whole *rankings.Sweep, points map[string]rankings.SweepPoint) error {
	whole.Count = 1
	for _, v := range whole.Vary {
		if whole.Count *= len(v.Values); whole.Count > mostMerged {
			return fmt.Errorf("the values of all parts make more than %d combinations; merge fewer sweeps", mostMerged)
		}
	}
	missing := &rankings.MissingPoints{Of: whole.Count}
	for i := range whole.Count {
		set := combinationAt(whole.Vary, i)
		p, ok := points[strings.Join(set, "\n")]
		if !ok {
			if missing.Count++; missing.Count <= rankings.MostMissing {
				missing.Sets = append(missing.Sets, set)
			}
			continue
		}
		p.Index = i
		whole.Points = append(whole.Points, p)
	}
	if missing.Count > 0 {
		return missing
	}
	return nil
}

// addValues adds the values of another sweep of the same configuration, or returns how the
// sweeps differ; Merge appends the first folder's name to that error.
func addValues(whole *rankings.SweepInfo, part rankings.SweepInfo) error {
	keys := func(i rankings.SweepInfo) (list []string) {
		for _, v := range i.Vary {
			list = append(list, v.Key)
		}
		return list
	}
	switch {
	case part.Configuration != whole.Configuration || part.Name != whole.Name:
		return fmt.Errorf("has another configuration than")
	case part.Version != whole.Version:
		return fmt.Errorf("was computed by another version of psim than")
	case !slices.Equal(keys(part), keys(*whole)):
		return fmt.Errorf("varies %s, unlike", strings.Join(keys(part), ", "))
	}
	for i, v := range part.Vary {
		values := slices.Clone(whole.Vary[i].Values)
		for _, value := range v.Values {
			if !slices.Contains(values, value) {
				values = append(values, value)
			}
		}
		whole.Vary[i].Values = values
	}
	return nil
}
