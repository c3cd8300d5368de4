package units

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestString(t *testing.T) {
	for want, v := range map[string]interface{ String() string }{
		"0s": Duration(0), "12ns": Duration(12), "437us": Duration(437e3), "20ms": Duration(20e6),
		"100ms": Duration(100e6), "1.58s": Duration(158e7), "90s": Duration(90e9), "2min": Duration(120e9),
		"1.5h": Duration(5400e9), "1.580001s": Duration(1580001000), "-20ms": Duration(-20e6),
		"0B": Bytes(0), "1.5kB": Bytes(1500), "1501B": Bytes(1501), "1KiB": Bytes(1024), "80GiB": Bytes(80 << 30),
		"80GB": Bytes(80e9), "1.25GB": Bytes(1250e6), "512B": Bytes(512), "-8EiB": Bytes(math.MinInt64),
		"8EB":  Bytes(8e18),
		"0B/s": Rate(0), "12.5GB/s": Rate(12.5e9), "25GiB/s": Rate(25 << 30), "0.125B/s": Rate(0.125),
		"0FLOP/s": FLOPS(0), "312TFLOP/s": FLOPS(312e12), "1979TFLOP/s": FLOPS(1.979e15), "NaNFLOP/s": FLOPS(math.NaN()),
	} {
		assert.Equal(t, want, v.String())
	}
}

// value is what the four types have in common.
type value interface {
	comparable
	String() string
	MarshalText() ([]byte, error)
}

// roundTrips checks that v survives String and MarshalText.
func roundTrips[T value](t require.TestingT, v T, parse func(string) (T, error)) {
	got, err := parse(v.String())
	require.NoError(t, err)
	require.Equal(t, v, got)
	text, err := v.MarshalText()
	require.NoError(t, err)
	require.Equal(t, v.String(), string(text))
}

// integers draws integers of all sizes, round ones often.
func integers() *rapid.Generator[int64] {
	return rapid.Custom(func(t *rapid.T) int64 {
		n := rapid.Int64Range(0, math.MaxInt64).Draw(t, "n")
		step := rapid.SampledFrom([]int64{1, 1e3, 1e6, 1e9, 60e9, 3600e9, 1 << 10, 1 << 30}).Draw(t, "step")
		return n % (math.MaxInt64 / step) * step
	})
}

func TestStringRoundTrips(t *testing.T) {
	floats := rapid.OneOf(rapid.Float64Range(0, math.MaxFloat64), rapid.Float64Range(0, 1e16))
	rapid.Check(t, func(t *rapid.T) {
		roundTrips(t, Duration(integers().Draw(t, "duration")), ParseDuration)
		roundTrips(t, Bytes(integers().Draw(t, "bytes")), ParseBytes)
		roundTrips(t, Rate(floats.Draw(t, "rate")), ParseRate)
		roundTrips(t, FLOPS(floats.Draw(t, "flops")), ParseFLOPS)
	})
	for _, f := range []float64{math.MaxFloat64, math.SmallestNonzeroFloat64, 0x1p-1022} {
		roundTrips(t, Rate(f), ParseRate)
		roundTrips(t, FLOPS(f), ParseFLOPS)
	}
}

// fuzz checks that parse never panics and that what it accepts round-trips.
// The seeds are all inputs that the tables of errors know, and some legal ones.
func fuzz[T value](f *testing.F, parse func(string) (T, error)) {
	for _, table := range refused {
		for s := range table {
			f.Add(s)
		}
	}
	for _, s := range []string{"1.58s", "5 µs", "80GiB", "12.5kB", "100Gb/s", "400Gbit/s", "67TFLOPS"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := parse(s)
		if err == nil {
			roundTrips(t, v, parse)
			return
		}
		assert.Zero(t, v)
		assert.NotContains(t, err.Error(), "\n")
	})
}

func FuzzParseDuration(f *testing.F) { fuzz(f, ParseDuration) }
func FuzzParseBytes(f *testing.F)    { fuzz(f, ParseBytes) }
func FuzzParseRate(f *testing.F)     { fuzz(f, ParseRate) }
func FuzzParseFLOPS(f *testing.F)    { fuzz(f, ParseFLOPS) }
