package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// completed returns what a shell is offered for the last word of a command line, and the
// directive.
func completed(t *testing.T, words ...string) (offered []string, directive string) {
	t.Helper()
	var out, errs strings.Builder
	require.Zero(t, Run(t.Context(), append([]string{"__complete"}, words...), &out, &errs), errs.String())
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	return lines[:len(lines)-1], lines[len(lines)-1]
}

// Settings are completed to keys, and keys to the values of their rows and catalogs.
func TestCompleteSettings(t *testing.T) {
	t.Chdir(t.TempDir())
	const noSpaceNoFiles, noFiles, files = ":6", ":4", ":0"
	for _, c := range []struct {
		words     string
		want      []string
		directive string
	}{
		{"run gpipe --set schedule.na", []string{"schedule.name="}, noSpaceNoFiles},
		{"run gpipe --set schedule.name=zb", []string{"schedule.name=zb-h1", "schedule.name=zb-h2", "schedule.name=zbv"}, noFiles},
		{"run gpipe --set=schedule.name=zb-", []string{"schedule.name=zb-h1", "schedule.name=zb-h2"}, noFiles},
		{"exec --set parallel.sequence=", []string{"parallel.sequence=true", "parallel.sequence=false"}, noFiles},
		{"search gpipe --set model.preset=llama3-", []string{"model.preset=llama3-8b", "model.preset=llama3-70b", "model.preset=llama3-405b"}, noFiles},
		{"sweep gpipe --set machine.network=ib-n", []string{"machine.network=ib-ndr"}, noFiles},
		{"plot timeline ddp=2 --set train.stack=pytorch-", []string{"train.stack=pytorch-fsdp", "train.stack=pytorch-fsdp-compiled"}, noFiles},
		{"run gpipe --set machine.file=modal", []string{"machine.file=modal-a10g-x2"}, files},
		{"run gpipe --set parallel.zero=", []string{"parallel.zero=0", "parallel.zero=1", "parallel.zero=2", "parallel.zero=3"}, noFiles},
		{"run gpipe --set schedule.stages=", []string{}, noFiles},
		{"sweep gpipe --vary machine.device=rtx-4090,rtx-4", []string{"machine.device=rtx-4090,rtx-4070", "machine.device=rtx-4090,rtx-4090d"}, noFiles},
		{"sweep gpipe --vary schedule.na", []string{"schedule.name="}, noSpaceNoFiles},
		{"search gpipe --devices 8 --vary train.precision=fp32,bf", []string{"train.precision=fp32,bf16"}, noFiles},
		{"search gpipe --fix parallel.ten", []string{"parallel.tensor"}, noFiles},
		{"run llama3-8b --device h100-80gb-s", []string{"h100-80gb-sxm"}, noFiles},
		{"run llama3-8b --network ib-n", []string{"ib-ndr"}, noFiles},
	} {
		offered, directive := completed(t, strings.Fields(c.words)...)
		require.Equal(t, c.want, offered, c.words)
		require.Equal(t, c.directive, directive, c.words)
	}
}

// CONFIG is completed to examples, plans and presets, and to files by the shell.
func TestCompleteConfigs(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("mine.toml", nil, 0o600))
	for _, verb := range []string{"run", "exec", "search", "sweep", "show"} {
		offered, directive := completed(t, verb, "llama3-")
		require.Equal(t, []string{"llama3-70b", "llama3-8b", "llama3-405b"}, offered, verb)
		require.Equal(t, ":0", directive)
		offered, _ = completed(t, verb, "model:llama3-")
		require.Equal(t, []string{"model:llama3-8b", "model:llama3-70b", "model:llama3-405b"}, offered, verb)
		offered, _ = completed(t, verb, "plans/l")
		require.Equal(t, []string{"plans/llama3-405b"}, offered, verb)
		offered, directive = completed(t, verb, "gpipe", "g")
		require.Empty(t, offered, verb)
		require.Equal(t, ":4", directive)
	}
}

// Every completed value of every flag is accepted by the check of settings.
func TestCompletedKeys(t *testing.T) {
	offered, _ := completed(t, "run", "gpipe", "--set", "")
	require.Greater(t, len(offered), 100)
	for _, key := range offered {
		require.True(t, strings.HasSuffix(key, "="), key)
		_, directive := completed(t, "run", "gpipe", "--set", key)
		require.Contains(t, []string{":0", ":4"}, directive)
	}
}
