package exec

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"

	"psim/costmodel/network"
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
	// Validation samples are held out: no replica trains on them. Of CIFAR-10 they are
	// the first of its test file, of others what comes behind the samples to train on.
	Validation int
}

// Fingerprint tells real data apart: a file by what it holds, a folder by the names and
// sizes of its files. What cannot be read has none; NewSource says so.
func (o DataOptions) Fingerprint() string {
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

// madeSeed makes up samples.
const madeSeed = 1234

// A Source makes the batches of a run's steps.
type Source struct {
	images *data.Images // those that are held out last
	tokens *data.Tokens
	held   int // samples that are held out
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
func NewSource(o DataOptions, n network.Network, perReplica []int64, steps int) (*Source, error) {
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
	if s.Len() < 1 {
		return nil, fmt.Errorf("all %d samples would be held out to validate on, with none left to train on; hold out fewer", s.Len()+s.held)
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
	if s.held > 0 && len(s.heldOut()) == 0 {
		return fmt.Errorf("the sources of all %d samples that are held out fill all %d tokens, and nothing of their targets is left; set a longer model.sequence_length, or hold out more", s.held, s.tokens.Sequence)
	}
	return nil
}

func (s *Source) makeUp(n network.Network, samples int) error {
	samples += s.held
	if n.Layers[0].Kind == network.KindEmbedding {
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

func (s *Source) loadImages(folder string, n network.Network, limit int) error {
	if _, err := os.Stat(folder); errors.Is(err, os.ErrNotExist) { // told before what the network lacks
		return errors.New("no such folder")
	}
	if in := n.Layers[0].Input; len(in) != 3 || in[0] != 3 || in[1] != 32 || in[2] != 32 {
		return fmt.Errorf("%s takes samples of shape %v; CIFAR-10's are 3×32×32 pictures", n.Name, in)
	}
	set, err := data.LoadCIFAR10(folder, limit)
	s.images = &set
	if err != nil || s.held == 0 {
		return err
	}
	return set.AddTest(folder, s.held)
}

func (s *Source) loadPairs(file string, n network.Network, limit int) error {
	if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) { // told before what the network lacks
		return errors.New("no such file")
	}
	if n.Layers[0].Kind != network.KindEmbedding {
		return fmt.Errorf("%s does not take text", n.Name)
	}
	if v := n.Layers[0].Params[0].Shape[0]; v < data.ByteVocabulary {
		return fmt.Errorf("%s has a vocabulary of %d; text as bytes needs %d", n.Name, v, data.ByteVocabulary)
	}
	if limit > 0 {
		limit += s.held
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
		return s.images.Len() - s.held
	}
	return s.tokens.Len() - s.held
}

// Batch is the data of a step. Of sentence pairs, the tokens of the target sentence
// and its end count in the loss.
func (s *Source) Batch(step int) Batch {
	return s.batch(s.steps[step%len(s.steps)])
}

// heldOut returns the batches that are held out, each of as many samples as a step. Of
// what fills up the last no target counts; a batch of which none does is left out.
func (s *Source) heldOut() (list []Batch) {
	whole, first := len(s.steps[0]), s.Len()
	for from := 0; from < s.held; from += whole {
		samples := make([]int, whole)
		for i := range samples {
			samples[i] = first + min(from+i, s.held-1)
		}
		b := s.batch(samples)
		ignored := b.Targets[len(b.Targets)/whole*min(whole, s.held-from):]
		for i := range ignored {
			ignored[i] = data.Ignored
		}
		if counted(b.Targets) > 0 {
			list = append(list, b)
		}
	}
	return list
}

// batch takes the data of some samples.
func (s *Source) batch(samples []int) Batch {
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
