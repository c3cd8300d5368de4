package costmodel

import "psim/internal/units"

// The quantities in option structs, as those who fill them in name them.
type (
	// Bytes is an amount of memory.
	Bytes = units.Bytes
	// Duration is a time.Duration that prints as configurations write it.
	Duration = units.Duration
	// Rate is in bytes per second.
	Rate = units.Rate
	// FLOPS is in floating-point operations per second.
	FLOPS = units.FLOPS
)
