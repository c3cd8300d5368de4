package cli

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
)

// psim show prints the example: a run of the output predicts the same.
func TestShow(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range configs.Examples() {
		stdout, stderr, code := psim(t, "psim show "+name)
		require.Zero(t, code, stderr)
		require.NoError(t, os.WriteFile(name+".toml", []byte(stdout), 0o600))
		for _, config := range []string{name, "./" + name + ".toml"} {
			c, err := configs.Load(config)
			require.NoError(t, err)
			require.Equal(t, name, c.Name())
		}
	}
	want, _, code := psim(t, "psim run gpipe --csv")
	require.Zero(t, code)
	got, _, code := psim(t, "psim run ./gpipe.toml --csv")
	require.Zero(t, code)
	require.Equal(t, want, got)
}

// The error for a misspelt name suggests the nearest one, with exit code 2.
func TestNearest(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("mine.toml", nil, 0o600))
	for line, want := range map[string]string{
		"psim show gpip":            "unknown example or preset \"gpip\"; did you mean gpipe?\n",
		"psim show a/config.json":   "a/config.json: no such file\n",
		"psim show zzz":             "unknown example or preset \"zzz\"; psim list examples and psim list models list the names\n",
		"psim show":                 "show takes the NAME of an example (psim list examples), a preset or a config.json, not nothing\n",
		"psim run gpip":             "gpip: no such file, and no example or preset of that name; did you mean gpipe?\n",
		"psim run gpip.toml":        "gpip.toml: no such file, and no example or preset of that name; did you mean gpipe?\n",
		"psim run mime.toml":        "mime.toml: no such file, and no example or preset of that name; did you mean mine.toml?\n",
		"psim run ./mime.toml":      "./mime.toml: no such file; did you mean ./mine.toml?\n",
		"psim help serch":           "unknown help topic \"serch\"; did you mean search?\nsee \"psim --help\"\n",
		"psim help zzz":             "unknown help topic \"zzz\"\nsee \"psim --help\"\n",
		"psim run gpipe --jsn":      "unknown flag --jsn; did you mean --json?\nsee \"psim run --help\"\n",
		"psim exec --gpu 2":         "unknown flag --gpu; did you mean --gpus?\nsee \"psim exec --help\"\n",
		"psim run gpipe --zzz":      "unknown flag --zzz\nsee \"psim run --help\"\n",
		"psim exec --data foo":      "--data foo: unknown data source; use synthetic, cifar10:DIR or pairs:FILE\n",
		"psim run gpipe --stages 2": "unknown flag --stages; a setting is changed with --set schedule.stages=VALUE\nsee \"psim run --help\"\n",
		"psim --jsn":                "unknown flag --jsn\nsee \"psim --help\"\n",
		"psim help run --nothing":   "unknown flag --nothing\nsee \"psim help --help\"\n",
	} {
		_, stderr, code := psim(t, line)
		require.Equal(t, exitUsage, code, line)
		require.Contains(t, stderr, "psim: "+want, line)
	}
	stdout, _, code := psim(t, "psim help run")
	require.Zero(t, code)
	manual, _, _ := psim(t, "psim run --help")
	require.Equal(t, manual, stdout)
}
