package psim_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim"
	"psim/results"
)

// Of [machine.compute] exactly the settings that are listed for a class move its time: whatever
// attention and precision are, and whether sizes are aligned or not.
func TestPricedByWhatMoves(t *testing.T) {
	sets := []string{
		"flops=1TFLOP/s", "efficiency=0.01", "flops_fp8=1TFLOP/s", "efficiency_fp8=0.01", "memory_bandwidth=1GB/s", "launch=1ms",
		"half_rows=5000000", "multiprocessors=1000000", "serial_tiles=true", "serial_tiles=false", "unaligned=0.01", "unaligned_heads=0.01",
		"attention=0.01", "half_head=9999", "head_multiple=9999",
	}
	for name, like := range map[string][]string{
		"unfused":   {"machine.device=h100-80gb-sxm", "train.stack=megatron-2021", "model.vocab=50432"},
		"serial":    {"machine.device=a100-80gb-sxm", "train.stack=megatron-2021"},
		"flash":     {"machine.device=a100-80gb-sxm", "model.attention=flash"},
		"fp8":       {"machine.device=h100-80gb-sxm", "model.attention=flash", "train.precision=fp8", "model.vocab=50432"},
		"unaligned": {"machine.device=h100-80gb-sxm", "model.attention=unfused", "model.heads=64"},
		"no share":  {"machine.device=v100-32gb-sxm", "model.attention=unfused", "model.heads=64", "train.precision=fp16"},
		"fp32":      {"machine.device=v100-32gb-sxm", "model.attention=unfused", "model.heads=64", "train.precision=fp32"},
	} {
		t.Run(name, func(t *testing.T) {
			explain := func(set ...string) *results.Explanation {
				c, err := psim.Load("gpipe", slices.Concat([]string{"schedule.stages=1", "schedule.microbatches=1", "batch.global=4", "machine.memory_margin=0"}, like, set)...)
				require.NoError(t, err)
				p, err := psim.Predict(context.Background(), c)
				require.NoError(t, err)
				return requireExplained(t, p)
			}
			base := explain()
			for _, set := range sets {
				key, _, _ := strings.Cut("machine.compute."+set, "=")
				changed := explain("machine.compute." + set)
				requirePriced(t, set, key, base, changed)
			}
		})
	}
}

// requirePriced requires that a setting moves those classes that either explanation lists it for, and
// no others.
func requirePriced(t *testing.T, set, key string, base, changed *results.Explanation) {
	var listed []string
	values := map[string]bool{} // a device may have the value that is set
	for _, e := range []*results.Explanation{base, changed} {
		value := "0"
		for _, s := range e.Settings {
			if s.Key == key {
				listed, value = append(listed, s.Classes...), s.Value
			}
		}
		values[value] = true
	}
	for _, class := range slices.Sorted(maps.Keys(base.ByClass)) {
		moved := base.ByClass[class] != changed.ByClass[class]
		if class == "launches" { // which a host's time may hide
			continue
		}
		require.Equal(t, slices.Contains(listed, class) && len(values) > 1, moved, "%s: %s", set, class)
	}
}
