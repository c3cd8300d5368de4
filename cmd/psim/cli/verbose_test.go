package cli

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/internal/golden"
)

// -v prints on stderr, little, and the same every time; stdout does not change.
func TestVerbose(t *testing.T) {
	var all strings.Builder
	for _, line := range []string{
		"psim run gpipe --csv",
		"psim run gpipe --csv --set parallel.data=4 --set batch.global=128 --set machine.devices_per_node=8 --set machine.network=ib-hdr --set machine.memory_margin=0.1",
		"psim run megatron-175b --csv", "psim run fsdp --csv", "psim run vgg16-cpu-pipeline --csv", "psim run launch-bound --csv",
		"psim run gpipe --csv --set schedule.name=zbv --set schedule.partition=equal --set batch.global=31",
		"psim run course-timeline --csv", "psim run ring-allreduce --csv", "psim run auto --csv",
		"psim search course-timeline --quiet",
		"psim sweep gpipe --csv --quiet --set batch.global=16 --vary schedule.microbatches=4,8",
	} {
		quiet, stderr, code := psim(t, line)
		require.Zero(t, code, stderr)
		require.Empty(t, stderr)
		stdout, stderr, code := psim(t, line+" -v")
		require.Zero(t, code, stderr)
		require.Equal(t, quiet, stdout)
		for note := range strings.Lines(stderr) {
			require.Regexp(t, `^(reads|assumes|decides) +\S`, note)
			require.LessOrEqual(t, len(note), 160)
		}
		all.WriteString("$ " + line + " -v\n" + stderr + "\n")
	}
	golden.Equal(t, "verbose.txt", all.String())
}

// For a file psim -v also lists the files that it refers to.
func TestVerboseFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"mine.toml":    "[schedule]\nfile = \"order.csv\"\n[model]\nfile = \"config.json\"\n[batch]\nglobal = 4\n[machine]\nfile = \"machine.toml\"\n",
		"order.csv":    "0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1\n",
		"config.json":  `{"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 2, "n_positions": 32, "vocab_size": 100}`,
		"machine.toml": "[machine]\ndevice = \"t4\"\nlink = \"pcie3\"\n",
	} {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
	_, stderr, code := psim(t, "psim run mine.toml --csv -v")
	require.Zero(t, code, stderr)
	require.True(t, strings.HasPrefix(stderr, "reads    file mine.toml\nreads    order order.csv\nreads    network config.json\nreads    machine machine.toml\n"), stderr)
	require.Contains(t, stderr, "\nreads    device t4 of the catalog\nreads    link pcie3 of the catalog\n")
}

// A network's file says how long a text may be, not how long samples of training are: its first line says what is
// assumed, whether or not the plan fits.
func TestAssumedLength(t *testing.T) {
	t.Chdir(t.TempDir())
	const network = `{"model_type": "llama", "hidden_size": %d, "intermediate_size": 14336, "num_hidden_layers": 32,
		"num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 131072}`
	for hidden, want := range map[int]string{4096: "at 2,048 tokens a sample ", 512: " 2,048 tokens a sample, predicted"} {
		require.NoError(t, os.WriteFile("config.json", fmt.Appendf(nil, network, hidden), 0o600))
		stdout, stderr, code := psim(t, "psim run config.json --device rtx-4090 --out -")
		require.LessOrEqual(t, code, 1, stderr)
		first, _, _ := strings.Cut(stdout, "\n")
		require.Contains(t, first, want)
	}
}

// TestLettersOfLayers: small letters are of layers where replicas gather these, and of stages in a pipeline.
func TestLettersOfLayers(t *testing.T) {
	t.Chdir(t.TempDir())
	for command, want := range map[string]string{
		"psim run llama3-8b --devices 8 --device h100-80gb-sxm --set model.layers=4":          "small letters: every second layer, or layers that are gathered together\n",
		"psim run gpipe --set schedule.name=interleaved-1f1b --set schedule.virtual_stages=2": "small letters: every second stage of a rank\n",
	} {
		stdout, stderr, code := psim(t, command)
		require.Zero(t, code, stderr)
		require.Contains(t, stdout, want)
	}
}
