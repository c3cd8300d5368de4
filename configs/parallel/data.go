package parallel

import (
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"psim/internal/setting"
)

// Data is the [data] section: the data set that an epoch passes over. 0 means not given.
type Data struct {
	Samples int64      `toml:"samples"`
	Tokens  TokenCount `toml:"tokens"`
	Lengths Lengths    `toml:"lengths"`
	Batches string     `toml:"batches"` // BatchesPacked (also for "") or BatchesPadded
	Sorted  int64      `toml:"sorted"`
}

// The values of Data.Batches: how samples of different lengths are put together.
const (
	BatchesPacked = "packed"
	BatchesPadded = "padded"
)

// Pads reports whether samples are padded to the longest of their batch.
func (d Data) Pads() bool { return d.Lengths.Given() && d.Batches == BatchesPadded }

// Settings describes [data].
func (Data) Settings() []setting.Setting {
	return []setting.Setting{
		{
			Key: "samples", Example: "5000", Range: setting.Count(),
			Text: "samples to train on: psim run gives the time of an epoch, psim exec trains on this number. If " +
				"fewer are left for the last step, psim run predicts a step of these, and psim exec fills it up " +
				"from the beginning",
			Unset: "all samples of the data; made-up samples are unlimited",
		},
		{
			Key: "tokens", Example: `"15T"`, With: []string{"[model]"},
			Text: "the same in tokens (a sample has model.sequence_length): a number, or one with K, M, B or T, " +
				"such as \"300B\"; it excludes samples",
			Unset: "data.samples",
		},
		{
			Key: "lengths", Example: `"lengths.csv"`, With: []string{"[model]"}, Executed: []string{noLengths},
			Unset: "every sample has model.sequence_length tokens",
			Text: "how many tokens samples have: a file with the length of a sample on every line, or {mean = 900, " +
				"max = 4096}, which assumes nothing else (every token more makes a length rarer by the same factor)",
		},
		{
			Key: "batches", Default: BatchesPacked, OneOf: []string{BatchesPacked, BatchesPadded},
			With: []string{"[model]"}, Needs: withLengths("since all samples have the same length"),
			Text: "packed: samples follow each other and are cut at every model.sequence_length tokens; attention " +
				"stays within a sample. padded: a sample ends at model.sequence_length, and those of a microbatch " +
				"are padded to the longest; times are means over batches, memory is that of the longest sample, and " +
				"tokens are those without padding",
		},
		{
			Key: "sorted", Default: 1, Range: setting.Between(1, mostSorted), With: []string{"[model]"},
			Needs: append(withLengths(""), setting.Need{
				Keys: []string{"data.batches"}, OneOf: []string{BatchesPadded}, Reason: "since nothing is padded",
			}),
			Text: "microbatches whose samples are sorted by length before they are divided: of transformers' " +
				"group_by_length 50 × schedule.microbatches",
		},
	}
}

// mostSorted is a bound that catches a mistyped number of batches.
const mostSorted = 100_000

// withLengths needs lengths of samples.
func withLengths(reason string) []setting.Need {
	return []setting.Need{{Keys: []string{"data.lengths"}, Set: true, Reason: reason}}
}

// Validate refuses a data set that is given twice.
func (d Data) Validate() error {
	if d.Samples > 0 && d.Tokens > 0 {
		return fmt.Errorf("tokens = %q: data.samples = %d is given as well; give one of them",
			d.Tokens.TOML(), d.Samples)
	}
	return nil
}

// noLengths is the value of Lengths without any.
const noLengths = "none"

// Lengths say how many tokens samples have: a file, or a mean and the largest number.
type Lengths struct {
	File string
	Mean float64
	Max  int64
}

// Given reports whether there are lengths.
func (l Lengths) Given() bool { return l != Lengths{} }

// String prints the lengths as a configuration has them.
func (l Lengths) String() string {
	if l.Max > 0 {
		return fmt.Sprintf("{mean = %g, max = %d}", l.Mean, l.Max)
	}
	return l.File
}

// UnmarshalTOML reads the name of a file, or a table of mean and max.
func (l *Lengths) UnmarshalTOML(value any) error {
	const form = `must be a file with the length of a sample on every line, or {mean = 900, max = 4096}`
	switch v := value.(type) {
	case string:
		if *l = (Lengths{File: v}); v == noLengths || v == "" {
			*l = Lengths{}
		}
		return nil
	case map[string]any:
		mean, isFloat := v["mean"].(float64)
		whole, isWhole := v["mean"].(int64)
		most, hasMost := v["max"].(int64)
		if isFloat == isWhole || !hasMost || len(v) != 2 {
			return errors.New(form)
		}
		given := Lengths{Mean: mean + float64(whole), Max: most}
		if most < 1 || !(given.Mean >= 1 && given.Mean <= float64(most)) {
			return fmt.Errorf("%s: mean must be at least 1, and max at least the mean", given)
		}
		*l = given
		return nil
	}
	return errors.New(form)
}

// TOML writes what UnmarshalTOML reads.
func (l Lengths) TOML() any {
	if l.Max > 0 {
		return map[string]any{"mean": l.Mean, "max": float64(l.Max)}
	}
	return l.File
}

// Size returns the number of samples of a number of tokens each; 0 if it is not given. The last sample
// may not be full.
func (d Data) Size(tokens int64) int64 {
	if d.Tokens > 0 && tokens > 0 {
		return (int64(d.Tokens)-1)/tokens + 1
	}
	return d.Samples
}

// TokenCount is a number of tokens.
type TokenCount int64

// tokensPattern matches a number of tokens: digits, a fraction and a suffix.
var tokensPattern = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?(?:[eE]\+?[0-9]{1,2})?) ?([KkMBT]?)$`)

// longestCount is the most bytes that a number of tokens may have.
const longestCount = 70

// suffixes are those of tokens, each with its power of ten.
var suffixes = []struct {
	name  string
	power int64
}{{"T", 12}, {"B", 9}, {"M", 6}, {"K", 3}, {"k", 3}, {"", 0}}

// UnmarshalTOML reads a number, or a string such as "15T".
func (t *TokenCount) UnmarshalTOML(value any) error {
	const form = `must be a whole number of tokens of at least 1, such as 300000000, "300B" or "1.5T"`
	switch value.(type) {
	case int64, float64, string: // 1e12 is a float
	default:
		return errors.New(form)
	}
	text := fmt.Sprint(value)
	m := tokensPattern.FindStringSubmatch(text)
	if m == nil || len(text) > longestCount {
		return fmt.Errorf("%.40q: %s", text, form)
	}
	n, _ := new(big.Rat).SetString(m[1])
	for _, s := range suffixes {
		if s.name == m[2] {
			n.Mul(n, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(s.power), nil)))
			break
		}
	}
	switch {
	case !n.IsInt() || n.Sign() == 0:
		return fmt.Errorf("%.40q: %s", text, form)
	case !n.Num().IsInt64():
		return fmt.Errorf("%.40q: is too many; at most 9.2e18 tokens can be counted", text)
	}
	*t = TokenCount(n.Num().Int64())
	return nil
}

// TOML writes what UnmarshalTOML reads, a whole number with the largest suffix possible.
func (t TokenCount) TOML() any {
	for _, s := range suffixes {
		power := int64(1)
		for range s.power {
			power *= 10
		}
		if int64(t)%power == 0 && t > 0 {
			return strings.TrimSpace(strconv.FormatInt(int64(t)/power, 10) + s.name)
		}
	}
	return "0"
}
