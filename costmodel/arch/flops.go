package arch

// ModelFLOPs is the FLOPs of a forward per sample by definition: experts compute the rows
// of their tokens, whatever they have room for.
func (n Network) ModelFLOPs() int64 {
	rows := int64(n.TokensPerSample) * int64(n.Routing.PerToken)
	return sum(n.Layers, func(l Layer) int64 {
		return sum(l.Ops, func(o Op) int64 {
			if o.Routed == ByExpert {
				o.Rows = min(o.Rows, rows)
			}
			return o.FLOPs(Forward)
		})
	})
}

// Surplus is the FLOPs of a pass of operations that the busiest device of an expert group
// has beyond the mean, per sample.
func (n Network) Surplus(ops []Op, p Pass) float64 {
	load := n.Group.load(n.Routing)
	if load == 1 || !n.Group.Dispatches() {
		return 0
	}
	return (1 - 1/load) * float64(sum(ops, func(o Op) int64 {
		if o.Routed != ByExpert {
			return 0
		}
		return o.FLOPs(p)
	}))
}
