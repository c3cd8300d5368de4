package advise

import "slices"

// offered reports whether a change asks the stack for nothing that it does not have, beyond
// what the configuration does itself, as search --trainer has it. Selective recomputation
// with nothing to repeat is none by another name.
func (p advised) offered(sets change) bool {
	c, err := p.Config.With(sets...)
	if err != nil {
		return true // and is left out where it is tried
	}
	if c.NothingSelective() && !p.Config.NothingSelective() {
		return false
	}
	own := p.Config.Unoffered()
	return !slices.ContainsFunc(c.Unoffered(), func(set string) bool { return !slices.Contains(own, set) })
}

// offeredKinds lists the ways to save memory that the stack has.
func (p advised) offeredKinds() [][]change {
	kinds := p.kinds()
	for k := range kinds {
		kinds[k] = slices.DeleteFunc(kinds[k], func(sets change) bool { return sets != nil && !p.offered(sets) })
	}
	return kinds
}

// ofStack limits what is said of changes to those that the stack has.
func (p advised) ofStack() string {
	if p.Config.Offers() == nil {
		return ""
	}
	return " and that stack " + p.Config.Train.Stack + " has"
}

// trainer names the stack for psim search, as a flag.
func (p advised) trainer() string {
	if p.Config.Offers() == nil {
		return ""
	}
	return " --trainer " + p.Config.Train.Stack
}
