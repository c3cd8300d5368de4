package plans

import (
	"bytes"
	"context"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/configs"
	"psim/results/rankings"
)

// countedQueries are searches in which memory, bounds and orders that repeat others discard plans.
func countedQueries() map[string]Query {
	micro := rankings.Variation{Key: "batch.micro", Values: []string{"1", "2", "8"}}
	return map[string]Query{
		"18GB": {Trainer: Any, Rows: 3, Vary: []rankings.Variation{micro}},
		"2GB":  {Trainer: Any, Rows: 5, Vary: []rankings.Variation{micro}},
		"1GB":  {Trainer: Any, Rows: 7, Vary: []rankings.Variation{micro}},
	}
}

// The counts of a search are the same whatever the number of processors and whoever is first.
func TestCountsConcurrent(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for memory, q := range countedQueries() {
		q.Devices, q.Margin = 8, 0.1
		c, err := configs.Load("gpipe", "machine.compute.memory="+memory)
		require.NoError(t, err)
		var first []byte
		for run := range 6 {
			runtime.GOMAXPROCS([]int{1, 2, 4}[run%3])
			q.Points = run >= 3 // otherwise plans that do not fit are dropped where they are listed
			found, err := Search(context.Background(), c, q, nil)
			require.NoError(t, err)
			require.Equal(t, found.Space, found.Decided())
			var out bytes.Buffer
			require.NoError(t, found.WriteJSON(&out))
			if first == nil {
				first = out.Bytes()
			}
			require.Equal(t, string(first), out.String())
		}
	}
}

// The counts are those of plans that are decided one by one, each in a search of its own: with the step of the
// last of the best plans, what is known of a plan by itself says what became of it.
func TestCountsOfPlansAlone(t *testing.T) {
	seen := map[string]bool{}
	for memory, q := range countedQueries() {
		space := small(t, q, "machine.compute.memory="+memory)
		var alone []point
		var steps []time.Duration
		for i := range space.Plans {
			found, err := decideAll(context.Background(), space.Plans[i:i+1], searchOptions{Rows: 1, Workers: 1})
			require.NoError(t, err)
			p := found.Points[0]
			if alone = append(alone, p); p.Pruned == "" && p.Fits {
				steps = append(steps, p.Step)
			}
		}
		slices.Sort(steps)
		last := forever
		if len(steps) >= q.Rows {
			last = steps[q.Rows-1]
		}
		counts, evaluated := map[string]int{}, 0
		if space.Dropped > 0 {
			counts[Parameters] = space.Dropped
		}
		for _, p := range alone {
			switch {
			case p.Bound > last:
				counts[Slower]++
			case p.Pruned != "":
				counts[p.Pruned]++
			default:
				evaluated++
			}
		}
		found, err := decideAll(context.Background(), space.Plans, searchOptions{Rows: q.Rows, Dropped: space.Dropped})
		require.NoError(t, err)
		var d draft
		d.count(found)
		require.Equal(t, counts, d.PrunedBy, memory)
		require.Equal(t, evaluated, d.Evaluated, memory)
		for why := range counts {
			seen[why] = true
		}
	}
	require.Subset(t, seen, map[string]bool{Slower: true, Parameters: true, Activations: true, Same: true})
}
