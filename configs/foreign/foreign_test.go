package foreign_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"psim/configs/foreign"
)

// Every kind of file that people name instead of a configuration is called what it is.
func TestKinds(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"timeline.png", "\x89PNG\r\n\x1a\n\x00", "is a picture; "},
		{"photo.jpg", "\xff\xd8\xff\xe0\x00", "is a picture; "},
		{"timeline.svg", "<?xml version=\"1.0\"?>\n<svg width=\"1\">", "is a picture; "},
		{"page.html", "<!doctype html>\n", "is XML or HTML; "},
		{"trace.json.gz", "\x1f\x8b\x08\x00", "is compressed; "},
		{"model0_gradients.pth", "PK\x03\x04\x00", "is an archive; "},
		{"psim", "\x7fELF\x00", "is not a text file; "},
		{"utf16.toml", "\xff\xfe[\x00", "is text in UTF-16; "},
		{"result.json", `{"schema": 1, "kind": "measured", "stages": 4}`, "is a result that holds no configuration; "},
		{"plans.json", `{"schema": 1, "plans": []}`, "holds the plans of a search; "},
		{"sweep.jsonl", "{\"index\": 0, \"set\": []}\n{\"index\": 1, \"set\": []}\n", "holds the points of a sweep, which psim plot sweep reads; "},
		{"ds_config.json", `{"zero_optimization": {"stage": 3}}`, "is JSON; a configuration is TOML"},
		{"half.json", `{"zero_optimization": {"sta`, "begins as JSON does, and is damaged; "},
		{"eager.csv", "0F0,0F1,0B0,0B1\n1F0,1B0\n", `is an order of actions, not a configuration; a configuration names it: write schedule.file = "eager.csv"`},
		{"order.txt", "\n(0F3;3B1)OVERLAP_F_B,0SEND_F3\n", `is an order of actions, not a configuration; a configuration names it: write schedule.file = "order.txt"`},
		{"trace.csv", "rank,stream,kind,stage,microbatch,start_ns\n0,compute,F,0,0,0\n", "is a trace that psim wrote; "},
		{"memory.csv", "rank,time_ns,bytes\n0,0,0\n", "is a table, not a configuration; "},
		{"run.sh", "torchrun train.py\n", "is a script; psim import makes "},
		{"launch", "#!/usr/bin/env bash\nsrun train\n", "is a script; psim import makes "},
		{"train.py", "import torch\n", "is a program, not a configuration; "},
		{"accelerate.yaml", "distributed_type: FSDP\n", "is YAML; a configuration is TOML"},
		{"slurm-7.out", "step 1: loss 10.97\n", "is a log; psim import makes "},
		{"notes.txt", "Dear all,\n", `is not a configuration, which is TOML: it begins with "Dear all,"; `},
		{"my.toml", "[schedule]\nname = gpipe\n", ""},
		{"my.toml", "schedule name gpipe\n", ""},
		{"experiment", "# mine\n[schedule] # first\nname = gpipe\n", ""},
	} {
		got := foreign.Certain([]byte(c.text))
		if got == "" {
			got = foreign.Likely(c.name, c.text)
		}
		require.Equal(t, c.want == "", got == "", "%s: %s", c.name, got)
		require.True(t, strings.HasPrefix(got, c.want), "%s: %s", c.name, got)
		require.NotContains(t, got, "\n")
	}
}

func TestFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"run/result.json", "search/plans.json", "sweep/sweep.jsonl", "llama/config.json", "mine/a.toml"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		require.NoError(t, os.WriteFile(name, nil, 0o600))
	}
	for folder, want := range map[string]string{
		"run": "is a folder of results ", "search": "is a folder of results ", "sweep": "is a folder of results ",
		"mine": "is a directory; name a .toml file in it",
	} {
		require.True(t, strings.HasPrefix(foreign.Folder(folder), want), foreign.Folder(folder))
		require.False(t, foreign.ModelFolder(folder))
	}
	require.True(t, foreign.ModelFolder("llama"))
	require.NoError(t, os.WriteFile("run/config.json", nil, 0o600))
	require.False(t, foreign.ModelFolder("run"), "a folder of results")
}

// Whatever a file holds, the answer is one line.
func FuzzKinds(f *testing.F) {
	f.Add("x.csv", []byte("0F0,0B0\n"))
	f.Add("config.json", []byte(`{"model_type": "llama", "rope_theta": Infinity}`))
	f.Add("a\nb", []byte("{}{"))
	f.Add("x", []byte("[a]\n"))
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		foreign.Network(data)
		if got := foreign.Certain(data); got != "" {
			require.NotContains(t, got, "\n")
		}
		if got := foreign.Likely("x.txt", string(data)); got != "" && utf8.Valid(data) {
			require.NotContains(t, got, "\n")
		}
		foreign.Likely(name, string(data))
	})
}
