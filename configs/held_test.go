package configs_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
)

// TestHeldAnyway: settings of memory that change nothing in a step are said to, and others are not.
func TestHeldAnyway(t *testing.T) {
	on := configs.Target{Device: "h100-80gb-sxm", Devices: 2}
	for sets, want := range map[string]string{
		"memory.freed_gradients=true":                                                        "",
		"memory.freed_gradients=true schedule.microbatches=4":                                "memory.freed_gradients = true: no effect here",
		"memory.freed_gradients=true parallel.zero=0":                                        "memory.freed_gradients = true: no effect here",
		"memory.freed_gradients=false parallel.zero=0":                                       "",
		`train.keep_8bit=["attention"]`:                                                      "",
		`train.keep_8bit=["attention"] model.attention=unfused`:                              `train.keep_8bit = "attention": no effect on attention`,
		`train.keep_8bit=["activation"] model.attention=unfused`:                             "",
		"train.stack=hf-trainer parallel.zero=0 schedule.microbatches=4 parallel.bucket=9MB": "",
	} {
		c, err := configs.LoadOn("model:gpt2", on, strings.Fields(sets)...)
		require.NoError(t, err, sets)
		e, err := c.Build()
		require.NoError(t, err, sets)
		said := strings.Join(e.Warnings, "\n")
		require.Equal(t, want != "", strings.Contains(said, "no effect"), "%s: %s", sets, said)
		require.Contains(t, said, want)
	}
}

// TestFileWords: an error about a key that a config.json gives names that file's key.
func TestFileWords(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("config.json", []byte(tinyLlama), 0o600))
	c, err := configs.LoadOn("config.json", configs.Target{Device: "h100-80gb-sxm", Devices: 3}, "parallel.tensor=3")
	require.NoError(t, err)
	_, err = c.Build()
	require.ErrorContains(t, err, "config.json: num_attention_heads = 4: parallel.tensor = 3 must divide it")
	require.NoError(t, os.WriteFile("my.toml", []byte("[schedule]\nname = \"ddp\"\n[model]\nfile = \"config.json\"\n[batch]\nmicro = 1\n[parallel]\ntensor = 3\n"+
		"[machine]\ndevice = \"h100-80gb-sxm\"\n"), 0o600))
	if c, err = configs.Load("my.toml"); err == nil {
		_, err = c.Build()
	}
	require.ErrorContains(t, err, `: model.file = "config.json": num_attention_heads = 4: parallel.tensor`)
}
