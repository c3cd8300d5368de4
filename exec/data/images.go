// Package data gives a run its samples: CIFAR-10 files, parallel text, or synthetic sets of the
// same shapes. It says which replica trains on which of them ([Source]).
//
// A data set ([Images] or [Tokens]) is in memory as a whole. Shards, batches and microbatches
// are lists of sample indices: [Partition] or [Strided] deal samples out to shards, and
// [Images.Batch] turns indices into numbers. The same arguments give the same numbers on every
// machine.
package data

import "fmt"

// Images is a set of labelled pictures. They are kept as bytes and normalised when a batch is
// taken: all of CIFAR-10 takes 150 MB instead of 600.
type Images struct {
	Channels, Height, Width int
	Classes                 int       // every label is below it
	Pixels                  []byte    // sample by sample, each channel × height × width
	Labels                  []int32   // one for each sample
	Mean, Std               []float32 // of each channel, for pixel values scaled to 0…1
}

// Len returns the number of samples.
func (s Images) Len() int { return len(s.Labels) }

// Batch copies the samples with these indices, which must be below Len: their pixels, samples ×
// channels × height × width, as (value/255 − mean)/std, and their labels.
func (s Images) Batch(indices []int) (pixels []float32, labels []int32) {
	plane := s.Height * s.Width
	size := s.Channels * plane
	scale := s.scale()
	pixels, labels = make([]float32, 0, len(indices)*size), make([]int32, 0, len(indices))
	for _, i := range indices {
		sample := s.Pixels[i*size : (i+1)*size]
		for c := range s.Channels {
			for _, v := range sample[c*plane : (c+1)*plane] {
				pixels = append(pixels, scale[c][v])
			}
		}
		labels = append(labels, s.Labels[i])
	}
	return pixels, labels
}

// scale returns the normalised value of each byte in each channel, rounded to float32 after
// every operation, as torchvision does.
func (s Images) scale() [][256]float32 {
	tables := make([][256]float32, s.Channels)
	for c := range tables {
		for v := range tables[c] {
			unit := float32(v) / 255
			tables[c][v] = (unit - s.Mean[c]) / s.Std[c]
		}
	}
	return tables
}

// maxValues bounds a synthetic or encoded set. It is enough for seven times CIFAR-10, and fits
// in memory.
const maxValues = 1 << 30

// atLeastOne checks that sizes are at least 1, and that their product is at most maxValues.
func atLeastOne(what string, sizes ...quantity) error {
	product := 1
	for _, q := range sizes {
		if q.value < 1 {
			return fmt.Errorf("%s: %s is %d; it must be at least 1", what, q.name, q.value)
		}
		if q.value > maxValues/product {
			return fmt.Errorf("%s: %s of %d makes the set larger than %d values; make fewer or smaller samples",
				what, q.name, q.value, maxValues)
		}
		product *= q.value
	}
	return nil
}

// A quantity is a number with its name for errors.
type quantity struct {
	name  string
	value int
}
