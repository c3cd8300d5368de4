package lengths

import "math"

// Batches are made of samples of a Distribution. Padded is 0 for packed ones.
type Batches struct {
	Distribution
	// Sequence is the number of tokens of a packed sequence, and the most of a padded sample: longer ones are cut.
	Sequence int64
	Padded   int64 // samples of a batch that are padded to the longest of them
	Sorted   int64 // batches whose samples are sorted by length before they are divided; 0 means 1
}

// Tokens returns the number of tokens of a sample that is computed: of a packed sequence, or the mean of padded
// ones, rounded.
func (b Batches) Tokens() int64 {
	if b.Padded == 0 {
		return b.Sequence
	}
	return int64(math.Round(b.padded(func(n int64) float64 { return float64(n) })))
}

// Real returns the mean number of tokens of a sample without padding.
func (b Batches) Real() float64 {
	if b.Padded == 0 {
		return float64(b.Sequence)
	}
	return b.Cut(b.Sequence).Mean()
}

// Longest returns the number of tokens of the longest sample that is computed.
func (b Batches) Longest() int64 {
	if b.Padded == 0 {
		return b.Sequence
	}
	return b.Cut(b.Sequence).Longest()
}

// Attended sums a function of the lengths within which tokens attend to each other, over a sample that is computed:
// over the parts of samples in a packed sequence, or over the one padded sample. It returns the mean.
func (b Batches) Attended(of func(int64) float64) float64 {
	if b.Padded == 0 {
		return b.packed(of)
	}
	return b.padded(of)
}

// packed cuts the stream of all samples, one after another in any order, at every multiple of Sequence. It returns
// the mean of the sum over the pieces of a sequence. A sample of n tokens begins at each of the s places of a sequence
// equally often, and ends with it at s − n + 1 of them. At the others a sample of up to s tokens is cut into pieces of
// a and n − a tokens, with each a from 1 to n − 1 once. A longer one has a piece up to the end of the first sequence
// (1 to s tokens, each once), whole sequences, n − s over all places, and what is left (0 to s − 1, each once).
func (b Batches) packed(of func(int64) float64) float64 {
	s := b.Sequence
	upTo := make([]float64, min(s, b.Distribution.Longest())+1) // of 1 to n tokens
	for n := 1; n < len(upTo); n++ {
		upTo[n] = upTo[n-1] + of(int64(n))
	}
	sum := b.mean(func(n int64) float64 {
		if n <= s {
			return float64(s-n+1)*of(n) + 2*upTo[n-1]
		}
		return upTo[s] + upTo[s-1] + float64(n-s)*of(s)
	})
	return sum / b.Mean() // a sample's pieces are in sum / s sequences, and a sequence has s / Mean samples
}

// padded returns the mean over batches of a function of the tokens of the longest sample. Of n samples that are sorted
// and divided into batches of b, floor(k / b) batches have only samples of up to x tokens, if k of the samples have
// up to x.
func (b Batches) padded(of func(int64) float64) (sum float64) {
	d, before, upTo := b.Cut(b.Sequence), 0.0, 0.0
	batches := max(1, b.Sorted)
	for i, n := range d.tokens {
		if upTo += d.shares[i]; i == len(d.tokens)-1 {
			upTo = 1
		}
		share := meanQuotient(b.Padded*batches, b.Padded, min(1, upTo)) / float64(batches)
		sum += (share - before) * of(n)
		before = share
	}
	return sum
}

// meanQuotient returns the mean of floor(k / by), where k counts the successes of n trials.
func meanQuotient(n, by int64, probability float64) float64 {
	switch {
	case n == by:
		return math.Pow(probability, float64(n))
	case probability >= 1:
		return float64(n / by)
	case probability <= 0:
		return 0
	}
	// Probabilities of k grow and fall by known factors from the most probable one.
	odds := probability / (1 - probability)
	mode := min(n, int64(float64(n+1)*probability))
	sum, all := float64(mode/by), 1.0
	for p, k := 1.0, mode; k < n && p > negligible; {
		p *= odds * float64(n-k) / float64(k+1)
		k++
		sum, all = sum+p*float64(k/by), all+p
	}
	for p, k := 1.0, mode; k > 0 && p > negligible; {
		p *= float64(k) / (odds * float64(n-k+1))
		k--
		sum, all = sum+p*float64(k/by), all+p
	}
	return sum / all
}

// negligible is a probability, relative to the largest, below which no other counts.
const negligible = 1e-18
