package launch_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
	"psim/export"
	"psim/launch"
)

// TestFunctional reads every model_config.yaml of GPT and mixtures in a checkout of Megatron-LM (make megatron),
// prints what is refused and why, and wants nine of ten read. Each that is a configuration of psim's is written as a script
// again, which is read back and compared.
func TestFunctional(t *testing.T) {
	checkout := os.Getenv("PSIM_MEGATRON")
	if checkout == "" {
		t.Skip("PSIM_MEGATRON names no checkout of Megatron-LM: make megatron")
	}
	read, written, all := 0, 0, 0
	for _, family := range []string{"gpt", "moe", "mixtral", "nemotron"} {
		names, err := filepath.Glob(filepath.Join(checkout, "tests/functional_tests/test_cases", family, "*/model_config.yaml"))
		require.NoError(t, err)
		require.NotEmpty(t, names)
		for _, name := range names {
			data, err := os.ReadFile(name)
			require.NoError(t, err)
			label := filepath.Base(filepath.Dir(name))
			i, err := launch.Read([]launch.Input{{Label: label, Data: data}}, launch.Options{})
			if all++; err != nil {
				t.Log(err)
				continue
			}
			require.NotEmpty(t, i.Config["model"], label)
			read++
			i.Config["machine"] = map[string]any{"device": "h100-80gb-sxm", "devices_per_node": 8, "network": "ib-ndr"}
			var text bytes.Buffer
			require.NoError(t, configs.WriteObject(&text, nil, i.Config))
			c, err := configs.Parse(label, text.Bytes())
			if err == nil {
				_, err = c.Build()
			}
			if err != nil {
				t.Log(err)
				continue
			}
			_, err = export.WriteMegatron(t.Context(), io.Discard, c)
			require.NoError(t, err, label)
			written++
		}
	}
	t.Logf("%d of %d are read, and %d written again", read, all, written)
	require.Greater(t, written, read*9/10)
	require.Greater(t, read, all*9/10)
}
