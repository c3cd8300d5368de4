package cli

import (
	"cmp"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
	"psim/costmodel/models"
	"psim/internal/units"
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

// psim show prints every preset: its parameters, which are those of its layers together, its FLOPs, and its source if it
// is a transformer. What is printed is a configuration of the preset.
func TestShowPresets(t *testing.T) {
	t.Chdir(t.TempDir())
	layer := regexp.MustCompile(`(?m)^# (?:(\d+) like )?\S+ {2,}(.*)$`)
	part := regexp.MustCompile(`[a-z)] ([\d,]+)(?:, |$)`)
	number := func(text string) int64 {
		n, err := strconv.ParseInt(strings.ReplaceAll(text, ",", ""), 10, 64)
		require.NoError(t, err)
		return n
	}
	for _, p := range models.Presets() {
		stdout, stderr, code := psim(t, "psim show model:"+p.Name)
		require.Zero(t, code, stderr)
		n, err := models.Model{Preset: p.Name}.Network()
		require.NoError(t, err)
		require.Regexp(t, "(?m)^# parameters +"+units.FormatCount(n.Parameters())+"$", stdout)
		require.Contains(t, stdout, " FLOPs of a ")
		require.True(t, strings.HasPrefix(stdout, "# "+p.Summary+"\n"), stdout)
		if p.Transformer() {
			require.Regexp(t, `(?m)^# source +\S`, stdout)
		}
		held := int64(0)
		for _, l := range layer.FindAllStringSubmatch(stdout, -1) {
			if name := strings.Fields(l[0])[1]; name == "parameters" || name == "forward" || name == "source" {
				continue
			}
			for _, m := range part.FindAllStringSubmatch(l[2], -1) {
				held += max(1, number(cmp.Or(l[1], "1"))) * number(m[1])
			}
		}
		require.Equal(t, n.Parameters(), held, stdout)
		require.NoError(t, os.WriteFile("mine.toml", []byte(stdout), 0o600))
		c, err := configs.Load("mine.toml")
		require.NoError(t, err)
		require.Equal(t, p.Name, c.Model.Preset)
	}
	stdout, _, _ := psim(t, "psim show model:gpt-oss-20b")
	for _, want := range []string{"32 experts (4 of a token) 796,538,880, a window of 128 tokens", "in a sample of 4,096 tokens", "OpenAI 2025"} {
		require.Contains(t, stdout, want)
	}
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
