package configs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
)

// A list of modules is one word in the order of the modules, however it is written, and an
// object of it reads as itself.
func TestRecomputeLists(t *testing.T) {
	for written, want := range map[string]string{
		`["mlp", "core_attn"]`: "core_attn,mlp", `["core_attn","core_attn"]`: "core_attn", "core_attn": "core_attn",
		"mlp, core_attn": "core_attn,mlp", "[mlp,core_attn]": "core_attn,mlp", `"norm"`: "norm", "none": "none", `["full"]`: "full",
	} {
		c := parse(t, networkKeys, "train.recompute="+written)
		require.Equal(t, want, c.Train.Recompute, written)
		_, err := c.Build()
		require.NoError(t, err)
		again := parse(t, networkKeys, "train.recompute="+c.Train.Recompute)
		require.Equal(t, c.Train, again.Train)
	}
	require.Equal(t, "core_attn,mlp", parse(t, networkKeys+"[train]\nrecompute = [\"mlp\", \"core_attn\"]\n").Train.Recompute)
}

// What is no list of modules, or of another network, is one error at its place.
func TestRecomputeErrors(t *testing.T) {
	const choices = "none, selective, full, or a list of core_attn, mlp, moe, moe_act, shared_experts, norm, mla_up_proj"
	for written, want := range map[string]string{
		`["mlp", "ful"]`:  `train.recompute = "mlp,ful": must be ` + choices + `; "ful" is not one of these`,
		`["mlp", "none"]`: `train.recompute = "mlp,none": must be ` + choices + `; "none" stands alone: write it without others, or leave it out`,
		`[]`:              "train.recompute: must be one of none, selective, full, or a list of one or more of core_attn",
		`[1]`:             "train.recompute: must be one of none, selective, full, or a list of one or more of core_attn",
		`3`:               "train.recompute: must be a string, not an integer",
		`["moe"]`:         `train.recompute = "moe": gpt-4x64 has no experts for moe; it has core_attn, mlp, norm`,
	} {
		err := failure(configs.Parse("x.toml", []byte(networkKeys), "train.recompute="+written))
		require.ErrorContains(t, err, want, written)
	}
}

// A number of layers is of full recomputation, and a network without blocks has none; with
// ZeRO 3 blocks are not repeated several at a time.
func TestRecomputeLayers(t *testing.T) {
	experiment, err := parse(t, networkKeys, "train.recompute=selective", "train.recompute_layers=2").Build()
	require.NoError(t, err)
	require.Contains(t, experiment.Warnings, `train.recompute_layers = 2: no effect with train.recompute = "selective", since it is about the layers that recompute = "full" repeats`)
	for want, sets := range map[string][]string{
		"train.recompute_layers = 2: is not modelled with parallel.zero = 3": {"schedule.name=ddp", "schedule.stages=1", "schedule.microbatches=1", "parallel.data=4", "parallel.zero=3", "train.recompute=full", "train.recompute_layers=2"},
		`train.recompute_method = "blocks": must be uniform or block`:        {"train.recompute_method=blocks"},
		"train.recompute_layers = -1: must be 0 to 10000":                    {"train.recompute_layers=-1"},
	} {
		require.ErrorContains(t, failure(configs.Parse("x.toml", []byte(networkKeys), sets...)), want)
	}
}

// What a step executes and the memory that it takes lie between those of nothing and of all
// that is repeated, and what is repeated more takes less memory and more time.
func TestRecomputeBetween(t *testing.T) {
	measure := func(sets ...string) (executed float64, step, peak int64) {
		experiment, s := run(t, parse(t, networkKeys, append(sets, "model.layers=8", "schedule.name=1f1b")...))
		return experiment.Staged.FLOPs(), int64(s.StepTime), s.Ranks[0].PeakMemory
	}
	var flops float64
	var time, memory int64
	for i, sets := range [][]string{
		{}, {"train.recompute=core_attn"}, {`train.recompute=["core_attn","mlp"]`}, {"train.recompute=full"},
		{"train.recompute=full", "train.recompute_layers=2"},
	} {
		f, s, m := measure(sets...)
		if i > 0 && i < 4 {
			require.Greater(t, f, flops)
			require.Greater(t, s, time)
			require.Less(t, m, memory)
		}
		if i == 4 {
			require.Equal(t, flops, f)
			require.Equal(t, time, s)
		}
		flops, time, memory = f, s, m
	}
	none, _, most := measure()
	all, slowest, least := measure("train.recompute=full")
	last := none
	for _, layers := range []string{"1", "2", "3"} {
		f, s, m := measure("train.recompute=full", "train.recompute_method=block", "train.recompute_layers="+layers)
		require.Greater(t, f, last)
		require.Less(t, f, all)
		require.Less(t, s, slowest)
		require.Less(t, m, most)
		require.Greater(t, m, least)
		last = f
	}
	f, s, m := measure("train.recompute=full", "train.recompute_method=block", "train.recompute_layers=9")
	require.Equal(t, []any{all, slowest, least}, []any{f, s, m})
}
