package launch_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/launch"
)

// TestFunctional reads every model_config.yaml of GPT and mixtures in a checkout of Megatron-LM (make megatron),
// prints what is refused and why, and wants nine of ten read.
func TestFunctional(t *testing.T) {
	checkout := os.Getenv("PSIM_MEGATRON")
	if checkout == "" {
		t.Skip("PSIM_MEGATRON names no checkout of Megatron-LM: make megatron")
	}
	read, all := 0, 0
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
		}
	}
	t.Logf("%d of %d are read", read, all)
	require.Greater(t, read, all*9/10)
}
