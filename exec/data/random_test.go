package data

import (
	"encoding/json"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMersenneIsPythons compares with numbers from CPython.
func TestMersenneIsPythons(t *testing.T) {
	var golden struct {
		First  []uint64 `json:"getrandbits32_seed1234"`
		Widths []struct {
			K     int
			Value string
		} `json:"getrandbits"`
		Late uint32 `json:"word2000_seed99"`
	}
	text, err := os.ReadFile("testdata/partitions.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &golden))

	m := newMersenne(1234)
	for _, want := range golden.First {
		require.Equal(t, want, m.getrandbits(32))
	}
	require.Equal(t, []uint64{4150886329, 3342196574, 1892932127, 501869158}, golden.First)

	m = newMersenne(7)
	for _, w := range golden.Widths {
		require.Equal(t, w.Value, strconv.FormatUint(m.getrandbits(w.K), 10), "%d bits", w.K)
	}

	m = newMersenne(99)
	for range 1999 {
		m.uint32()
	}
	require.Equal(t, golden.Late, m.uint32())
}

// TestSplitmix compares with numbers from the author's C code for the seed 1234567.
func TestSplitmix(t *testing.T) {
	s := &splitmix{state: 1234567}
	for _, want := range []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431,
		16408922859458223821} {
		require.Equal(t, want, s.next())
	}
	seen := make([]int, 7)
	for _, i := range s.permutation(7) {
		seen[i]++
	}
	require.Equal(t, []int{1, 1, 1, 1, 1, 1, 1}, seen)
}
