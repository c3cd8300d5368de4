package configs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
)

// A fingerprint follows from what is given, not from where or in which order, and
// from the files that are named.
func TestFingerprint(t *testing.T) {
	base := parse(t, networkKeys)
	same, err := base.With("schedule.microbatches=16", "schedule.stages=2")
	require.NoError(t, err)
	again, err := base.With("schedule.stages=2", "schedule.microbatches=4", "schedule.microbatches=16")
	require.NoError(t, err)
	require.Equal(t, same.Fingerprint(), again.Fingerprint())
	require.Len(t, base.Fingerprint(), 32)
	require.NotEqual(t, base.Fingerprint(), same.Fingerprint())
	require.Equal(t, base.Fingerprint(), parse(t, "# of a comment\n"+networkKeys).Fingerprint())

	folder := t.TempDir()
	path := filepath.Join(folder, "m.toml")
	write := func(text string) string {
		require.NoError(t, os.WriteFile(path, []byte("[machine]\n"+text), 0o600))
		c, err := base.With("machine.file=" + path)
		require.NoError(t, err)
		return c.Fingerprint()
	}
	before := write("device = \"a100-80gb-sxm\"\n")
	require.Equal(t, before, write("device = \"a100-80gb-sxm\"\n"))
	require.NotEqual(t, before, write("device = \"h100-80gb-sxm\"\n"))
	require.NoError(t, os.Remove(path))
	gone, err := base.With("machine.file=" + path)
	require.NoError(t, err)
	require.NotEqual(t, before, gone.Fingerprint())
}

func TestSplitValues(t *testing.T) {
	for list, want := range map[string][]string{
		"1,2, 4":              {"1", "2", "4"},
		"[1,2],[2,1]":         {"[1,2]", "[2,1]"},
		`"a,b",'c,"d',e`:      {`"a,b"`, `'c,"d'`, "e"},
		`"a\",b",c`:           {`"a\",b"`, "c"},
		`[["1s","2s"],{a=1}]`: {`[["1s","2s"],{a=1}]`},
		"none":                {"none"},
	} {
		got, err := configs.SplitValues(list)
		require.NoError(t, err, list)
		require.Equal(t, want, got)
	}
	for list, problem := range map[string]string{
		"1,,2": "value 2 is empty", "": "value 1 is empty", "1,2,": "value 3 is empty", "1,2,1": "1 appears twice",
		"[1,2": "brackets do not match", "1]": "brackets do not match",
		`"a,b`: `the quote " at character 1 is not closed`,
	} {
		_, err := configs.SplitValues(list)
		require.EqualError(t, err, problem, list)
	}
}

// What no experiment can have is told from what does not fit together.
func TestCheckSet(t *testing.T) {
	for set, problem := range map[string]string{
		"schedule.stages=x":        "must be an integer",
		"schedule.stages=0":        "must be at least 1",
		"schedule.stage=2":         "unknown key",
		"schedule.name=1f2b":       "unknown schedule",
		"machine.device=a100":      "not in the catalog",
		"train.precision=fp7":      "must be one of",
		"schedule.partition=[0,1]": "not a number of layers",
		"stages=2":                 "must be KEY=VALUE",
	} {
		require.ErrorContains(t, configs.CheckSet(set), problem, set)
	}
	for _, set := range []string{"schedule.stages=99", "parallel.zero=3", "machine.device=a100-80gb-sxm", "schedule.name=auto", "times.forward=1s", "machine.file=nowhere.toml"} {
		require.NoError(t, configs.CheckSet(set), set)
	}
}

// What is kept of an experiment is that experiment, wherever its files are.
func TestKept(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	write("mine.toml", "[machine]\ndevice = \"a100-80gb-sxm\"\ndevices_per_node = 8\n")
	config := write("config.json", `{"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 256, "max_position_embeddings": 128}`)
	beside := write("beside.toml", "[schedule]\nname = \"1f1b\"\nstages = 2\nmicrobatches = 4\n[model]\nfile = \"config.json\"\n[batch]\nmicro = 1\n[machine]\nfile = \"mine.toml\"\n")
	kept, objects := map[string]configs.Kept{}, map[string]string{}
	load := func(name string, on configs.Target, sets ...string) {
		c, err := configs.LoadOn(name, on, sets...)
		require.NoError(t, err, name)
		k, err := c.Keep([]string{"machine.devices_per_node=4"})
		require.NoError(t, err, name)
		text, err := json.Marshal(k)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &k))
		kept[name], objects[name] = k, c.Fingerprint()+fmt.Sprint(c.Object())
	}
	for _, name := range []string{"gpipe", "megatron-175b", "plans/deepseek-v3", "llama3-70b", "exec-mlp"} {
		load(name, configs.Target{}, "batch.global=256")
	}
	load("model:llama3-8b", configs.Target{Device: "h100-80gb-sxm", Devices: 8, DevicesPerNode: 8})
	load(config, configs.Target{Device: "v100-32gb-sxm", Devices: 2}, "train.optimizer=adamw")
	load(beside, configs.Target{}, "schedule.microbatches=8")
	require.NoError(t, os.RemoveAll(folder))
	for name, k := range kept {
		c, err := k.Config()
		require.NoError(t, err, name)
		require.Equal(t, objects[name], c.Fingerprint()+fmt.Sprint(c.Object()), name)
	}
	k := kept[beside]
	require.Len(t, k.Files, 2)
	delete(k.Files, "config.json")
	c, err := k.Config()
	require.NoError(t, err)
	_, err = c.ReadModel()
	require.ErrorContains(t, err, "config.json\": file does not exist")
}
