package export_test

import (
	"bytes"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim"
	"psim/configs"
	"psim/launch"
)

// imported reads a script back, on the machine of the drawn plans: psim knows all of its arguments, and misses none.
func imported(t *rapid.T, script []byte) *configs.Config {
	read, err := launch.Read([]launch.Input{{Label: "run.sh", Data: script}}, launch.Options{})
	require.NoError(t, err)
	require.Zero(t, read.Unknown, "%v", read.Ignored)
	require.Empty(t, read.Missing)
	read.Config["machine"] = map[string]any{"device": "h100-80gb-sxm", "devices_per_node": 8, "network": "ib-ndr"}
	return parsed(t, read.Config)
}

// parsed makes a configuration of what was understood.
func parsed(t *rapid.T, object map[string]any) *configs.Config {
	var text bytes.Buffer
	require.NoError(t, configs.WriteObject(&text, nil, object))
	c, err := configs.Parse("read.toml", text.Bytes())
	require.NoError(t, err, "%s", text.Bytes())
	return c
}

// alike wants two configurations to have as many devices, and if they are equal, the same step and peaks of memory.
func alike(t *rapid.T, a, b *configs.Config, equal bool) {
	one, err := psim.Estimate(t.Context(), a)
	require.NoError(t, err)
	two, err := psim.Estimate(t.Context(), b)
	require.NoError(t, err)
	require.Equal(t, one.Result.Devices, two.Result.Devices)
	if !equal {
		return
	}
	require.Equal(t, one.Result.StepTime, two.Result.StepTime, "%v\n%v", a.Object(), b.Object())
	for i, rank := range one.Result.Ranks {
		require.Equal(t, rank.PeakMemory, two.Result.Ranks[i].PeakMemory, "%v\n%v", a.Object(), b.Object())
	}
}
