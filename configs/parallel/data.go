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
}

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
	}
}

// Validate refuses a data set that is given twice.
func (d Data) Validate() error {
	if d.Samples > 0 && d.Tokens > 0 {
		return fmt.Errorf("tokens = %q: data.samples = %d is given as well; give one of them",
			d.Tokens.TOML(), d.Samples)
	}
	return nil
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
