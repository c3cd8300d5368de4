package launch_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBranches: loops over known words are gone through, of unknown conditions both branches are, and what they leave open
// is said by name.
func TestBranches(t *testing.T) {
	run := "python x.py " + least + " --micro-batch-size $MBS"
	for name, c := range map[string]struct {
		script string
		micro  any
		notes  []string
	}{
		"one value":      {"for MBS in 4; do " + run + "; done", 4, nil},
		"several":        {"for MBS in 1 2 4; do " + run + "; done", 4, []string{"a loop starts 3 trainings; that with MBS=4 is read"}},
		"same each time": {"MBS=2\nfor i in a b; do " + run + "; done", 2, []string{"2 commands start a training"}},
		"retries":        {"for MBS in 2 4; do " + run + " && break; done", 2, nil},
		"a list":         {"A=()\nfor m in 8; do A+=(--seed $m); done\nMBS=8\n" + run + " ${A[@]}", 8, nil},
		"nested":         {"for x in 1 2; do for MBS in 2; do :; done; done\n" + run, 2, nil},
		"unknown words":  {"MBS=2\nfor h in $(scontrol show hostnames); do MBS=4; done\n" + run, 2, []string{"a loop is left out"}},
		"goes on":        {"MBS=2\nfor m in 4 8; do test $m && continue; MBS=$m; done\n" + run, 2, []string{"a loop is left out"}},

		"does not matter": {"MBS=2\nif nvidia-smi; then echo yes; else echo no; fi\n" + run, 2, nil},
		"equal":           {"if nvidia-smi; then MBS=2; else MBS=2; fi\n" + run, 2, nil},
		"differs":         {"if nvidia-smi; then MBS=2; else MBS=4; fi\n" + run, 4, []string{"whether nvidia-smi is not known: it is taken as false; true would set MBS otherwise"}},
		"none":            {"MBS=1\nif nvidia-smi; then MBS=2; fi\n" + run, 1, []string{"true would set MBS otherwise"}},
		"cannot":          {"MBS=2\nif nvidia-smi; then X=${Y:?is not set}; fi\n" + run, 2, nil},
		"ends":            {"MBS=2\nif nvidia-smi; then exit 1; fi\n" + run, 2, nil},
		"else ends":       {"if nvidia-smi; then MBS=4; else exit 1; fi\n" + run, 4, nil},
		"starts":          {"MBS=2\nif nvidia-smi; then " + run + "; fi", 2, []string{"the training that it would start is read"}},
		"starts both":     {"MBS=2\nif nvidia-smi; then " + run + " --seed 1; else " + run + "; fi", 2, []string{"the training that else starts is read"}},
		"appended":        {"MBS=2\nA=(--seed 1 --lr 2)\nif nvidia-smi; then A+=(--bf16); else A+=(--fp16); fi\n" + run + " ${A[@]}", 2, []string{"true would set A otherwise"}},
		"elif":            {"if nvidia-smi; then MBS=2; elif false; then MBS=3; else MBS=2; fi\n" + run, 2, nil},
	} {
		i, err := scripted(strings.Split(c.script, "\n")...)
		require.NoError(t, err, name)
		require.Equal(t, c.micro, i.Config["batch"].(map[string]any)["micro"], name)
		said := fmt.Sprint(i.Ignored)
		for _, note := range c.notes {
			require.Contains(t, said, note, name)
		}
		if c.notes == nil {
			require.NotContains(t, said, "is not known", name)
			require.NotContains(t, said, "loop", name)
		}
		if name == "appended" {
			require.Equal(t, "fp16", i.Config["train"].(map[string]any)["precision"])
		}
	}
	deep := "f0() { :; }\n"
	for n := range 12 {
		deep += fmt.Sprintf("f%d() { if nvidia-smi; then f%d; f%[2]d; else f%[2]d; fi; }\n", n+1, n)
	}
	_, err := scripted(strings.Split(deep+"f12\nMBS=2\n"+run, "\n")...)
	require.NoError(t, err, "what grows with every level is bounded")
}
