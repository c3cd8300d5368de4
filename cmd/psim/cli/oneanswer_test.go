package cli

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// A configuration has one result and one table, whatever outputs are asked for.
func TestOneAnswer(t *testing.T) {
	userFolder(t)
	own := regexp.MustCompile(`\s*"(build|simulation)_s": [^\n]*`)
	for _, config := range []string{
		"fsdp --set parallel.data=1", "fsdp", "ddp --set parallel.data=4", "gpipe --set parallel.data=2",
		"llama3-8b --device h100-80gb-sxm --devices 8", "gpipe --set machine.compute.memory=1GB",
	} {
		asked := func(flags string) string {
			stdout, stderr, code := psim(t, "psim run "+config+" --quiet "+flags)
			require.Zero(t, code, stderr)
			return stdout
		}
		result := own.ReplaceAllString(asked("--json"), "")
		require.Contains(t, result, `"peak_in_flight"`)
		require.Equal(t, result, own.ReplaceAllString(asked("--json --out o --overwrite"), ""), config)
		require.Equal(t, result, own.ReplaceAllString(asked("--json --trace t.pftrace"), ""), config)
		for _, flags := range []string{"--out o --overwrite", "--csv --out o --overwrite"} {
			require.NoError(t, os.RemoveAll("o"))
			asked(flags)
			saved, err := os.ReadFile("o/result.json")
			require.NoError(t, err)
			require.Equal(t, own.ReplaceAllString(result, ""), own.ReplaceAllString(string(saved), ""), config)
		}
		require.Equal(t, asked("--out -"), asked("--out o --overwrite"), config)
		require.Equal(t, asked("--csv"), asked("--csv --out o --overwrite"), config)
	}
}
