package units

import (
	"math"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func TestFormatDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 s", 1: "1 ns", 12: "12 ns", 999: "999 ns", 1000: "1.00 µs", 437e3: "437 µs",
		999499: "999 µs", 999500: "1.00 ms", 33e6: "33.0 ms", 9994999: "9.99 ms", 9996000: "10.0 ms",
		999600e3: "1.00 s", 2800e6: "2.80 s", 59949999999: "59.9 s", 59950e6: "1 min 0.0 s",
		83400e6: "1 min 23.4 s", 3599949e6: "59 min 59.9 s", 3599950e6: "1 h 0 min",
		7500e9: "2 h 5 min", 359990e9: "4.17 days", -33e6: "-33.0 ms", -12: "-12 ns",
		172769e9: "47 h 59 min", 172770e9: "2.00 days", 27571080e9: "319 days", 63115200e9 - 1e9: "730 days",
		63115200e9: "2.00 years", math.MaxInt64: "292 years", math.MinInt64: "-292 years",
	} {
		assert.Equal(t, want, FormatDuration(d))
	}
}

func TestFormatBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 7: "7 B", 512: "512 B", 999: "999 B", 1000: "1.00 kB", 1250e6: "1.25 GB", 640e9: "640 GB",
		99.9e9: "99.9 GB", 99.96e9: "100 GB", 999.6e9: "1.00 TB", -1250e6: "-1.25 GB", -5: "-5 B",
		math.MaxInt64: "9.22 EB", math.MinInt64: "-9.22 EB",
	} {
		assert.Equal(t, want, FormatBytes(n))
	}
}

func TestFormatRates(t *testing.T) {
	for f, want := range map[float64]string{
		0: "0 B/s", 12.5e9: "12.5 GB/s", 0.125: "0.125 B/s", 1: "1.00 B/s", 999.9: "1.00 kB/s", -25e9: "-25.0 GB/s",
		1e30: "1.00e+12 EB/s", 1e-9: "1.00e-09 B/s", math.Inf(1): "+Inf B/s", math.Inf(-1): "-Inf B/s",
	} {
		assert.Equal(t, want, FormatRate(f))
	}
	assert.Equal(t, "NaN B/s", FormatRate(math.NaN()))
	for f, want := range map[float64]string{
		0: "0 FLOP/s", 312e12: "312 TFLOP/s", 19.5e12: "19.5 TFLOP/s", 1.979e15: "1.98 PFLOP/s", 2.5e3: "2.50 kFLOP/s",
	} {
		assert.Equal(t, want, FormatFLOPS(f))
	}
}

func TestFormatCount(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 7: "7", 999: "999", 1000: "1,000", -100000: "-100,000", 124439808: "124,439,808",
		math.MinInt64: "-9,223,372,036,854,775,808",
	} {
		assert.Equal(t, want, FormatCount(n))
	}
}

// TestFormatShowsThreeDigits checks the shape of what is printed and that it
// is off by no more than half of its last digit.
func TestFormatShowsThreeDigits(t *testing.T) {
	shape := regexp.MustCompile(`^(\d\.\d\d|\d\d\.\d|\d\d\d) (k|M|G|T|P|E)B$`)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(1000, math.MaxInt64).Draw(t, "n")
		s := FormatBytes(n)
		if !shape.MatchString(s) {
			t.Fatalf("%d is printed as %q", n, s)
		}
		if shown, err := ParseBytes(s); err != nil || math.Abs(float64(shown)/float64(n)-1) > 0.005000001 {
			t.Fatalf("%d is printed as %q: %v", n, s, err)
		}
	})
}
