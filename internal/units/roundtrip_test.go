package units

import (
	"math"
	"testing"
	"time"

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

// What FormatDuration prints is read again, to the last digit that it prints.
func TestDurationAsPrinted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(20*time.Hour)).Draw(t, "ns"))
		read, err := ParseDuration(FormatDuration(d))
		require.NoError(t, err, FormatDuration(d))
		require.Equal(t, FormatDuration(d), FormatDuration(time.Duration(read)))
	})
	for text, want := range map[string]time.Duration{
		"1 min 26 s": 86 * time.Second, "2 h 5 min": 125 * time.Minute, "3min 0.5s": 180500 * time.Millisecond,
	} {
		read, err := ParseDuration(text)
		require.NoError(t, err)
		require.EqualValues(t, want, read)
	}
	for _, text := range []string{"1 min 2 h", "1 h 26 s", "26 s 1 min", "1 min 126 s", "1 min -2 s", "1 min 2 s 3 ms", "2562047 h 59 min"} {
		_, err := ParseDuration(text)
		require.Error(t, err, text)
	}
}
