package arch

// Bytes returns what a pass over a microbatch moves, where an element takes so many.
func (o Op) Bytes(p Pass, samples, element int64) int64 {
	n := o.Traffic(p, samples) * element
	if n > 0 {
		n += samples * o.Mask[p]
	}
	return n
}

// Written is the number of elements of the results of a product over a microbatch.
func (o Op) Written(p Pass, samples int64) int64 {
	switch {
	case p == Forward:
		return samples * o.out()
	case p == WeightGradient:
		return o.products(p) * o.right(samples)
	case o.Weight:
		return o.products(p) * samples * o.left()
	}
	return samples*o.left() + o.right(samples)
}
