package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/results/rankings"
)

// Whatever values of a small space are allowed, the search finds what a loop finds.
func TestSomeOfThem(t *testing.T) {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	t.Chdir(root)
	require.FileExists(t, spaces()[1].config)
	rapid.Check(t, func(t *rapid.T) {
		s := space{name: "small", config: "gpipe", devices: rapid.SampledFrom([]int{4, 8}).Draw(t, "devices")}
		for _, v := range spaces()[0].vary {
			values := v.Values
			switch v.Key {
			case "parallel.tensor":
				values = []string{"1", "2"}
			case "schedule.stages":
				values = []string{"1", "2", "4"}
			case "schedule.name":
				values = []string{"ddp", "1f1b", "interleaved-1f1b"}
			case "schedule.virtual_stages":
				values = []string{"1", "2"}
			}
			some := rapid.SliceOfNDistinct(rapid.SampledFrom(values), 1, 2, rapid.ID[string]).Draw(t, v.Key)
			if v.Key == "schedule.name" && !slices.Contains(some, "ddp") {
				some = append(some, "ddp") // so that there is a plan
			}
			if v.Key == "schedule.stages" && !slices.Contains(some, "1") {
				some = append(some, "1")
			}
			if v.Key == "parallel.tensor" && !slices.Contains(some, "1") || v.Key == "parallel.sequence" && !slices.Contains(some, "false") {
				some = append(some, values[0])
			}
			if v.Key == "schedule.virtual_stages" && !slices.Contains(some, "1") {
				some = append(some, "1")
			}
			s.vary = append(s.vary, rankings.Variation{Key: v.Key, Values: some})
		}
		line, same, err := s.compare(context.Background())
		require.NoError(t, err)
		require.True(t, same, line)
	})
}

// The table of docs/search.md is what main prints for the spaces there are.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/search.md")
	require.NoError(t, err)
	for _, s := range spaces() {
		require.Contains(t, string(text), "| "+s.name+" | ")
	}
}
