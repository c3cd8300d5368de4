package published

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// leastPlans is the smallest number of rows of one training for which the order of plans is reported.
const leastPlans = 5

// A PlanOrder says how well the order of plans for one training is predicted: Spearman's
// correlation of the ranks of measured and of predicted steps, 1 for the same order.
type PlanOrder struct {
	Training string  `json:"training"`
	Rows     int     `json:"rows"`
	Used     int     `json:"used"` // rows that constants were fitted to
	Rank     float64 `json:"rank_correlation"`
	// Others are the correlations of the rows' alternatives, by name.
	Others []NamedRank `json:"otherwise,omitempty"`
}

// A NamedRank is the correlation of other predictions.
type NamedRank struct {
	Name string  `json:"name"`
	Rank float64 `json:"rank_correlation"`
}

// orders compares the order of the plans of every training that has enough of them.
func orders(rows []DataPoint) (list []PlanOrder) {
	var names []string
	by := map[string][]DataPoint{}
	for _, r := range rows {
		if r.Training == "" {
			continue
		}
		if by[r.Training] == nil {
			names = append(names, r.Training)
		}
		by[r.Training] = append(by[r.Training], r)
	}
	for _, name := range names {
		group := by[name]
		if len(group) < leastPlans {
			continue
		}
		o := PlanOrder{Training: name, Rows: len(group)}
		var measured, predicted []float64
		for _, r := range group {
			measured, predicted = append(measured, r.Published), append(predicted, r.Predicted)
			if r.Used {
				o.Used++
			}
		}
		o.Rank = spearman(measured, predicted)
		for i, a := range group[0].Alternatives {
			for k, r := range group {
				predicted[k] = r.Alternatives[i].Predicted
			}
			o.Others = append(o.Others, NamedRank{a.Name, spearman(measured, predicted)})
		}
		list = append(list, o)
	}
	return list
}

// text returns the order as a sentence.
func (o PlanOrder) text() string {
	text := fmt.Sprintf("Order of %d plans for %s", o.Rows, o.Training)
	if o.Used > 0 {
		text += fmt.Sprintf(" (%d of them used for the fit)", o.Used)
	}
	text += fmt.Sprintf(": rank correlation %.2f", o.Rank)
	for _, other := range o.Others {
		text += fmt.Sprintf(", with %s %.2f", other.Name, other.Rank)
	}
	return strings.NewReplacer(" -0", " −0", " -1", " −1").Replace(text) + "."
}

// spearman correlates the ranks of two lists; equal numbers share their ranks.
func spearman(a, b []float64) float64 {
	x, y := ranksOf(a), ranksOf(b)
	mean := float64(len(a)-1) / 2
	var xy, xx, yy float64
	for i := range x {
		xy += (x[i] - mean) * (y[i] - mean)
		xx += (x[i] - mean) * (x[i] - mean)
		yy += (y[i] - mean) * (y[i] - mean)
	}
	if xx == 0 || yy == 0 {
		return 0
	}
	return xy / math.Sqrt(xx*yy)
}

func ranksOf(list []float64) []float64 {
	sorted := slices.Sorted(slices.Values(list))
	ranks := make([]float64, len(list))
	for i, x := range list {
		first, _ := slices.BinarySearch(sorted, x)
		last := first
		for last+1 < len(sorted) && sorted[last+1] == x {
			last++
		}
		ranks[i] = float64(first+last) / 2
	}
	return ranks
}
