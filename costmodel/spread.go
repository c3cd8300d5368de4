package costmodel

import (
	"math"

	"psim/internal/units"
)

// pace returns how many times as long as on an average node the devices of the slowest
// one compute, for which all others wait: 1 on a single node. Speeds differ like draws
// from a normal distribution, and the least of n draws is expected, by Blom's
// approximation (1958), where (n − ⅜) / (n + ¼) of the distribution lie above it.
func (m *Machine) pace(ranks int) float64 {
	n := float64(m.Nodes(ranks))
	above := (n - 0.375) / (n + 0.25)
	return 1 + m.Spread*math.Sqrt2*math.Erfinv(2*above-1)
}

// slowest returns the machine with the devices of its slowest node.
func (m Machine) slowest(ranks int) *Machine {
	m.Device = m.Device.slower(m.pace(ranks))
	return &m
}

// slower divides all rates of the roofline by a number.
func (d Device) slower(by float64) Device {
	if by == 1 {
		return d
	}
	for _, rate := range []*units.FLOPS{&d.Peak.FP32, &d.Peak.TF32, &d.Peak.FP16, &d.Peak.BF16, &d.Peak.FP8, &d.Peak.FP4} {
		*rate /= units.FLOPS(by)
	}
	d.MemoryBandwidth /= units.Rate(by)
	d.Launch = units.Duration(units.Nanoseconds(float64(d.Launch) * by))
	return d
}
