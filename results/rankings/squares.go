package rankings

import (
	"cmp"
	"iter"
	"slices"
)

// A PlanSquare is the best known plan of a square of a search's map in which the search has simulated
// none that fits. A step time of 0 says that no plan of the square fits.
type PlanSquare struct {
	Across   string   `json:"across"` // value of the first dimension of the map
	Up       string   `json:"up"`     // value of the second
	StepTime float64  `json:"step_time_s"`
	Set      []string `json:"set,omitempty"` // settings of the plan
}

// MapDimensions chooses the dimensions of a map: the first two in which plans differ, of those that
// people look for first. It returns nil if plans do not differ in two.
func MapDimensions(shapes iter.Seq[PlanShape]) (chosen []string) {
	for _, d := range []string{
		"tensor", "stages", "micro", "zero", "context", "expert", "recompute", "schedule", "virtual_stages",
		"sequence", "expert_tensor",
	} {
		first, differ, seen := "", false, false
		for shape := range shapes {
			value := shape.Shown(d)
			if differ = seen && value != first; differ {
				break
			}
			first, seen = value, true
		}
		if !differ {
			continue
		}
		if chosen = append(chosen, d); len(chosen) == 2 {
			return chosen
		}
	}
	return nil
}

// Shown returns a plan's value in a dimension of a map. If the plan does not say how many devices
// divide an expert, it is as many as divide the rest of its layer, or one device if there are expert
// groups.
func (p PlanShape) Shown(dimension string) string {
	switch {
	case dimension != "expert_tensor" || p.ExpertTensor > 0:
		return p.Value(dimension)
	case p.Expert > 1:
		return "1"
	}
	return p.Value("tensor")
}

// keepSquares drops the squares in which a simulated plan fits, and sorts the others. Then they do
// not depend on how a search was parted.
func keepSquares(list []PlanSquare, points []PlanPoint, dimensions []string) []PlanSquare {
	if len(dimensions) < 2 {
		return nil
	}
	known := map[[2]string]bool{}
	for i := range points {
		if p := &points[i]; p.Simulated && p.Fits {
			known[[2]string{p.Plan.Shown(dimensions[0]), p.Plan.Shown(dimensions[1])}] = true
		}
	}
	list = slices.DeleteFunc(slices.Clone(list), func(s PlanSquare) bool { return known[[2]string{s.Across, s.Up}] })
	slices.SortFunc(list, func(a, b PlanSquare) int {
		return cmp.Or(cmp.Compare(a.Across, b.Across), cmp.Compare(a.Up, b.Up))
	})
	return list
}

// SettledSquares lists the squares in the form that is the same for equal searches.
func (s SavedPlans) SettledSquares() []PlanSquare { return keepSquares(s.Squares, s.Points, s.Map) }
