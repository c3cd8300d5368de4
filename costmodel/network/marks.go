package network

// Entering marks the first reader of the input of a tensor-parallel part.
func (o Op) Entering() Op {
	o.Enters = true
	return o
}

// Leaving marks a product that is cut along Inner, so that its result is a sum
// over the tensor-parallel group.
func (o Op) Leaving() Op {
	o.RowParallel, o.Leaves = true, true
	return o
}

// Undivided marks a product that every device of a tensor-parallel group makes, with sequence
// parallelism for its part of the sequence.
func (o Op) Undivided() Op {
	o.Sharded = false
	return o
}

// InWide marks a product that keeps operands of 16 bits, whatever the precision.
func (o Op) InWide() Op {
	o.Wide = true
	return o
}

// Divided marks what a tensor-parallel group divides.
func (o Op) Divided() Op {
	o.Sharded = true
	return o
}

// Of marks an operation as a part of modules.
func (o Op) Of(m Module) Op {
	o.Modules |= m
	return o
}

// Within marks operations as parts of modules.
func Within(m Module, ops []Op) []Op {
	for i := range ops {
		ops[i].Modules |= m
	}
	return ops
}

// MadeWithin marks what operations of modules make, which is not kept when they are repeated.
func MadeWithin(m Module, buffers []Buffer) []Buffer {
	for i := range buffers {
		buffers[i].Modules |= m
	}
	return buffers
}
