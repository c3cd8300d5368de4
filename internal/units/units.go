// Package units parses and prints the quantities of psim's configuration
// files and reports: durations, sizes, data rates and compute rates.
//
// A quantity in a file is a plain decimal number, at most one space and a
// unit: "1.58s", "80 GiB", "100Gb/s", "312TFLOP/s". Arithmetic on it is exact;
// only the end result is rounded, half up, to the type's step. Case counts: b
// is a bit and B a byte. ParseX and String are inverses, and every error reads
// well after a prefix such as "configs/x.toml:4:11: times.forward: ".
//
// The FormatX functions print for people, with three significant digits. Sums and multiples of times
// never overflow: longer times count as [Longest].
package units

import (
	"math"
	"math/big"
	"regexp"
	"strconv"
	"time"
)

// Duration is a length of time in whole nanoseconds, zero or more.
type Duration time.Duration

// Bytes is a size in bytes, zero or more.
type Bytes int64

// Rate is a data rate in bytes per second, finite and zero or more.
type Rate float64

// FLOPS is a compute rate in floating-point operations per second, finite and
// zero or more.
type FLOPS float64

// ParseDuration reads a duration such as "20ms", "1.58s", "5us" or "2min", or one of two units as psim prints
// it ("1 min 23.4 s"), and rounds it, half up, to whole nanoseconds. It never rounds down to zero.
func ParseDuration(s string) (Duration, error) {
	parts := twoUnits.FindStringSubmatch(s)
	if parts == nil {
		n, err := durations.parseInt(s)
		return Duration(n), err
	}
	first, err := durations.parseInt(parts[1] + parts[3])
	if err != nil {
		return 0, err
	}
	second, err := durations.parseInt(parts[2] + parts[4])
	if err == nil && first > math.MaxInt64-second {
		err = durations.tooLarge(s)
	}
	return Duration(first + second), err
}

// twoUnits matches hours and minutes, or minutes and seconds.
var twoUnits = regexp.MustCompile(`^(\d+ ?h) (\d{1,2} ?min)$|^(\d+ ?min) (\d{1,2}(?:\.\d+)? ?s)$`)

// ParseBytes reads a size such as "80GB" (10⁹) or "80GiB" (2³⁰) and rounds it,
// half up, to whole bytes. It never rounds down to zero. Bits are refused.
func ParseBytes(s string) (Bytes, error) {
	n, err := sizes.parseInt(s)
	return Bytes(n), err
}

// ParseRate reads a data rate such as "25GB/s", "25GiB/s", "100Gb/s" or
// "100Gbps" and returns it in bytes per second.
func ParseRate(s string) (Rate, error) {
	f, err := dataRates.parseFloat(s)
	return Rate(f), err
}

// ParseFLOPS reads a compute rate such as "312TFLOP/s" or "67TFLOPS" and
// returns it in operations per second.
func ParseFLOPS(s string) (FLOPS, error) {
	f, err := computeRates.parseFloat(s)
	return FLOPS(f), err
}

// String returns the shortest exact spelling, in ns, us, ms, s, min or h.
func (d Duration) String() string { return durations.print(new(big.Rat).SetInt64(int64(d))) }

// String returns the shortest exact spelling, in B, kB…EB or KiB…EiB.
func (b Bytes) String() string { return sizes.print(new(big.Rat).SetInt64(int64(b))) }

// String returns the shortest exact spelling, in B/s, kB/s…EB/s or KiB/s…EiB/s.
func (r Rate) String() string { return dataRates.printFloat(float64(r)) }

// String returns the shortest exact spelling, in FLOP/s, kFLOP/s…EFLOP/s.
func (f FLOPS) String() string { return computeRates.printFloat(float64(f)) }

// MarshalText returns String, or an error if ParseDuration would refuse that.
func (d Duration) MarshalText() ([]byte, error) { return marshal(d.String(), ParseDuration) }

