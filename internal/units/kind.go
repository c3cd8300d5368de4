package units

import (
	"math/big"
	"slices"
)

// A kind is one of the four physical quantities and the units it comes in.
type kind struct {
	name    string // after "a "
	example string // number and unit
	unit    string // unit of the example
	zero    string // how zero is printed
	step    string // smallest positive value
	limit   string // largest value
	units   []unit // the first is the step of the integer kinds; printed ones rise in size
}

// A unit is one spelling of a unit and its size in the kind's first one.
type unit struct {
	name  string
	scale *big.Rat
	use   use
}

// use says what a spelling is good for beyond being read.
type use uint8

const (
	printed use = iota // String may choose it
	listed             // errors list it
	alias              // only read
)

var durations = kind{
	name: "duration", example: "20ms", unit: "ms", zero: "0s", step: "1ns", limit: "about 2562047h",
	units: []unit{
		{"ns", big.NewRat(1, 1), printed},
		{"us", big.NewRat(1e3, 1), printed},
		{"µs", big.NewRat(1e3, 1), listed}, // U+00B5, the micro sign
		{"μs", big.NewRat(1e3, 1), alias},  // U+03BC, the Greek letter
		{"ms", big.NewRat(1e6, 1), printed},
		{"s", big.NewRat(1e9, 1), printed},
		{"min", big.NewRat(60e9, 1), printed},
		{"h", big.NewRat(3600e9, 1), printed},
	},
}

var sizes = kind{
	name: "size", example: "80GB", unit: "GB", zero: "0B", step: "1B", limit: "about 9.22EB",
	units: slices.Concat(decimal("B", one, printed), binary("B")),
}

var dataRates = kind{
	name: "data rate", example: "25GB/s", unit: "GB/s", zero: "0B/s", step: "5e-324B/s", limit: "about 1.8e308B/s",
	units: slices.Concat(
		decimal("B/s", one, printed), binary("B/s"), decimal("Bps", one, alias),
		decimal("b/s", bit, listed), decimal("bit/s", bit, alias), decimal("bps", bit, alias),
	),
}

var computeRates = kind{
	name: "compute rate", example: "312TFLOP/s", unit: "TFLOP/s", zero: "0FLOP/s",
	step: "5e-324FLOP/s", limit: "about 1.8e308FLOP/s",
	units: slices.Concat(decimal("FLOP/s", one, printed), decimal("FLOPS", one, alias)),
}

var kinds = []*kind{&durations, &sizes, &dataRates, &computeRates}

var bit = big.NewRat(1, 8)

// decimal returns base with no prefix, k, M, G, T, P and E, and K for k.
func decimal(base string, scale *big.Rat, how use) []unit {
	units := []unit{{base, scale, how}}
	for _, prefix := range "kMGTPE" {
		scale = new(big.Rat).Mul(scale, big.NewRat(1000, 1))
		units = append(units, unit{string(prefix) + base, scale, how})
		if prefix == 'k' {
			units = append(units, unit{"K" + base, scale, alias})
		}
	}
	return units
}

// binary returns base with Ki, Mi, Gi, Ti, Pi and Ei.
func binary(base string) []unit {
	var units []unit
	for i, prefix := range "KMGTPE" {
		scale := big.NewRat(1<<(10*(i+1)), 1)
		units = append(units, unit{string(prefix) + "i" + base, scale, printed})
	}
	return units
}

func (k *kind) find(name string) (unit, bool) {
	for _, u := range k.units {
		if u.name == name {
			return u, true
		}
	}
	return unit{}, false
}
