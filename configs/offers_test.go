package configs_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
)

// What the configuration asks of a program that does not offer it is said, once, and
// nothing is said of what has no effect.
func TestNotInStack(t *testing.T) {
	for _, c := range []struct {
		sets string
		want string // "" is no warning
	}{
		{"train.stack=nanotron", ""},
		{"train.stack=none parallel.data=2 parallel.zero=3", ""},
		{"train.stack=nanotron parallel.data=2 parallel.zero=1", ""},
		{"train.stack=nanotron parallel.data=2 parallel.zero=3", "stack nanotron has no parallel.zero = 3"},
		{"train.stack=megatron-2021 parallel.data=2 parallel.zero=1 train.recompute=selective model.attention=unfused",
			`stack megatron-2021 has no parallel.zero = 1, no train.recompute = "selective"`},
		{"train.stack=megatron-2021 parallel.zero=1", ""}, // by itself there is nobody to share with
		{"train.stack=nanotron train.precision=fp8 machine.device=h100-80gb-sxm", `stack nanotron has no train.precision = "fp8"`},
		{"train.stack=megatron-te train.precision=fp8 machine.device=h100-80gb-sxm", ""},
		{"train.stack=pytorch-fsdp parallel.tensor=2", "stack pytorch-fsdp has no parallel.tensor = 2"},
		{"train.stack=pytorch-fsdp schedule.name=1f1b schedule.stages=2", `stack pytorch-fsdp has no schedule.name = "1f1b"`},
		{"train.stack=torchtitan parallel.tensor=2 parallel.sequence=true", ""},
		{"train.stack=torchtitan parallel.tensor=2", "stack torchtitan has no parallel.sequence = false"},
		{"train.stack=nanotron parallel.context=2", "stack nanotron has no parallel.context = 2"},
		{"train.stack=megatron-te train.recompute=mlp,norm", ""}, // modules are listed freely
		{"train.stack=torchtitan train.recompute=mlp", `stack torchtitan has no train.recompute = "mlp"`},
		{"train.stack=megatron-te parallel.data=2 parallel.zero=3", ""}, // Megatron-FSDP, which a search does not try
	} {
		experiment, err := parse(t, blocks, strings.Fields(c.sets)...).Build()
		require.NoError(t, err, c.sets)
		var said []string
		for _, w := range experiment.Warnings {
			if strings.HasPrefix(w, "stack ") {
				said = append(said, w)
			}
		}
		if c.want == "" {
			require.Empty(t, said, c.sets)
			continue
		}
		require.Equal(t, []string{c.want + " (psim list stacks -v): predicted as if it had"}, said, c.sets)
	}
}

// What no search tries is none of what it does.
func TestUnsearched(t *testing.T) {
	for _, s := range configs.Stacks() {
		for _, set := range s.Unsearched {
			key, value, found := strings.Cut(set, " = ")
			require.True(t, found, set)
			require.False(t, s.Offers().Has(key, strings.Trim(value, `"`)), s.Name)
		}
	}
}
