package modes_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/courses/modes"
)

// Every worker keeps its batch, whether the workers are replicas or stages.
func ExampleMode_Load() {
	for _, word := range []string{"ddp=8", "fsdp=2", "model=2", "pipeline=3"} {
		m, workers, _, _ := modes.Parse(word)
		c, err := m.Load(workers, "")
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(word, c.Name(), c.Schedule.Name, c.Schedule.Stages, c.Parallel.Data, c.Parallel.Zero, c.Batch.Global)
	}
	// Output:
	// ddp=8 vgg16-cpu-ddp ddp 1 8 0 512
	// fsdp=2 vgg16-cpu-fsdp ddp 1 2 3 128
	// model=2 vgg16-cpu-model model-parallel 2 1 0 64
	// pipeline=3 vgg16-cpu-pipeline gpipe 3 1 0 64
}

func TestModes(t *testing.T) {
	for _, m := range modes.All() {
		again, workers, ok, err := modes.Parse(m.Name + "=3")
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, m, again)
		require.Equal(t, 3, workers)
	}
	for _, text := range []string{"ddp=", "ddp=two", "ddp=-1", "ddp=0", "ddp=1e3", "ddp=99999999999999999999"} {
		_, _, ok, err := modes.Parse(text)
		require.True(t, ok, text)
		require.EqualError(t, err, text+": the number of workers must be a whole number from 1 to 65536, as in ddp=2")
	}
	for _, text := range []string{"out/ddp=2", "ddp", "ddp=2/result.json", "1=2", "a=b"} {
		_, _, ok, err := modes.Parse(text)
		require.False(t, ok, text)
		require.NoError(t, err)
	}
	m, _, _, _ := modes.Parse("pipeline=2")
	c, err := m.Load(2, "1f1b")
	require.NoError(t, err)
	require.Equal(t, "1f1b", c.Schedule.Name, "a pipeline keeps its schedule")
	c, err = m.Load(2, "ddp", "model.layers=4")
	require.NoError(t, err)
	require.Equal(t, "gpipe", c.Schedule.Name)
}

// Words that name no mode stay as they are.
func TestWords(t *testing.T) {
	for list, want := range map[string][]string{
		"ddp=1":            {"ddp=1"},
		"ddp=1,ddp=2":      {"ddp=1", "ddp=2"},
		"ddp=1,2,4,fsdp=2": {"ddp=1", "ddp=2", "ddp=4", "fsdp=2"},
		"out/a,2":          {"out/a", "2"},
		"ddp=1,out/a,2":    {"ddp=1", "out/a", "2"},
		"ddp=1,,2":         {"ddp=1", "", "2"},
	} {
		if got := modes.Words(list); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", list, got, want)
		}
	}
}
