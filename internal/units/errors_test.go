package units

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// refused holds for every kind what is refused and why, in full.
var refused = map[string]map[string]string{
	"duration": {
		"":         `the value is empty; write for example "20ms"`,
		" ":        `the value is empty; write for example "20ms"`,
		"20":       `"20" has no unit; write for example "20ms"`,
		"1.5 ":     `"1.5 " has no unit; write for example "1.5ms"`,
		"0":        `"0" has no unit; write for example "0ms"`,
		"-5ms":     `"-5ms" is negative; a duration is zero or more`,
		"-5":       `"-5" is negative; a duration is zero or more, with a unit, such as "20ms"`,
		"20  ms":   `"20  ms" has a space out of place; write for example "20ms"`,
		" 20ms":    `" 20ms" has a space out of place; write for example "20ms"`,
		"20ms ":    `"20ms " has a space out of place; write for example "20ms"`,
		"20\tms":   `"20\tms" has a space out of place; write for example "20ms"`,
		"NaN":      `"NaN" is not a plain number with a unit; write for example "20ms"`,
		"Inf":      `"Inf" is not a plain number with a unit; write for example "20ms"`,
		"-Inf":     `"-Inf" is not a plain number with a unit; write for example "20ms"`,
		"Infs":     `"Infs" is not a plain number with a unit; write for example "20ms"`,
		"ms":       `"ms" is not a plain number with a unit; write for example "20ms"`,
		"+5ms":     `"+5ms" is not a plain number with a unit; write for example "20ms"`,
		".5s":      `".5s" is not a plain number with a unit; write for example "20ms"`,
		"5.s":      `"5.s" is not a plain number with a unit; write for example "20ms"`,
		"1.5.2s":   `"1.5.2s" is not a plain number with a unit; write for example "20ms"`,
		"1,000ms":  `"1,000ms" is not a plain number with a unit; write for example "20ms"`,
		"1_000ms":  `"1_000ms" is not a plain number with a unit; write for example "20ms"`,
		"1e3ms":    `"1e3ms" is not a plain number with a unit; write for example "20ms"`,
		"1h30min":  `"1h30min" is not a plain number with a unit; write for example "20ms"`,
		"0x10ms":   `"0x10ms" is not a plain number with a unit; write for example "20ms"`,
		"5m":       `unknown unit "m" in "5m"; did you mean ms or min?`,
		"5MS":      `unknown unit "MS" in "5MS"; did you mean ms?`,
		"5µ":       `unknown unit "µ" in "5µ"; did you mean µs?`,
		"5days":    `unknown unit "days" in "5days"; a duration is in ns, us, µs, ms, s, min or h`,
		"5\xff":    `unknown unit "\xff" in "5\xff"; a duration is in ns, us, µs, ms, s, min or h`,
		"20GB":     `"20GB" is a size, not a duration; write for example "20ms"`,
		"20GB/s":   `"20GB/s" is a data rate, not a duration; write for example "20ms"`,
		"2TFLOPS":  `"2TFLOPS" is a compute rate, not a duration; write for example "20ms"`,
		"0.1ns":    `"0.1ns" would be rounded to zero; the smallest duration is 1ns`,
		"0.49 ns":  `"0.49 ns" would be rounded to zero; the smallest duration is 1ns`,
		"3000000h": `"3000000h" is too large; the largest duration is about 2562047h`,

		"9223372036854775808ns":   `"9223372036854775808ns" is too large; the largest duration is about 2562047h`,
		"9223372036854775807.5ns": `"9223372036854775807.5ns" is too large; the largest duration is about 2562047h`,
	},
	"size": {
		"80":     `"80" has no unit; write for example "80GB"`,
		"-1B":    `"-1B" is negative; a size is zero or more`,
		"10Gb":   `"10Gb" is in bits, since b is bits; write "10GB" for bytes, or "1.25GB" for that many bits`,
		"10 Gb":  `"10 Gb" is in bits, since b is bits; write "10GB" for bytes, or "1.25GB" for that many bits`,
		"8Kib":   `"8Kib" is in bits, since b is bits; write "8KiB" for bytes, or "1KiB" for that many bits`,
		"1b":     `"1b" is in bits, since b is bits; write "1B" for bytes, or "0.125B" for that many bits`,
		"10Gbit": `"10Gbit" is in bits, since b is bits; write "10GB" for bytes, or "1.25GB" for that many bits`,
		"10Mb":   `"10Mb" is in bits, since b is bits; write "10MB" for bytes, or "1.25MB" for that many bits`,
		"25mb":   `unknown unit "mb" in "25mb"; did you mean MB?`,
		"25mB":   `unknown unit "mB" in "25mB"; did you mean MB?`,
		"1kib":   `unknown unit "kib" in "1kib"; did you mean KiB?`,
		"80G":    `unknown unit "G" in "80G"; did you mean GB or GiB?`,
		"80GB/s": `"80GB/s" is a data rate, not a size; write for example "80GB"`,
		"80Gb/s": `"80Gb/s" is a data rate, not a size; write for example "80GB"`,
		"80ms":   `"80ms" is a duration, not a size; write for example "80GB"`,
		"3bytes": `unknown unit "bytes" in "3bytes"; a size is in ` +
			`B, kB, MB, GB, TB, PB, EB, KiB, MiB, GiB, TiB, PiB or EiB`,
		"0.1B": `"0.1B" would be rounded to zero; the smallest size is 1B`,
		"10EB": `"10EB" is too large; the largest size is about 9.22EB`,
		"8EiB": `"8EiB" is too large; the largest size is about 9.22EB`,
	},
	"data rate": {
		"25":     `"25" has no unit; write for example "25GB/s"`,
		"-1B/s":  `"-1B/s" is negative; a data rate is zero or more`,
		"25GB":   `"25GB" is not per second; write "25GB/s"`,
		"25 Gb":  `"25 Gb" is not per second; write "25Gb/s"`,
		"8mb/s":  `unknown unit "mb/s" in "8mb/s"; did you mean MB/s or Mb/s?`,
		"8gbps":  `unknown unit "gbps" in "8gbps"; did you mean GBps or Gbps?`,
		"100G":   `unknown unit "G" in "100G"; did you mean GB/s, GiB/s or Gb/s?`,
		"5ms":    `"5ms" is a duration, not a data rate; write for example "25GB/s"`,
		"5FLOPS": `"5FLOPS" is a compute rate, not a data rate; write for example "25GB/s"`,
		"5m/s": `unknown unit "m/s" in "5m/s"; a data rate is in ` +
			`B/s, kB/s, MB/s, GB/s, TB/s, PB/s, EB/s, KiB/s, MiB/s, GiB/s, TiB/s, PiB/s, EiB/s, ` +
			`b/s, kb/s, Mb/s, Gb/s, Tb/s, Pb/s or Eb/s`,
		zeros + "1B/s": `"` + zeros + `1B/s" would be rounded to zero; the smallest data rate is 5e-324B/s`,
		nines + "B/s":  `"` + nines + `B/s" is too large; the largest data rate is about 1.8e308B/s`,
	},
	"compute rate": {
		"312":        `"312" has no unit; write for example "312TFLOP/s"`,
		"1e12FLOP/s": `"1e12FLOP/s" is not a plain number with a unit; write for example "312TFLOP/s"`,
		"-1TFLOP/s":  `"-1TFLOP/s" is negative; a compute rate is zero or more`,
		"312TFLOP":   `"312TFLOP" is not per second; write "312TFLOP/s"`,
		"312TFLOPs":  `unknown unit "TFLOPs" in "312TFLOPs"; did you mean TFLOPS?`,
		"312T":       `unknown unit "T" in "312T"; did you mean TFLOP/s?`,
		"312GB/s":    `"312GB/s" is a data rate, not a compute rate; write for example "312TFLOP/s"`,
		"312TOPS": `unknown unit "TOPS" in "312TOPS"; a compute rate is in ` +
			`FLOP/s, kFLOP/s, MFLOP/s, GFLOP/s, TFLOP/s, PFLOP/s or EFLOP/s`,
		zeros + "1FLOPS": `"` + zeros + `1FLOPS" would be rounded to zero; the smallest compute rate is 5e-324FLOP/s`,
		nines + "FLOPS":  `"` + nines + `FLOPS" is too large; the largest compute rate is about 1.8e308FLOP/s`,
	},
}

var (
	zeros = "0." + strings.Repeat("0", 330)
	nines = strings.Repeat("9", 310)
)

func TestErrors(t *testing.T) {
	parsers := map[string]func(string) error{
		"duration":     func(s string) error { _, err := ParseDuration(s); return err },
		"size":         func(s string) error { _, err := ParseBytes(s); return err },
		"data rate":    func(s string) error { _, err := ParseRate(s); return err },
		"compute rate": func(s string) error { _, err := ParseFLOPS(s); return err },
	}
	for kind, parse := range parsers {
		for s, want := range refused[kind] {
			assert.EqualError(t, parse(s), want, "%s %q", kind, s)
		}
		assert.ErrorContains(t, parse(strings.Repeat("1", 401)),
			"a "+kind+" of 401 characters is too long; write for example ")
	}
}
