package advise

import "slices"

// supports reports whether the stack supports a change, ignoring unsupported settings that
// the configuration already has. Selective recomputation that repeats nothing is the same
// as none and counts as unsupported.
func (b baseline) supports(sets change) bool {
	c, err := b.Config.With(sets...)
	if err != nil {
		return true // the variant is refused where it is tried
	}
	if c.NothingSelective() && !b.Config.NothingSelective() {
		return false
	}
	own := b.Config.Unoffered()
	return !slices.ContainsFunc(c.Unoffered(), func(set string) bool { return !slices.Contains(own, set) })
}

// supportedKinds lists the ways to save memory that the stack supports.
func (b baseline) supportedKinds() [][]change {
	kinds := b.kinds()
	for k := range kinds {
		kinds[k] = slices.DeleteFunc(kinds[k], func(sets change) bool { return sets != nil && !b.supports(sets) })
	}
	return kinds
}

// stackClause limits a statement about changes to those that the stack supports.
func (b baseline) stackClause() string {
	if b.Config.Offers() == nil {
		return ""
	}
	return " and that stack " + b.Config.Train.Stack + " has"
}

// trainerFlag names the stack as a flag of psim search.
func (b baseline) trainerFlag() string {
	if b.Config.Offers() == nil {
		return ""
	}
	return " --trainer " + b.Config.Train.Stack
}
