package configs_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What is simulated alone is refused in one line, whatever else is asked for.
func TestNotExecuted(t *testing.T) {
	const text = "[schedule]\nname = \"ddp\"\n[model]\npreset = \"llama2-7b\"\nsequence_length = 16\n[batch]\nglobal = 8\n[machine]\ndevice = \"a100-80gb-sxm\"\n"
	for _, e := range []struct {
		sets []string
		want string
	}{
		{[]string{"parallel.tensor=2"}, "parallel.tensor = 2: is simulated, but not executed"},
		{[]string{"model.preset=mixtral-8x7b"}, "model: a mixture of experts is simulated, but not executed"},
		{[]string{"train.clip=true"}, "train.clip = true: is simulated, but not executed"},
		{[]string{"train.recompute=selective"}, `train.recompute = "selective": is simulated, but not executed`},
		{[]string{"parallel.data=2", "parallel.zero=1"}, "parallel.zero = 1: is simulated, but not executed"},
	} {
		c, err := parse(t, text).With(e.sets...)
		require.NoError(t, err)
		_, _, err = c.Executable(0)
		require.ErrorContains(t, err, e.want)
		_, err = c.Build()
		require.NoError(t, err)
	}
}

// Layers are measured whole.
func TestTensorNotMeasured(t *testing.T) {
	c := parse(t, "[schedule]\nname = \"ddp\"\n[model]\npreset = \"llama2-7b\"\n[batch]\nglobal = 8\n[parallel]\ntensor = 4\n[machine]\ndevice = \"a100-80gb-sxm\"\n")
	_, _, err := c.Trained()
	require.ErrorContains(t, err, "parallel.tensor = 4: layers are measured whole")
}
