package units

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseDuration(t *testing.T) {
	for s, want := range map[string]time.Duration{
		"20ms": 20 * time.Millisecond, "20 ms": 20 * time.Millisecond, "0ms": 0, "0.0h": 0,
		"1.58s": 1580000000, "5us": 5000, "5µs": 5000, "5μs": 5000, "100ns": 100,
		"2min": 2 * time.Minute, "1h": time.Hour, "1.5h": 90 * time.Minute, "010ms": 10 * time.Millisecond,
		"0.5ns": 1, "1.4ns": 1, "1.5ns": 2, "2.5ns": 3, "0.1us": 100,
		"9223372036854775807ns": math.MaxInt64, "9223372036.8547758074s": math.MaxInt64,
	} {
		got, err := ParseDuration(s)
		require.NoError(t, err, s)
		assert.Equal(t, Duration(want), got, s)
	}
}

func TestParseBytes(t *testing.T) {
	for s, want := range map[string]Bytes{
		"0B": 0, "512B": 512, "512 B": 512, "12.5kB": 12500, "12.5KB": 12500, "25MB": 25e6, "80GB": 80e9,
		"1TB": 1e12, "1PB": 1e15, "1EB": 1e18, "1KiB": 1 << 10, "1MiB": 1 << 20, "80GiB": 80 << 30,
		"1TiB": 1 << 40, "1PiB": 1 << 50, "1EiB": 1 << 60, "0.1GiB": 107374182, "0.5B": 1,
	} {
		got, err := ParseBytes(s)
		require.NoError(t, err, s)
		assert.Equal(t, want, got, s)
	}
}

func TestParseRate(t *testing.T) {
	for s, want := range map[string]Rate{
		"0B/s": 0, "100Gb/s": 12.5e9, "100 Gbit/s": 12.5e9, "100Gbps": 12.5e9, "25GB/s": 25e9, "25GBps": 25e9,
		"25GiB/s": 25 << 30, "400Gbit/s": 50e9, "1b/s": 0.125, "8kb/s": 1000, "8Kb/s": 1000, "0.1B/s": 0.1,
		"8Mb/s": 1e6, "8MB/s": 8e6,
	} {
		got, err := ParseRate(s)
		require.NoError(t, err, s)
		assert.Equal(t, want, got, s)
	}
}

func TestParseFLOPS(t *testing.T) {
	for s, want := range map[string]FLOPS{
		"0FLOPS": 0, "312TFLOP/s": 312e12, "19.5 TFLOP/s": 19.5e12, "67TFLOPS": 67e12, "1FLOP/s": 1,
		"3kFLOP/s": 3e3, "3MFLOP/s": 3e6, "3GFLOP/s": 3e9, "1.979PFLOP/s": 1.979e15, "1EFLOP/s": 1e18,
	} {
		got, err := ParseFLOPS(s)
		require.NoError(t, err, s)
		assert.Equal(t, want, got, s)
	}
}

func TestUnmarshalTextLeavesTheValueOnAnError(t *testing.T) {
	d, b, r, f := Duration(1), Bytes(1), Rate(1), FLOPS(1)
	assert.Error(t, d.UnmarshalText([]byte("20")))
	assert.Error(t, b.UnmarshalText([]byte("20")))
	assert.Error(t, r.UnmarshalText([]byte("20")))
	assert.Error(t, f.UnmarshalText([]byte("20")))
	assert.Equal(t, []any{Duration(1), Bytes(1), Rate(1), FLOPS(1)}, []any{d, b, r, f})

	require.NoError(t, d.UnmarshalText([]byte("20ns")))
	require.NoError(t, b.UnmarshalText([]byte("20B")))
	require.NoError(t, r.UnmarshalText([]byte("20B/s")))
	require.NoError(t, f.UnmarshalText([]byte("20FLOP/s")))
	assert.Equal(t, []any{Duration(20), Bytes(20), Rate(20), FLOPS(20)}, []any{d, b, r, f})
}

func TestMarshalTextRefusesWhatParseWould(t *testing.T) {
	_, err := Duration(-5).MarshalText()
	assert.EqualError(t, err, `"-5ns" is negative; a duration is zero or more`)
	_, err = Bytes(-1500).MarshalText()
	assert.EqualError(t, err, `"-1.5kB" is negative; a size is zero or more`)
	_, err = Rate(math.NaN()).MarshalText()
	assert.EqualError(t, err, `"NaNB/s" is not a plain number with a unit; write for example "25GB/s"`)
	_, err = FLOPS(math.Inf(1)).MarshalText()
	assert.EqualError(t, err, `"+InfFLOP/s" is not a plain number with a unit; write for example "312TFLOP/s"`)
}

func TestEveryLegalUnitIsRead(t *testing.T) {
	for _, k := range kinds {
		seen := map[string]bool{}
		for _, u := range k.units {
			assert.False(t, seen[u.name], "%s twice", u.name)
			seen[u.name] = true
			r, err := k.parse("1 " + u.name)
			require.NoError(t, err)
			assert.Zero(t, r.Cmp(u.scale), u.name)
		}
		_, err := k.parse(k.example)
		assert.NoError(t, err)
		assert.True(t, strings.HasSuffix(k.example, k.unit))
	}
}
