package exec

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"psim/costmodel/arch"
	"psim/exec/data"
)

// DataOptions say what a run trains on.
type DataOptions struct {
	// Source is "synthetic" (or empty), "cifar10:DIR" or "pairs:FILE".
	Source string
	// Strided gives replica r the samples r, r+n, … in order; otherwise they
	// are shuffled, with the same seed always, and cut into shards.
	Strided bool
	// Samples to train on; 0 for as many as the steps need, or for epochs as many as
	// there are.
	Samples int
}

// madeSeed makes up samples.
const madeSeed = 1234

// A Source makes the batches of a run's steps.
type Source struct {
	images *data.Images
	tokens *data.Tokens
	// steps has the samples of every step, those of the first replica first. Steps
	// behind the last begin again with the first.
	steps  [][]int
	shards [][]int // the samples of every replica
}

// NewSource loads or makes up the samples of a number of steps, each of so many
// samples for every replica; with no steps, those of an epoch over all there are.
// Without a number of samples made-up data repeat one batch, so that its loss must
// fall, and a real set that is too small begins again. With one the steps are those of
// an epoch, the last of which is filled up from the beginning.
func NewSource(o DataOptions, n arch.Network, perReplica []int64, steps int) (*Source, error) {
	kind, path, named := strings.Cut(o.Source, ":")
	s := &Source{}
	var err error
	whole := 0
	for _, n := range perReplica {
		whole += int(n)
	}
	limit := cmp.Or(o.Samples, whole*steps)
	switch {
	case !named && (kind == "" || kind == "synthetic"):
		if limit == 0 {
			return nil, errors.New("made-up samples are as many as data.samples says; set it, as in --set data.samples=5000")
		}
		err = s.makeUp(n, cmp.Or(o.Samples, whole))
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
	if o.Samples > s.Len() {
		return nil, fmt.Errorf("there are %d samples, and data.samples is %d; set at most as many as there are", s.Len(), o.Samples)
	}
	if o.Samples > 0 || steps == 0 {
		steps = (s.Len() + whole - 1) / whole
	}
	if err := s.cut(o, perReplica, steps); err != nil {
		return nil, err
	}
	return s, s.checkTargets()
}

// checkTargets refuses sentence pairs of which none in a step has a target within the
// sequence: a mean over nothing does not exist.
func (s *Source) checkTargets() error {
	if s.tokens == nil || s.tokens.Counts == nil {
		return nil
	}
	for n := range s.steps {
		if counted(s.Batch(n).Targets) == 0 {
			return fmt.Errorf("the sources of step %d fill all %d tokens, and nothing of their targets is left to learn; set a longer model.sequence_length", n+1, s.tokens.Sequence)
		}
	}
	return nil
}

func (s *Source) makeUp(n arch.Network, samples int) error {
	if n.Layers[0].Kind == arch.KindEmbedding {
		set, err := data.MakeTokens(data.TokenRecipe{
			Samples: samples, Sequence: n.TokensPerSample, Vocabulary: n.Layers[0].Params[0].Shape[0], Seed: madeSeed,
		})
		s.tokens = &set
		return err
	}
	input, classes := n.Layers[0].Input, n.Layers[len(n.Layers)-1].Output
	recipe := data.ImageRecipe{Samples: samples, Channels: int(input.Elements()), Height: 1, Width: 1, Classes: classes[len(classes)-1], Seed: madeSeed}
	if len(input) == 3 {
		recipe.Channels, recipe.Height, recipe.Width = input[0], input[1], input[2]
	}
	set, err := data.MakeImages(recipe)
	s.images = &set
	return err
}

func (s *Source) loadImages(folder string, n arch.Network, limit int) error {
	if _, err := os.Stat(folder); errors.Is(err, os.ErrNotExist) { // told before what the network lacks
		return errors.New("no such folder")
	}
	if in := n.Layers[0].Input; len(in) != 3 || in[0] != 3 || in[1] != 32 || in[2] != 32 {
		return fmt.Errorf("%s takes samples of shape %v; CIFAR-10's are 3×32×32 pictures", n.Name, in)
	}
	set, err := data.LoadCIFAR10(folder, limit)
	s.images = &set
	return err
}

func (s *Source) loadPairs(file string, n arch.Network, limit int) error {
	if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) { // told before what the network lacks
		return errors.New("no such file")
	}
	if n.Layers[0].Kind != arch.KindEmbedding {
		return fmt.Errorf("%s does not take text", n.Name)
	}
	if v := n.Layers[0].Params[0].Shape[0]; v < data.ByteVocabulary {
		return fmt.Errorf("%s has a vocabulary of %d; text as bytes needs %d", n.Name, v, data.ByteVocabulary)
	}
	pairs, err := data.LoadPairs(file, limit)
	if err != nil {
		return err
	}
	set, err := data.EncodePairs(pairs, n.TokensPerSample)
	s.tokens = &set
	return err
}

// cut shares the samples among the replicas and deals them out to the steps.
func (s *Source) cut(o DataOptions, perReplica []int64, steps int) error {
	n := s.Len()
	shards, err := data.Deal(n, perReplica, o.Strided)
	if err != nil {
		return err
	}
	s.shards = shards
	for step := range steps {
		var batch []int
		for r, shard := range shards {
			each := int(perReplica[r])
			if len(shard) < each {
				return fmt.Errorf("%d samples are fewer than one step takes, which is %d on replica %d of %d", n, each, r, len(shards))
			}
			for k := range each {
				batch = append(batch, shard[(step*each+k)%len(shard)])
			}
		}
		s.steps = append(s.steps, batch)
	}
	return nil
}

// Len is the number of samples to train on.
func (s *Source) Len() int {
	if s.images != nil {
		return s.images.Len()
	}
	return s.tokens.Len()
}

// Batch is the data of a step. Of sentence pairs, the tokens of the target sentence
// and its end count in the loss.
func (s *Source) Batch(step int) Batch {
	samples := s.steps[step%len(s.steps)]
	if s.images != nil {
		pixels, labels := s.images.Batch(samples)
		return Batch{Numbers: channelsLast(pixels, s.images.Channels, s.images.Height*s.images.Width), Targets: labels}
	}
	inputs, targets := s.tokens.Batch(samples)
	return Batch{Tokens: inputs, Targets: targets}
}

// channelsLast turns pictures of channels × pixels into pixels × channels.
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
