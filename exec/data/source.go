package data

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"

	"psim/costmodel/network"
)

// Options say which data a run trains on.
type Options struct {
	// Source is "synthetic" (or empty), "cifar10:DIR" or "pairs:FILE".
	Source string
	// Strided gives replica r the samples r, r+n, … in order. Otherwise they are shuffled,
	// always with the same seed, and cut into shards.
	Strided bool
	// Samples is the number of samples to train on; 0 is the number that the steps need, or for
	// epochs all samples.
	Samples int
	// Validation is the number of samples that are held out: no replica trains on them. With
	// CIFAR-10 they are the first of its test file, otherwise those after the samples to train
	// on.
	Validation int
}

// Fingerprint identifies real data: a file by its contents, a folder by the names and sizes of
// its files. Data that cannot be read have the fingerprint of nothing; NewSource reports them.
func (o Options) Fingerprint() string {
	_, path, _ := strings.Cut(o.Source, ":")
	hash := sha256.New()
	if list, err := os.ReadDir(path); err == nil {
		for _, entry := range list {
			if info, err := entry.Info(); err == nil {
				fmt.Fprintln(hash, entry.Name(), info.Size())
			}
		}
	} else if data, err := os.ReadFile(path); err == nil {
		hash.Write(data)
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// syntheticSeed makes synthetic samples.
const syntheticSeed = 1234

// A Source makes the batches of a run's steps.
type Source struct {
	images *Images // samples that are held out come last
	tokens *Tokens
	held   int // number of samples that are held out
	// steps has the samples of every step, beginning with those of the first replica. Steps
	// behind the last begin again with the first.
	steps  [][]int
	shards [][]int // the samples of every replica
}

// NewSource loads or synthesises the samples of a number of steps, with perReplica samples in a
// step for every replica. With 0 steps they are the steps of an epoch over all samples there
// are.
//
// If o.Samples is 0, synthetic data repeat one batch, so that its loss must fall, and a real
// set that is too small begins again. Otherwise the steps are those of an epoch; the last is
// filled up from the beginning.
func NewSource(o Options, n network.Network, perReplica []int64, steps int) (*Source, error) {
	kind, path, named := strings.Cut(o.Source, ":")
	s := &Source{held: o.Validation}
	var err error
	whole := 0
	for _, n := range perReplica {
		whole += int(n)
	}
	limit := cmp.Or(o.Samples, whole*steps)
	switch {
	case !named && (kind == "" || kind == "synthetic"):
		if limit == 0 {
			return nil, errors.New(
				"made-up samples are as many as data.samples says; set it, as in --set data.samples=5000")
		}
		err = s.makeSynthetic(n, cmp.Or(o.Samples, whole))
	case kind == "cifar10" && path != "":
		err = s.loadImages(path, n, limit)
	case kind == "pairs" && path != "":
		err = s.loadPairs(path, n, limit)
	default:
		return nil, errors.New("unknown data source; use synthetic, cifar10:DIR or pairs:FILE")
	}
	if err != nil {
		return nil, err
	}
	if err := s.checkSize(o); err != nil {
		return nil, err
	}
	if o.Samples > 0 || steps == 0 {
		steps = (s.Len() + whole - 1) / whole
	}
	if err := s.dealSteps(o, perReplica, steps); err != nil {
		return nil, err
	}
	return s, s.checkTargets()
}

// checkSize refuses a set that is too small.
func (s *Source) checkSize(o Options) error {
	if s.Len() < 1 {
		return fmt.Errorf("all %d samples would be held out to validate on, with none left to train on; hold out fewer",
			s.Len()+s.held)
	}
	if o.Samples > s.Len() {
		return fmt.Errorf("there are %d samples, and data.samples is %d; set at most as many as there are",
			s.Len(), o.Samples)
	}
	return nil
}

// checkTargets refuses sentence pairs if no target of a step lies within the sequence, because
// the loss would be a mean over zero tokens.
func (s *Source) checkTargets() error {
	if s.tokens == nil || s.tokens.Counts == nil {
		return nil
	}
	for n := range s.steps {
		if Counted(s.Batch(n).Targets) == 0 {
			return fmt.Errorf("the sources of step %d fill all %d tokens, "+
				"and nothing of their targets is left to learn; set a longer model.sequence_length",
				n+1, s.tokens.Sequence)
		}
	}
	if s.held > 0 && len(s.HeldOut()) == 0 {
		return fmt.Errorf("the sources of all %d samples that are held out fill all %d tokens, "+
			"and nothing of their targets is left; set a longer model.sequence_length, or hold out more",
			s.held, s.tokens.Sequence)
	}
	return nil
}

// makeSynthetic makes samples that fit the network.
func (s *Source) makeSynthetic(n network.Network, samples int) error {
	samples += s.held
	if n.Layers[0].Kind == network.KindEmbedding {
		set, err := MakeTokens(TokenRecipe{
			Samples: samples, Sequence: n.TokensPerSample, Vocabulary: n.Vocabulary(),
			Seed: syntheticSeed,
		})
		s.tokens = &set
		return err
	}
	input, classes := n.Layers[0].Input, n.Layers[len(n.Layers)-1].Output
	recipe := ImageRecipe{
		Samples: samples, Channels: int(input.Elements()), Height: 1, Width: 1,
		Classes: classes[len(classes)-1], Seed: syntheticSeed,
	}
	if len(input) == 3 {
		recipe.Channels, recipe.Height, recipe.Width = input[0], input[1], input[2]
	}
	set, err := MakeImages(recipe)
	s.images = &set
	return err
}

// loadImages loads CIFAR-10 from a folder.
func (s *Source) loadImages(folder string, n network.Network, limit int) error {
	if _, err := os.Stat(folder); errors.Is(err, os.ErrNotExist) { // before any complaint about the network
		return errors.New("no such folder")
	}
	if in := n.Layers[0].Input; len(in) != 3 || in[0] != 3 || in[1] != 32 || in[2] != 32 {
		return fmt.Errorf("%s takes samples of shape %v; CIFAR-10's are 3×32×32 pictures", n.Name, in)
	}
	set, err := LoadCIFAR10(folder, limit)
	s.images = &set
	if err != nil || s.held == 0 {
		return err
	}
	return set.AddTest(folder, s.held)
}

// loadPairs loads sentence pairs from a file.
func (s *Source) loadPairs(file string, n network.Network, limit int) error {
	if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) { // before any complaint about the network
		return errors.New("no such file")
	}
	if n.Layers[0].Kind != network.KindEmbedding {
		return fmt.Errorf("%s does not take text", n.Name)
	}
	if v := n.Vocabulary(); v < ByteVocabulary {
		return fmt.Errorf("%s has a vocabulary of %d; text as bytes needs %d", n.Name, v, ByteVocabulary)
	}
	if limit > 0 {
		limit += s.held
	}
	pairs, err := LoadPairs(file, limit)
	if err != nil {
		return err
	}
	set, err := EncodePairs(pairs, n.TokensPerSample)
	s.tokens = &set
	return err
}

// dealSteps divides the samples among the replicas and deals them out to the steps.
func (s *Source) dealSteps(o Options, perReplica []int64, steps int) error {
	n := s.Len()
	shards, err := Deal(n, perReplica, o.Strided)
	if err != nil {
		return err
	}
	s.shards = shards
	for step := range steps {
		var batch []int
		for r, shard := range shards {
			each := int(perReplica[r])
			if len(shard) < each {
				what := fmt.Sprintf("there are %d samples", n)
				if o.Samples > 0 {
					what = fmt.Sprintf("data.samples is %d", o.Samples)
				}
				return fmt.Errorf("%s, fewer than a step takes: %d on replica %d of %d; set data.samples higher, "+
					"or batch.global lower", what, each, r, len(shards))
			}
			for k := range each {
				batch = append(batch, shard[(step*each+k)%len(shard)])
			}
		}
		s.steps = append(s.steps, batch)
	}
	return nil
}

// Len returns the number of samples to train on.
func (s *Source) Len() int {
	if s.images != nil {
		return s.images.Len() - s.held
	}
	return s.tokens.Len() - s.held
}

// Held returns the number of samples that are held out.
func (s *Source) Held() int { return s.held }

// Steps returns the number of steps of an epoch.
func (s *Source) Steps() int { return len(s.steps) }

// Shards lists the samples that every replica trains on.
func (s *Source) Shards() [][]int { return s.shards }

// Batch returns the data of a step. Of sentence pairs, the tokens of the target sentence and
// its end count in the loss.
func (s *Source) Batch(step int) StepBatch {
	return s.batch(s.steps[step%len(s.steps)])
}

// HeldOut returns the batches that are held out, each with as many samples as a step. The last
// one is filled up with samples whose targets do not count. A batch in which no target counts
// is left out.
func (s *Source) HeldOut() (list []StepBatch) {
	whole, first := len(s.steps[0]), s.Len()
	for from := 0; from < s.held; from += whole {
		samples := make([]int, whole)
		for i := range samples {
			samples[i] = first + min(from+i, s.held-1)
		}
		b := s.batch(samples)
		ignored := b.Targets[len(b.Targets)/whole*min(whole, s.held-from):]
		for i := range ignored {
			ignored[i] = Ignored
		}
		if Counted(b.Targets) > 0 {
			list = append(list, b)
		}
	}
	return list
}

// batch returns the data of some samples.
func (s *Source) batch(samples []int) StepBatch {
	if s.images != nil {
		pixels, labels := s.images.Batch(samples)
		numbers := channelsLast(pixels, s.images.Channels, s.images.Height*s.images.Width)
		return StepBatch{Numbers: numbers, Targets: labels}
	}
	inputs, targets := s.tokens.Batch(samples)
	return StepBatch{Tokens: inputs, Targets: targets}
}

// channelsLast turns pictures from channels × pixels into pixels × channels.
func channelsLast(pictures []float32, channels, pixels int) []float32 {
	if channels == 1 || pixels == 1 {
		return pictures
	}
	turned := make([]float32, len(pictures))
	for first := 0; first < len(pictures); first += channels * pixels {
		for c := range channels {
			for p := range pixels {
				turned[first+p*channels+c] = pictures[first+c*pixels+p]
			}
		}
	}
	return turned
}

// A StepBatch is the data of one step, flat, sample by sample, beginning with those of the
// first replica. A network of tokens takes Tokens, others Numbers; an image is rows × columns ×
// channels. A target below 0 does not count in the loss. The loss is the mean over the targets
// of the whole batch that count, however they are distributed.
type StepBatch struct {
	Tokens  []int32
	Numbers []float32
	Targets []int32
}

// ChannelsFirst returns the numbers of pictures of a shape (channels × rows × columns) in the order of that
// shape; other numbers as they are.
func (b StepBatch) ChannelsFirst(shape network.Dims) []float32 {
	if len(shape) != 3 {
		return b.Numbers
	}
	return channelsLast(b.Numbers, shape[1]*shape[2], shape[0])
}

// Counted returns how many targets count in the loss.
func Counted(targets []int32) (n int) {
	for _, t := range targets {
		if t >= 0 {
			n++
		}
	}
	return n
}

// Inputs returns the inputs from one index to another, without targets.
func (b StepBatch) Inputs(from, to int) StepBatch {
	if b.Tokens != nil {
		return StepBatch{Tokens: b.Tokens[from:to]}
	}
	return StepBatch{Numbers: b.Numbers[from:to]}
}
