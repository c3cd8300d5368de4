package measure

// Best exports best.
func (p Probe) Best(q Probe) Probe { return p.best(q) }
