package data_test

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/exec/data"
)

// golden is testdata/partitions.json, written by the Python program that it contains.
type golden struct {
	Partitions []struct {
		N         int
		Fractions []float64
		Shards    [][]int
	}
	Shuffles []struct {
		Seed  int64
		N     int
		First []int
	}
}

// The shards are those of a Python program with the same seed.
func TestPartitionIsPythons(t *testing.T) {
	text, err := os.ReadFile("testdata/partitions.json")
	require.NoError(t, err)
	var g golden
	require.NoError(t, json.Unmarshal(text, &g))
	require.Len(t, g.Partitions, 3)
	for _, p := range g.Partitions {
		shards, err := data.Partition(p.N, p.Fractions, 1234)
		require.NoError(t, err)
		require.Equal(t, p.Shards, shards)
	}
	require.Len(t, g.Shuffles, 6)
	for _, s := range g.Shuffles {
		shards, err := data.Partition(s.N, []float64{1}, s.Seed)
		require.NoError(t, err)
		require.Equal(t, s.First, shards[0][:len(s.First)], "seed %d", s.Seed)
	}
}

// Powers of two are divided without a rest.
func TestPartitionIsComplete(t *testing.T) {
	for total, ranks := range map[int]int{64: 2, 128: 4, 512: 8} {
		shards, err := data.Partition(total, data.EqualFractions(ranks), 1234)
		require.NoError(t, err)
		require.Len(t, shards, ranks)
		for _, s := range shards {
			require.Len(t, s, total/ranks)
		}
		requireAllOnce(t, total, shards)
	}
}

func TestPartitionDropsTheRemainder(t *testing.T) {
	shards, err := data.Partition(10, data.EqualFractions(3), 1234)
	require.NoError(t, err)
	require.Equal(t, []int{3, 3, 3}, lengths(shards))
	shards, err = data.Partition(49, data.EqualFractions(49), 1234)
	require.NoError(t, err)
	require.Empty(t, slices.Concat(shards...))
}

func TestPartitionLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.IntRange(0, 16), 1, 9).Draw(t, "weights")
		n, seed := rapid.IntRange(0, 300).Draw(t, "n"), rapid.Int64().Draw(t, "seed")
		total, fractions := 0, make([]float64, len(weights))
		for _, w := range weights {
			total += w
		}
		for i, w := range weights {
			fractions[i] = float64(w) / float64(max(total, 1))
		}
		shards, err := data.Partition(n, fractions, seed)
		require.NoError(t, err)
		for i, s := range shards {
			require.Len(t, s, int(fractions[i]*float64(n)))
		}
		requireDistinct(t, n, shards)
		again, err := data.Partition(n, fractions, seed)
		require.NoError(t, err)
		require.Equal(t, shards, again)
	})
}

func TestPartitionInPowersOfTwoIsComplete(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks := 1 << rapid.IntRange(0, 5).Draw(t, "log ranks")
		n := ranks * rapid.IntRange(0, 20).Draw(t, "each")
		shards, err := data.Partition(n, data.EqualFractions(ranks), rapid.Int64().Draw(t, "seed"))
		require.NoError(t, err)
		requireAllOnce(t, n, shards)
	})
}

func TestPartitionErrors(t *testing.T) {
	for want, call := range map[string]func() ([][]int, error){
		"-1 samples":              func() ([][]int, error) { return data.Partition(-1, []float64{1}, 0) },
		"no fractions":            func() ([][]int, error) { return data.Partition(4, data.EqualFractions(0), 0) },
		"fraction 2 of 2 is -0.5": func() ([][]int, error) { return data.Partition(4, []float64{1, -0.5}, 0) },
		"fraction 1 of 1 is NaN":  func() ([][]int, error) { return data.Partition(4, []float64{math.NaN()}, 0) },
		"add up to 1.5":           func() ([][]int, error) { return data.Partition(4, []float64{1, 0.5}, 0) },
		"-2 samples":              func() ([][]int, error) { return data.Strided(-2, 1) },
		"0 ranks":                 func() ([][]int, error) { return data.Strided(4, 0) },
	} {
		_, err := call()
		require.ErrorContains(t, err, want)
	}
}

func TestStridedInterleaves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, ranks := rapid.IntRange(0, 200).Draw(t, "n"), rapid.IntRange(1, 12).Draw(t, "ranks")
		shards, err := data.Strided(n, ranks)
		require.NoError(t, err)
		require.Len(t, shards, ranks)
		total := make([]int, 0, n)
		for i := range n {
			total = append(total, shards[i%ranks][i/ranks])
		}
		require.Equal(t, upTo(n), total)
		requireAllOnce(t, n, shards)
	})
}

// upTo returns 0 … n−1.
func upTo(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// lengths returns the lengths of the shards.
func lengths(shards [][]int) []int {
	var sizes []int
	for _, s := range shards {
		sizes = append(sizes, len(s))
	}
	return sizes
}

// requireDistinct checks that no index of 0 … n−1 occurs twice.
func requireDistinct(t require.TestingT, n int, shards [][]int) {
	seen := make([]bool, n)
	for _, i := range slices.Concat(shards...) {
		require.False(t, seen[i], "sample %d twice", i)
		seen[i] = true
	}
}

// requireAllOnce checks that every index of 0 … n−1 occurs once.
func requireAllOnce(t require.TestingT, n int, shards [][]int) {
	requireDistinct(t, n, shards)
	require.Len(t, slices.Concat(shards...), n)
}
