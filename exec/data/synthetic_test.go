package data_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/exec/data"
)

var cifarLike = data.ImageRecipe{Samples: 400, Channels: 3, Height: 32, Width: 32, Classes: 10, Seed: 1}

func TestMakeImagesIsDeterministic(t *testing.T) {
	a, err := data.MakeImages(cifarLike)
	require.NoError(t, err)
	more := cifarLike
	more.Samples = 500
	b, err := data.MakeImages(more)
	require.NoError(t, err)
	require.Equal(t, a.Labels, b.Labels[:400])
	require.Equal(t, a.Pixels, b.Pixels[:len(a.Pixels)])
	require.Equal(t, []int32{4, 7, 2, 7, 1, 9, 9, 8}, a.Labels[:8])
	require.Equal(t, []byte{127, 172, 142, 144, 182, 156, 152, 144}, a.Pixels[:8])
	other := cifarLike
	other.Seed = 2
	c, err := data.MakeImages(other)
	require.NoError(t, err)
	require.NotEqual(t, a.Pixels, c.Pixels)
}

// TestMakeImagesCanBeLearned classifies the second half of a set by the mean pictures of the
// first half.
func TestMakeImagesCanBeLearned(t *testing.T) {
	for _, r := range []data.ImageRecipe{
		cifarLike,
		{Samples: 400, Channels: 64, Height: 1, Width: 1, Classes: 10, Seed: 3},
		{Samples: 400, Channels: 1, Height: 5, Width: 3, Classes: 2, Seed: 4},
	} {
		s, err := data.MakeImages(r)
		require.NoError(t, err)
		half := r.Samples / 2
		pixels, labels := s.Batch(upTo(half))
		means := classMeans(pixels, labels, r.Classes)
		right := 0
		for i := half; i < r.Samples; i++ {
			pixels, labels := s.Batch([]int{i})
			if nearestMean(means, pixels) == int(labels[0]) {
				right++
			}
		}
		require.Greater(t, right, half*9/10, "%+v", r)
	}
}

// classMeans returns the mean picture of each class.
func classMeans(pixels []float32, labels []int32, classes int) [][]float64 {
	size := len(pixels) / len(labels)
	means, count := make([][]float64, classes), make([]float64, classes)
	for c := range means {
		means[c] = make([]float64, size)
	}
	for i, label := range labels {
		count[label]++
		for j, v := range pixels[i*size : (i+1)*size] {
			means[label][j] += float64(v)
		}
	}
	for c := range means {
		for j := range means[c] {
			means[c][j] /= max(count[c], 1)
		}
	}
	return means
}

// nearestMean returns the class whose mean is nearest to a picture.
func nearestMean(means [][]float64, pixels []float32) int {
	best, least := 0, -1.0
	for c, mean := range means {
		distance := 0.0
		for j, v := range pixels {
			distance += (float64(v) - mean[j]) * (float64(v) - mean[j])
		}
		if least < 0 || distance < least {
			best, least = c, distance
		}
	}
	return best
}

func TestMakeTokens(t *testing.T) {
	r := data.TokenRecipe{Samples: 200, Sequence: 128, Vocabulary: 50257, Seed: 1}
	a, err := data.MakeTokens(r)
	require.NoError(t, err)
	r.Samples = 300
	b, err := data.MakeTokens(r)
	require.NoError(t, err)
	require.Equal(t, a.IDs, b.IDs[:len(a.IDs)])
	require.Equal(t, []int32{36122, 6282, 785, 21987, 7852, 32981}, a.IDs[:6])

	inputs, targets := a.Batch(upTo(200))
	follows := map[int32]map[int32]int{}
	for i, in := range inputs {
		if follows[in] == nil {
			follows[in] = map[int32]int{}
		}
		follows[in][targets[i]]++
	}
	require.Len(t, follows, 64)
	for token, next := range follows {
		require.Less(t, token, int32(50257))
		total, most := 0, 0
		for _, n := range next {
			total, most = total+n, max(most, n)
		}
		require.InDelta(t, 7.0/8, float64(most)/float64(total), 0.08)
	}
}

func TestMakeTokensOfSmallVocabularies(t *testing.T) {
	for _, vocabulary := range []int{1, 2, 10, 64, 65, 100} {
		s, err := data.MakeTokens(data.TokenRecipe{Samples: 50, Sequence: 30, Vocabulary: vocabulary})
		require.NoError(t, err)
		seen := map[int32]bool{}
		for _, id := range s.IDs {
			require.True(t, id >= 0 && id < int32(vocabulary))
			seen[id] = true
		}
		require.Len(t, seen, min(64, vocabulary))
	}
}

func TestRecipeErrors(t *testing.T) {
	good := data.ImageRecipe{Samples: 1, Channels: 1, Height: 1, Width: 1, Classes: 1}
	for want, change := range map[string]func(*data.ImageRecipe){
		"synthetic images: samples is 0; it must be at least 1": func(r *data.ImageRecipe) { r.Samples = 0 },
		"height is -3; it must be at least 1":                   func(r *data.ImageRecipe) { r.Height = -3 },
		"classes is 0; it must be at least 1":                   func(r *data.ImageRecipe) { r.Classes = 0 },
		"samples of 1073741824 makes the set larger than": func(r *data.ImageRecipe) {
			r.Samples, r.Width = 1<<30, 2
		},
		"classes of 100000000 makes the set larger than": func(r *data.ImageRecipe) { r.Classes = 1e8 },
	} {
		r := good
		change(&r)
		_, err := data.MakeImages(r)
		require.ErrorContains(t, err, want)
	}
	for want, r := range map[string]data.TokenRecipe{
		"synthetic tokens: sequence is 0":   {Samples: 1, Vocabulary: 1},
		"synthetic tokens: samples is 0":    {Sequence: 1, Vocabulary: 1},
		"synthetic tokens: vocabulary is 0": {Sequence: 1, Samples: 1},
	} {
		_, err := data.MakeTokens(r)
		require.ErrorContains(t, err, want)
	}
}
