package data

// Tokens is a set of token sequences of one length. Input and target overlap in all but one
// token, so each sample is kept once.
type Tokens struct {
	Sequence   int     // positions of a sample
	Vocabulary int     // every token is below it
	IDs        []int32 // Sequence+1 for each sample
	// Counts says which targets count in the loss, Sequence for each sample; nil if all do.
	Counts []bool
}

// Ignored stands for a target that does not count in the loss.
const Ignored = -1

// Len returns the number of samples.
func (s Tokens) Len() int { return len(s.IDs) / (s.Sequence + 1) }

// Batch copies the samples with these indices, which must be below Len: inputs and, one token
// further on, targets, each samples × sequence. Targets that do not count are Ignored.
func (s Tokens) Batch(indices []int) (inputs, targets []int32) {
	total := len(indices) * s.Sequence
	inputs, targets = make([]int32, 0, total), make([]int32, 0, total)
	for _, i := range indices {
		sample := s.IDs[i*(s.Sequence+1) : (i+1)*(s.Sequence+1)]
		inputs = append(inputs, sample[:s.Sequence]...)
		for k, id := range sample[1:] {
			if s.Counts != nil && !s.Counts[i*s.Sequence+k] {
				id = Ignored
			}
			targets = append(targets, id)
		}
	}
	return inputs, targets
}

// The byte-level vocabulary: a token below 256 is the byte itself.
const (
	EndOfSource    = 256 + iota // after the last byte of the source sentence
	EndOfTarget                 // after the last byte of the target sentence
	Padding                     // after EndOfTarget, to the length of the sequence
	ByteVocabulary              // number of tokens
)

// EncodePairs makes one sample of each sentence pair: the bytes of the source, EndOfSource, the
// bytes of the target and EndOfTarget, cut or padded to sequence+1 tokens. The target sentence
// and its end count in the loss.
func EncodePairs(pairs []Pair, sequence int) (Tokens, error) {
	size := []quantity{{"number of pairs", len(pairs)}, {"sequence", sequence}}
	if err := atLeastOne("encode sentence pairs", size...); err != nil {
		return Tokens{}, err
	}
	s := Tokens{Sequence: sequence, Vocabulary: ByteVocabulary}
	s.IDs, s.Counts = make([]int32, 0, len(pairs)*(sequence+1)), make([]bool, 0, len(pairs)*sequence)
	for _, p := range pairs {
		s.IDs = append(s.IDs, encode(p, sequence+1)...)
		first, end := len(p.Source)+1, len(p.Source)+1+len(p.Target)+1
		for token := 1; token <= sequence; token++ {
			s.Counts = append(s.Counts, first <= token && token < end)
		}
	}
	return s, nil
}

// encode returns the tokens of a pair, exactly length of them.
func encode(p Pair, length int) []int32 {
	var ids []int32
	for _, b := range []byte(p.Source) {
		ids = append(ids, int32(b))
	}
	ids = append(ids, EndOfSource)
	for _, b := range []byte(p.Target) {
		ids = append(ids, int32(b))
	}
	ids = append(ids, EndOfTarget)
	for len(ids) < length {
		ids = append(ids, Padding)
	}
	return ids[:length]
}
