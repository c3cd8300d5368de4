package plans

import "psim/configs"

// leastShares finds the plans whose parameters do not fit even if all ranks have equal shares of them. What a rank
// holds at least does not depend on the size of microbatches, on schedules and on recomputation that keeps operands,
// so a network is divided once for all plans that divide layers alike.
type leastShares map[layersOf]*leastShare

// A leastShare has what ranks hold at least, for plans that divide layers alike.
type leastShare struct {
	uncut *configs.Cut // nil if memory is unlimited, or the network cannot be built
	fits  map[shares]bool
}

// shares are the ranks and replicas that share a network, and the ZeRO stage.
type shares struct{ stages, data, zero int }

// tooLarge reports whether the parameters of a plan do not fit.
func (l leastShares) tooLarge(p *Plan) bool {
	key := layersOf{p.space, layerKeyOf(p)}
	key.layerKey.micro = 0
	known := l[key]
	if known == nil {
		known = &leastShare{fits: map[shares]bool{}}
		if uncut, err := p.space.uncut(p); err == nil && uncut.Machine.RankMemory() > 0 {
			known.uncut = uncut
		}
		l[key] = known
	}
	if known.uncut == nil {
		return false
	}
	share := shares{p.Stages, p.Data, p.Zero}
	fits, seen := known.fits[share]
	if !seen {
		fits = known.uncut.Least(p.Stages, p.Data, p.Zero) <= known.uncut.Machine.RankMemory()
		known.fits[share] = fits
	}
	return !fits
}