// MarshalText returns String, or an error if ParseBytes would refuse that.
func (b Bytes) MarshalText() ([]byte, error) { return marshal(b.String(), ParseBytes) }

// MarshalText returns String, or an error if ParseRate would refuse that.
func (r Rate) MarshalText() ([]byte, error) { return marshal(r.String(), ParseRate) }

// MarshalText returns String, or an error if ParseFLOPS would refuse that.
func (f FLOPS) MarshalText() ([]byte, error) { return marshal(f.String(), ParseFLOPS) }

// UnmarshalText reads as ParseDuration does; on an error it leaves d as it was.
func (d *Duration) UnmarshalText(text []byte) error { return unmarshal(d, text, ParseDuration) }

// UnmarshalText reads as ParseBytes does; on an error it leaves b as it was.
func (b *Bytes) UnmarshalText(text []byte) error { return unmarshal(b, text, ParseBytes) }

// UnmarshalText reads as ParseRate does; on an error it leaves r as it was.
func (r *Rate) UnmarshalText(text []byte) error { return unmarshal(r, text, ParseRate) }

// UnmarshalText reads as ParseFLOPS does; on an error it leaves f as it was.
func (f *FLOPS) UnmarshalText(text []byte) error { return unmarshal(f, text, ParseFLOPS) }

func marshal[T any](s string, parse func(string) (T, error)) ([]byte, error) {
	if _, err := parse(s); err != nil {
		return nil, err
	}
	return []byte(s), nil
}

func unmarshal[T any](to *T, text []byte, parse func(string) (T, error)) error {
	v, err := parse(string(text))
	if err == nil {
		*to = v
	}
	return err
}

// print returns the shortest exact spelling of r, given in the kind's step, among the printed units
// that are at most r. Of equally short spellings it returns the one with the largest unit. So 1500
// bytes are 1.5kB and 1501 bytes are 1501B.
func (k *kind) print(r *big.Rat) string {
	if r.Sign() == 0 {
		return k.zero
	}
	best := ""
	for i := len(k.units) - 1; i >= 0; i-- {
		u := k.units[i]
		q := new(big.Rat).Quo(r, u.scale)
		digits, exact := q.FloatPrec()
		if u.use != printed || !exact || i > 0 && new(big.Rat).Abs(q).Cmp(one) < 0 {
			continue
		}
		if s := q.FloatString(digits) + u.name; best == "" || len(s) < len(best) {
			best = s
		}
	}
	return best
}

var one = big.NewRat(1, 1)

// printFloat prints the shortest decimal that is nearest to f and no other
// float64, so that parsing it gives f again.
func (k *kind) printFloat(f float64) string {
	s := strconv.FormatFloat(f, 'g', -1, 64)
	r, ok := new(big.Rat).SetString(s)
	if !ok { // NaN or infinite
		return s + k.units[0].name
	}
	return k.print(r)
}

// Longest is the longest time of a task, a little over three years.
const Longest time.Duration = 1e17

// Seconds rounds to whole nanoseconds.
func Seconds(s float64) time.Duration { return Nanoseconds(s * 1e9) }

// Nanoseconds rounds to whole nanoseconds.
func Nanoseconds(ns float64) time.Duration {
	if ns = math.Round(ns); ns < float64(Longest) {
		return time.Duration(ns)
	}
	return Longest
}

// Sum adds times.
func Sum(times ...time.Duration) time.Duration {
	var sum time.Duration
	for _, t := range times {
		sum = min(sum+min(t, Longest), Longest)
	}
	return sum
}

// Repeat returns the time of a number of equal steps.
func Repeat(steps int, step time.Duration) time.Duration {
	if steps > 0 && step > Longest/time.Duration(steps) {
		return Longest
	}
	return time.Duration(steps) * step
}

// CommonDivisor returns the greatest common divisor of two quantities. Every number divides 0.
func CommonDivisor[T ~int64](a, b T) T {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
