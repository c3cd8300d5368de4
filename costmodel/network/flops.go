package network

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
