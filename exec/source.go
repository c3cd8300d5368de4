package exec

import (
	"errors"
	"fmt"
	"os"
	"slices"
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
}

// shuffleSeed deals out samples as the partitioner of CMU's course on machine
// learning systems does.
const shuffleSeed = 1234

// A Source makes the batches of a run's steps.
type Source struct {
	images *data.Images
	tokens *data.Tokens
	steps  [][]int // the samples of every step, those of the first replica first
}

// NewSource loads or makes up the samples of a number of steps, each of so many
// samples for every replica. Made-up data repeat one batch, so that its
// loss must fall; a real set that is too small begins again.
func NewSource(o DataOptions, n arch.Network, perReplica []int, steps int) (*Source, error) {
	kind, path, named := strings.Cut(o.Source, ":")
	s := &Source{}
	var err error
	whole := sum(perReplica)
	switch {
	case !named && (kind == "" || kind == "synthetic"):
		err = s.makeUp(n, whole)
	case kind == "cifar10" && path != "":
		err = s.loadImages(path, n, whole*steps)
	case kind == "pairs" && path != "":
		err = s.loadPairs(path, n, whole*steps)
	default:
		return nil, errors.New("unknown data source; use synthetic, cifar10:DIR or pairs:FILE")
	}
	if err != nil {
		return nil, err
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
			Samples: samples, Sequence: n.TokensPerSample, Vocabulary: n.Layers[0].Params[0].Shape[0], Seed: shuffleSeed,
		})
		s.tokens = &set
		return err
	}
	input, classes := n.Layers[0].Input, n.Layers[len(n.Layers)-1].Output
	recipe := data.ImageRecipe{Samples: samples, Channels: int(input.Elements()), Height: 1, Width: 1, Classes: classes[len(classes)-1], Seed: shuffleSeed}
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
func (s *Source) cut(o DataOptions, perReplica []int, steps int) error {
	n := 0 // samples of the set
	if s.images != nil {
		n = s.images.Len()
	} else {
		n = s.tokens.Len()
	}
	shards, err := o.shards(n, perReplica)
	if err != nil {
		return err
	}
	for step := range steps {
		var batch []int
		for r, shard := range shards {
			if len(shard) < perReplica[r] {
				return fmt.Errorf("%d samples are fewer than one step takes, which is %d on replica %d of %d", n, perReplica[r], r, len(shards))
			}
			for k := range perReplica[r] {
				batch = append(batch, shard[(step*perReplica[r]+k)%len(shard)])
			}
		}
		s.steps = append(s.steps, batch)
	}
	return nil
}

// shards deals n samples out to replicas, in proportion to what each takes in a step.
func (o DataOptions) shards(n int, perReplica []int) ([][]int, error) {
	replicas := len(perReplica)
	equal := slices.Min(perReplica) == slices.Max(perReplica)
	switch {
	case o.Strided && !equal:
		return nil, errors.New("--strided deals out equal shares, and those of batch.shards differ; leave one of them out")
	case o.Strided:
		return data.Strided(n, replicas)
	case equal:
		return data.Partition(n, data.EqualFractions(replicas), shuffleSeed)
	}
	fractions := make([]float64, replicas)
	for r, of := range perReplica {
		fractions[r] = (1 + rounding) * float64(of) / float64(sum(perReplica))
	}
	return data.Partition(n, fractions, shuffleSeed)
}

// rounding keeps fractions from losing a sample, such as 7 sevenths of 7/49.
const rounding = 1e-12

func sum(list []int) (sum int) {
	for _, n := range list {
		sum += n
	}
	return sum
}

// Batch is the data of a step. Of sentence pairs, the tokens of the target sentence
// and its end count in the loss.
func (s *Source) Batch(step int) Batch {
	if s.images != nil {
		pixels, labels := s.images.Batch(s.steps[step])
		return Batch{Numbers: channelsLast(pixels, s.images.Channels, s.images.Height*s.images.Width), Targets: labels}
	}
	inputs, targets := s.tokens.Batch(s.steps[step])
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
