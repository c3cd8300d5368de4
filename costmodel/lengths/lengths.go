// Package lengths describes how long the samples of a data set are, and what follows for the batches that are
// made of them: how many tokens a device computes, and how far attention reaches.
//
// Batches of samples are packed or padded:
//
//	packed   aaaaabbb cccddddd dddeeeee   sequences are full; a token attends to its own sample
//	padded   aaaaa··· bbb····· cccccccc   all samples of a batch are as long as its longest
package lengths

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
)

// Most is the largest length that is modelled: 2^20 tokens.
const Most = 1 << 20

// A Distribution says which share of the samples has which number of tokens. The zero value has no samples.
type Distribution struct {
	tokens []int64   // ascending
	shares []float64 // that add up to 1
}

// Counted makes the distribution of numbers of samples by their tokens.
func Counted(samples map[int64]int64) (d Distribution) {
	var all float64
	for _, n := range samples {
		all += float64(n)
	}
	for _, tokens := range slices.Sorted(maps.Keys(samples)) {
		d.tokens, d.shares = append(d.tokens, tokens), append(d.shares, float64(samples[tokens])/all)
	}
	return d
}

// Read reads a file with the length of a sample on every line. Lines that are empty or begin with # are
// comments.
func Read(data []byte) (Distribution, error) {
	samples := map[int64]int64{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, maxLine)
	for number := 1; lines.Scan(); number++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		tokens, err := strconv.ParseInt(string(line), 10, 64)
		if err != nil || tokens < 1 || tokens > Most {
			return Distribution{}, fmt.Errorf("line %d: %.40q: must be the tokens of one sample, a whole number "+
				"from 1 to %d", number, line, Most)
		}
		samples[tokens]++
	}
	if lines.Err() != nil {
		return Distribution{}, fmt.Errorf("has a line of more than %d characters; every line must have one length",
			maxLine)
	}
	if len(samples) == 0 {
		return Distribution{}, errors.New("has no lengths; write the tokens of one sample on every line")
	}
	return Counted(samples), nil
}

// maxLine bounds a line of a file of lengths.
const maxLine = 4096

// Bounded makes a distribution with a mean and a largest length, in tokens, that assumes nothing else: every token more
// makes a length rarer by the same factor (of all distributions on 1 to most with this mean, it has the largest
// entropy).
func Bounded(mean float64, most int64) (Distribution, error) {
	switch {
	case most < 1 || most > Most:
		return Distribution{}, fmt.Errorf("max = %d: must be a number of tokens from 1 to %d", most, Most)
	case !(mean >= 1 && mean <= float64(most)):
		return Distribution{}, fmt.Errorf("mean = %g: must be from 1 to max = %d", mean, most)
	}
	// The logarithm of the factor is found by halving: the mean grows with it.
	low, high := -steepest, steepest
	for range 200 {
		if middle := (low + high) / 2; tiltedMean(middle, most) < mean {
			low = middle
		} else {
			high = middle
		}
	}
	return tilted(high, most), nil
}

// steepest bounds the logarithm of the factor from one length to the next: at it all samples have the same length.
const steepest = 60.0

// tiltedMean returns the mean of tilted(slope, most), a geometric distribution that ends: 1 / (1 − q) −
// most × q^most / (1 − q^most), with q = e^slope.
func tiltedMean(slope float64, most int64) float64 {
	n := float64(most)
	if math.Abs(slope*n) < 1e-4 { // the two terms nearly cancel, and their sum is nearly straight
		return (n+1)/2 + slope*(n*n-1)/12
	}
	return -1/math.Expm1(slope) - n/math.Expm1(-slope*n)
}

// tilted makes the distribution on 1 to most in which every length is more frequent than the one before by e^slope.
// It leaves out lengths that no sample has.
func tilted(slope float64, most int64) (d Distribution) {
	top, sum := max(0, slope*float64(most-1)), 0.0
	for i := range most {
		if share := math.Exp(slope*float64(i) - top); share > 0 {
			d.tokens, d.shares = append(d.tokens, i+1), append(d.shares, share)
			sum += share
		}
	}
	for i := range d.shares {
		d.shares[i] /= sum
	}
	return d
}

// Cut makes the distribution in which samples of more tokens end after that many.
func (d Distribution) Cut(most int64) (short Distribution) {
	for i, tokens := range d.tokens {
		tokens = min(tokens, most)
		if last := len(short.tokens) - 1; last >= 0 && short.tokens[last] == tokens {
			short.shares[last] += d.shares[i]
			continue
		}
		short.tokens, short.shares = append(short.tokens, tokens), append(short.shares, d.shares[i])
	}
	return short
}

// Mean returns the mean number of tokens of a sample.
func (d Distribution) Mean() float64 { return d.mean(func(n int64) float64 { return float64(n) }) }

// Longest returns the number of tokens of the longest sample.
func (d Distribution) Longest() int64 { return d.tokens[len(d.tokens)-1] }

// mean returns the mean of a function of the tokens of a sample.
func (d Distribution) mean(of func(int64) float64) (sum float64) {
	for i, n := range d.tokens {
		sum += d.shares[i] * of(n)
	}
	return sum
}
