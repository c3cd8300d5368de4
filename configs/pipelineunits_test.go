package configs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
)

// Pipelines whose units ZeRO 3 would not gather in the order of their layers are refused by name; others are built.
func TestUnitsOfPipelines(t *testing.T) {
	const text = "schedule.stages = 2\nschedule.microbatches = 4\nmodel.preset = \"gpt2\"\nmodel.tied = false\n" +
		"parallel.data = 2\nparallel.zero = 3\nbatch.micro = 1\n" +
		"[machine]\nlink = \"pcie4\"\ncompute.flops = \"1TFLOP/s\"\ncompute.memory_bandwidth = \"100GB/s\"\n"
	for _, c := range []struct {
		want string
		sets []string
	}{
		{"", []string{"schedule.name=1f1b"}},
		{"", []string{"schedule.name=zb-h1"}},
		{"", []string{"schedule.name=1f1b", "parallel.gather_unit=stage"}},
		{"tied = true: the first and the last stage", []string{"schedule.name=1f1b", "model.tied=true"}},
		{"has clock cycles of stages", []string{"schedule.name=1f1b", "schedule.synchronous=true"}},
		{"runs forwards and backwards as pairs", []string{"schedule.name=dualpipev"}},
		{"holds every stage twice", []string{"schedule.name=dualpipe"}},
		{"updates a stage after every microbatch", []string{"schedule.name=pipedream"}},
	} {
		config, err := configs.Parse("x.toml", []byte(text), c.sets...)
		if err == nil {
			_, err = config.BuildFor(t.Context(), configs.BuildOptions{})
		}
		if c.want == "" {
			require.NoError(t, err, "%v", c.sets)
		} else {
			require.ErrorContains(t, err, c.want)
		}
	}
}
