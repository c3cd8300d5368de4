package advise_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim"
	"psim/advise"
	"psim/configs/machinefile"
	"psim/costmodel"
	"psim/results"
)

// What a change gives is what it gives when it is typed, the shortest step first, and
// none changes nothing.
func TestWhatIf(t *testing.T) {
	for name, want := range map[string][]string{
		"gpipe":               {"machine.compute.memory_bandwidth=3466GB/s", "schedule.microbatches=16", "schedule.microbatches=4", "schedule.name=1f1b", "train.recompute=full"},
		"megatron-deepspeed":  {"machine.host.operation=0us machine.host.task=0us", "parallel.zero=1", "parallel.sequence=true", "model.attention=flash"},
		"auto":                {"times.p2p=313us", "schedule.name=zb-h2"},
		"gpt2-4090d-pipeline": {"machine.host.operation=0us", "schedule.microbatches=2"},
		"ring-allreduce":      {"machine.link.speedup=2"},
	} {
		c, err := psim.Load(name)
		require.NoError(t, err)
		p, err := psim.Predict(context.Background(), c)
		require.NoError(t, err)
		said := 0
		list, _, err := advise.WhatIf(context.Background(), p, func(number, of int, set []string) {
			said++
			require.Equal(t, said, number)
		})
		require.NoError(t, err)
		require.GreaterOrEqual(t, said, len(list))
		require.True(t, slices.IsSortedFunc(list, func(a, b results.WhatIf) int {
			if a.StepTime < b.StepTime {
				return -1
			}
			return 1
		}))
		tried := map[string]bool{}
		for i, what := range list {
			tried[strings.Join(what.Set, " ")] = true
			require.False(t, what.StepTime == p.Result.StepTime && what.PeakMemory == p.Result.PeakMemory(), what.Set)
			if i > 3 {
				continue
			}
			c, err := psim.Load(name, what.Set...)
			require.NoError(t, err, what.Set)
			again, err := psim.Predict(context.Background(), c)
			require.NoError(t, err)
			require.Equal(t, what.StepTime, again.Result.StepTime, what.Set)
		}
		for _, set := range want {
			require.True(t, tried[set], "%s: %s in %v", name, set, tried)
		}
	}
}

func TestWhatIfStops(t *testing.T) {
	c, err := psim.Load("gpipe")
	require.NoError(t, err)
	p, err := psim.Predict(context.Background(), c)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	_, _, err = advise.WhatIf(ctx, p, func(number, _ int, _ []string) {
		if number == 3 {
			cancel()
		}
	})
	require.ErrorIs(t, err, context.Canceled)
}

// A ring twice as fast takes half as long, except for its latency.
func TestSpeedup(t *testing.T) {
	times := map[string]float64{}
	for _, speedup := range []string{"0.5", "1", "2"} {
		c, err := psim.Load("gpt2-4090d-data-parallel", "machine.link=pcie4-no-p2p", "machine.link.speedup="+speedup)
		require.NoError(t, err)
		p, err := psim.Predict(context.Background(), c)
		require.NoError(t, err)
		times[speedup] = p.Result.Ranks[0].Communication
	}
	require.InDelta(t, times["0.5"]-times["1"], 2*(times["1"]-times["2"]), 1e-6)
	require.Greater(t, times["0.5"], 1.9*times["1"])
}

// Where the layers of the configuration were measured, a change that needs others is not
// compared with it, and the rest is.
func TestWhatIfMeasured(t *testing.T) {
	c, err := psim.Load("exec", "train.recompute=none")
	require.NoError(t, err)
	experiment, err := c.Build()
	require.NoError(t, err)
	m := experiment.Machine
	m.Device.MeasuredModel = "gpt-6x192"
	for _, l := range experiment.Staged.Network.Distinct() {
		m.Device.Measured = append(m.Device.Measured, costmodel.Measured{Layer: l.Signature(), Samples: 4, Forward: 1e7, Backward: 2e7, InputGradient: 1e7, WeightGradient: 1e7})
	}
	var text bytes.Buffer
	require.NoError(t, machinefile.Write(&text, m, nil))
	file := filepath.Join(t.TempDir(), "measured.toml")
	require.NoError(t, os.WriteFile(file, text.Bytes(), 0o644))
	c, err = psim.Load("exec", "machine.file="+file)
	require.NoError(t, err)
	p, err := psim.Predict(t.Context(), c)
	require.NoError(t, err)
	require.Empty(t, p.Result.Warnings)
	list, unmeasured, err := advise.WhatIf(t.Context(), p, nil)
	require.NoError(t, err)
	require.Contains(t, unmeasured, []string{"model.attention=flash"})
	for _, what := range list {
		changed, err := c.With(what.Set...)
		require.NoError(t, err)
		r, err := psim.Estimate(t.Context(), changed)
		require.NoError(t, err)
		require.Empty(t, r.Result.Warnings, what.Set)
		require.NotContains(t, unmeasured, what.Set)
	}
	require.NotEmpty(t, list)
}

// What ZeRO 3 divides over all nodes may be divided inside each, and the other way round.
func TestHybridSharding(t *testing.T) {
	sets := []string{
		"machine.device=h100-80gb-sxm", "machine.devices_per_node=8", "machine.network=ib-ndr", "batch.global=32",
		"schedule.microbatches=1", "parallel.zero=3", "parallel.data=32",
	}
	for set, want := range map[string]string{"parallel.zero_group=32": "parallel.zero_group=8", "parallel.zero_group=8": "parallel.zero_group=32"} {
		c, err := psim.Load("model:llama3-8b", append(slices.Clone(sets), set)...)
		require.NoError(t, err)
		p, err := psim.Predict(t.Context(), c)
		require.NoError(t, err)
		list, _, err := advise.WhatIf(t.Context(), p, nil)
		require.NoError(t, err)
		require.True(t, slices.ContainsFunc(list, func(w results.WhatIf) bool { return slices.Equal(w.Set, []string{want}) }), list)
	}
}
