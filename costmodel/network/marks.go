package network

// Entering marks the first operation that reads the input of a part of a layer that a
// tensor-parallel group divides.
func (o Op) Entering() Op {
	o.Enters = true
	return o
}

// Leaving marks a product that is cut along Inner, so that its results have to be summed over
// the tensor-parallel group.
func (o Op) Leaving() Op {
	o.RowParallel, o.Leaves = true, true
	return o
}

// Undivided marks a product that every device of a tensor-parallel group computes whole, or
// with sequence parallelism for its own part of the sequence.
func (o Op) Undivided() Op {
	o.Sharded = false
	return o
}

// In16Bits marks a product whose operands have 16 bits whatever the precision.
func (o Op) In16Bits() Op {
	o.Wide = true
	return o
}

// Divided marks an operation that a tensor-parallel group divides.
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

// BuffersWithin marks the results of operations of modules, which are not kept when the modules
// are repeated.
func BuffersWithin(m Module, buffers []Buffer) []Buffer {
	for i := range buffers {
		buffers[i].Modules |= m
	}
	return buffers
}
