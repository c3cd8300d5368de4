package data

import "math/bits"

// An ImageRecipe says what pictures to synthesise.
type ImageRecipe struct {
	Samples                 int
	Channels, Height, Width int
	Classes                 int
	Seed                    uint64
}

// How a class is drawn.
const (
	grid  = 4  // a class has grid × grid fields in a channel
	noise = 48 // the most by which a pixel differs from its field
)

// MakeImages synthesises pictures that can be classified: every class has a pattern of grid ×
// grid grey fields in each channel, and a picture is the pattern of its label with noise. More
// samples of the same recipe begin with the same samples.
func MakeImages(r ImageRecipe) (Images, error) {
	shape := []quantity{{"channels", r.Channels}, {"height", r.Height}, {"width", r.Width}}
	if err := atLeastOne("synthetic images", append(shape, quantity{"samples", r.Samples})...); err != nil {
		return Images{}, err
	}
	patterns := []quantity{{"channels", r.Channels * grid * grid}, {"classes", r.Classes}}
	if err := atLeastOne("synthetic images", patterns...); err != nil {
		return Images{}, err
	}
	random := &splitmix{state: r.Seed}
	fields := make([]byte, r.Classes*r.Channels*grid*grid)
	for i := range fields {
		fields[i] = byte(64 + random.below(128))
	}
	s := Images{
		Channels: r.Channels, Height: r.Height, Width: r.Width, Classes: r.Classes,
		Pixels: make([]byte, 0, r.Samples*r.Channels*r.Height*r.Width),
	}
	for range r.Channels {
		s.Mean, s.Std = append(s.Mean, 0.5), append(s.Std, 0.2)
	}
	for range r.Samples {
		label := random.below(r.Classes)
		s.Labels = append(s.Labels, int32(label))
		s.draw(fields[label*r.Channels*grid*grid:], random)
	}
	return s, nil
}

func (s *Images) draw(fields []byte, random *splitmix) {
	for c := range s.Channels {
		for y := range s.Height {
			for x := range s.Width {
				field := (c*grid+y*grid/s.Height)*grid + x*grid/s.Width
				s.Pixels = append(s.Pixels, byte(int(fields[field])+random.below(2*noise+1)-noise))
			}
		}
	}
}

// A TokenRecipe says what token sequences to synthesise.
type TokenRecipe struct {
	Samples    int
	Sequence   int
	Vocabulary int
	Seed       uint64
}

// syntheticTokens counts the different tokens in a synthetic set. There are few, so that a
// model with a large vocabulary has something to learn at once.
const syntheticTokens = 64

// MakeTokens synthesises sequences with something to learn. They use at most 64 tokens, spread
// over the vocabulary. After each token, one other follows in seven of eight cases, and any of
// them in the eighth. A model that knows this has a loss of 0.88 (for 64 tokens); one that
// knows nothing has the logarithm of the vocabulary. More samples of the same recipe begin with
// the same samples.
func MakeTokens(r TokenRecipe) (Tokens, error) {
	size := []quantity{{"sequence", r.Sequence}, {"samples", r.Samples}}
	if err := atLeastOne("synthetic tokens", size...); err != nil {
		return Tokens{}, err
	}
	if err := atLeastOne("synthetic tokens", quantity{"vocabulary", r.Vocabulary}); err != nil {
		return Tokens{}, err
	}
	random := &splitmix{state: r.Seed}
	used := min(syntheticTokens, r.Vocabulary)
	next := random.permutation(used)
	s := Tokens{Sequence: r.Sequence, Vocabulary: r.Vocabulary}
	s.IDs = make([]int32, 0, r.Samples*(r.Sequence+1))
	for range r.Samples {
		word := random.below(used)
		for range r.Sequence + 1 {
			s.IDs = append(s.IDs, int32(word*r.Vocabulary/used))
			if random.below(8) == 0 {
				word = random.below(used)
			} else {
				word = next[word]
			}
		}
	}
	return s, nil
}

// splitmix generates numbers as SplitMix64 does (Steele, Lea and Flood, OOPSLA 2014). It uses
// only integers, so it gives the same numbers everywhere.
type splitmix struct{ state uint64 }

func (s *splitmix) next() uint64 {
	s.state += 0x9e3779b97f4a7c15
	z := s.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below returns a number of 0 … n−1. Its bias is n/2⁶⁴.
func (s *splitmix) below(n int) int {
	high, _ := bits.Mul64(s.next(), uint64(n))
	return int(high)
}

func (s *splitmix) permutation(n int) []int {
	p := make([]int, n)
	for i := range p {
		j := s.below(i + 1)
		p[i], p[j] = p[j], i
	}
	return p
}
