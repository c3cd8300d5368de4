package titles_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
	"psim/configs/catalog"
	"psim/costmodel/models"
	"psim/internal/units"
	"psim/reports/titles"
	"psim/results"
	"psim/schedules"
	"psim/schedules/collective"
)

// Everything that a catalog names has a title in words, and a preset says how many parameters it has.
func TestTitled(t *testing.T) {
	names := append(catalog.Names("devices"), schedules.Names()...)
	for _, s := range configs.Searched() {
		names = append(names, s.Name)
	}
	for _, c := range collective.Collectives() {
		names = append(names, c.Name)
	}
	titled := catalog.Names("titles")
	for _, name := range names {
		require.Contains(t, titled, name)
	}
	parameters := map[string]string{}
	for i, text := range catalog.Texts("titles", "parameters") {
		parameters[titled[i]] = text
	}
	for _, p := range models.Presets() {
		n, err := models.Model{Preset: p.Name}.Network()
		require.NoError(t, err)
		require.Equal(t, units.FormatCount(n.Parameters()), parameters[p.Name], p.Name)
	}
}

// of makes a result of a configuration.
func of(preset string, parameters int64, r results.Result) results.Result {
	r.Kind, r.Parameters = results.Predicted, parameters
	if preset != "" {
		r.Config = map[string]any{"model": map[string]any{"preset": preset}}
	}
	return r
}

func TestOf(t *testing.T) {
	pipeline := results.Result{
		Name: "gpipe", Schedule: "gpipe", Stages: 4, VirtualStages: 1, Microbatches: 8, DataParallel: 1,
		TensorParallel: 1, Work: results.Work{Device: "a100-80gb-sxm"}, Devices: 4,
	}
	one := results.Result{
		Schedule: "ddp", Stages: 1, VirtualStages: 1, Microbatches: 1, DataParallel: 1,
		Work: results.Work{Device: "rtx-4090d"}, Devices: 1,
	}
	large := pipeline
	large.Schedule, large.VirtualStages, large.DataParallel, large.TensorParallel, large.Devices = "interleaved-1f1b", 2, 256, 8, 8192
	sharded := one
	sharded.DataParallel, sharded.Devices, sharded.FullySharded = 4, 4, true
	given := of("", 0, pipeline)
	given.Device, given.Config = "", map[string]any{"times": map[string]any{"forward": "1ms"}}
	ring := results.Result{Kind: results.Predicted, Schedule: "ring-allreduce", Stages: 8, Devices: 8, Config: map[string]any{"collective": map[string]any{}}}
	adapted := of("gpt2", 124439808+1000, one)
	adapted.TrainedParameters = 1000
	adapted.Config["train"] = map[string]any{"adapter": map[string]any{"kind": "qlora", "rank": 8}}
	for want, r := range map[string]results.Result{
		"GPT-2 124M, QLoRA r 8, predicted on 1 RTX 4090D":                                                                         adapted,
		"GPT-2 124M, GPipe, 4 stages × 8 microbatches, predicted on 4 A100":                                                       of("gpt2", 124439808, pipeline),
		"GPT-2 of 31.3M parameters, GPipe, 4 stages × 8 microbatches, predicted on 4 A100":                                        of("gpt2", 31_300_000, pipeline),
		"A model of 31.3M parameters, GPipe, 4 stages × 8 microbatches, predicted on 4 A100":                                      of("", 31_300_000, pipeline),
		"GPT-2 124M, predicted on 1 RTX 4090D":                                                                                    of("gpt2", 124439808, one),
		"VGG16, FSDP, 4 replicas, predicted on 4 RTX 4090D":                                                                       of("vgg16", 134301514, sharded),
		"Llama 3.1 405B, interleaved 1F1B, 4 ranks × 2 stages × 8 microbatches × 256 replicas, tensor 8, predicted on 8,192 A100": of("llama3-405b", 405853388800, large),
		"GPipe, 4 stages × 8 microbatches, predicted from given times":                                                            given,
		"Ring all-reduce, 8 ranks, predicted on 8 devices":                                                                        ring,
	} {
		require.Equal(t, want, titles.Of(r))
	}
}

// What runs have in common is in the title, and the rest in their labels.
func TestCommon(t *testing.T) {
	a := of("gpt2", 124439808, results.Result{
		Name: "a", Schedule: "gpipe", Stages: 4, VirtualStages: 1, Microbatches: 8,
		Work: results.Work{Device: "a100-80gb-sxm"}, Devices: 4,
	})
	b := a
	b.Schedule, b.VirtualStages = "zbv", 2
	require.Equal(t, "GPT-2 124M, predicted on 4 A100", titles.Common(a, b))
	require.Equal(t, []string{"GPipe, 4 stages × 8 microbatches", "ZBV, 4 ranks × 2 stages × 8 microbatches"}, titles.Differences(a, b))
	b = a
	b.Kind = results.Measured
	require.Equal(t, "GPT-2 124M, GPipe, 4 stages × 8 microbatches, predicted and measured on 4 A100", titles.Common(a, b))
	require.Equal(t, []string{"Predicted", "Measured"}, titles.Differences(a, b))
	b = a
	b.Name = "with sharding"
	require.Equal(t, []string{"a", "with sharding"}, titles.Differences(a, b))
	b = of("vgg16", 134301514, results.Result{Schedule: "ddp", Stages: 1, DataParallel: 2, Devices: 2})
	require.Equal(t, "2 runs, predicted", titles.Common(a, b))
}
