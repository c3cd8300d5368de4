package configs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
)

// What is no TOML is told in words of a configuration, with what would be right.
func TestSyntaxErrors(t *testing.T) {
	for text, want := range map[string]string{
		"[schedule]\nname = gpipe\n":                                  "2:8: gpipe needs quotes; write name = \"gpipe\"",
		"[times]\nforward = 10ms # fast\n":                            "2:13: 10ms needs quotes; write forward = \"10ms\"",
		"[machine.link]\nbandwidth = 25GB/s\n":                        "2:15: 25GB/s needs quotes; write bandwidth = \"25GB/s\"",
		"[schedule]\nname = \"gpipe\nstages = 4\n":                    "2:14: the text has no closing quote; write name = \"…\"",
		"[schedule]\nname = 'gpipe\n":                                 "2:14: the text has no closing quote; write name = \"…\"",
		"[schedule]\nname =\nstages = 4\n":                            "2:7: name has no value; write it after the =, or remove the line",
		"[train]\nclip = True\n":                                      "2:8: write clip = true, in lower case",
		"[schedule]\nstages = 4,\n":                                   "2:11: only a comment may follow a value; write every key on a line of its own",
		"[schedule]\nname = \"gpipe\" stages = 4\n":                   "2:15: only a comment may follow a value; write every key on a line of its own",
		"[times]\nforward = [\"1s\", \"2s\"\nbackward = \"1s\"\n":     "3:23: a list needs commas between its values, quotes around texts and quantities, and a ] at its end",
		"[model]\nlayers = {a = 1\n":                                  "2:16: a table in one line needs commas between its keys, and a } at its end",
		"[schedule\nname = \"gpipe\"\n":                               "2:10: a section's name ends with a bracket; write [schedule]",
		"[schedule]\nname: \"gpipe\"\n":                               "2:5: a key is followed by =, not by a colon; write key = value, and a section as [schedule]",
		"schedule:\n  name: gpipe\n":                                  "1:9: a key is followed by =, not by a colon; write key = value, and a section as [schedule]",
		"[schedule]\nname \"gpipe\"\n":                                "2:6: a key, without spaces, is followed by =; write key = value",
		"[schedule]\n = 4\n":                                          "2:2: there is no key before the =",
		"[schedule]\nfile = \"C:\\new\\queue.csv\"\n":                 "2:9: a \\ in double quotes begins an escape; write a path with /, or in single quotes",
		"[machine]\nmemory_margin = .5\n":                             "2:17: a number needs a digit before its point; write 0.5",
		"[schedule]\nstages = 04\n":                                   "2:10: 04 begins with 0; write the number without",
		"[schedule]\nname = \"gpipe\"\n name = \"1f1b\"\n":            "3:2: schedule.name is set twice, first in line 2; remove one",
		"schedule.name = \"gpipe\"\nschedule.name = \"1f1b\"\n":       "2:1: schedule.name is set twice, first in line 1; remove one",
		"[schedule]\nname = \"gpipe\"\n\n[schedule]\nstages = 2\n":    "4:2: [schedule] is given twice, first in line 1; write its keys in one place",
		"[machine]\n[[machine]]\n":                                    "2:1: machine is one section, not a list; write [machine] instead of [[machine]]",
		"[schedule]\nstages = 2026-13-01\n":                           "2:10: invalid datetime: \"2026-13-01\"",
		"model = {layers = 4, layers = 5}\nschedule.name = \"ddp\"\n": "1:22: model.layers is set twice; remove one",
	} {
		_, err := configs.Parse("x.toml", []byte(text))
		require.EqualError(t, err, "x.toml:"+want, text)
	}
}
