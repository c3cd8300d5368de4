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
		"goes on":        {"MBS=2\nfor m in 4 8; do test $m && continue; MBS=$m; done\n" + run, 2, nil},

		"joined":          {"MBS=1\n[ 1 = 2 ] && MBS=5\n[ 1 = 1 ] || MBS=5\nfalse && MBS=5\n" + run, 1, nil},
		"joined thrice":   {"[ 1 = 2 ] && MBS=5 || MBS=3\ntrue && [ 1 = 1 ] && MBS=2\n" + run, 2, nil},
		"joined, unknown": {"MBS=2\n[ -f /etc/x ] && MBS=4\n" + run, 2, []string{"true would set MBS otherwise"}},
		"or ends":         {"MBS=2\ncd x || exit 1\n[ -f x ] || exit 1\n" + run, 2, nil},
		"subshell":        {"MBS=1\n( MBS=5 )\ntrue | MBS=5\n" + run, 1, nil},
		"local":           {"MBS=1\nf(){ local MBS=5; }\nf\n" + run, 1, nil},
		"unset":           {"MBS=1\nunset MBS\nMBS=${MBS:-3}\n" + run, 3, nil},
		"arithmetic":      {"MBS=1\nfor i in 2 3; do ((MBS+=i)); done\n" + run, 6, nil},
		"until":           {"MBS=1\nuntil [ $MBS -ge 4 ]; do ((MBS++)); done\n" + run, 4, nil},
		"while":           {"MBS=1\nwhile (( MBS < 8 )); do MBS=$((MBS*2)); done\n" + run, 8, nil},
		"let":             {"MBS=1\nwhile [[ $MBS -lt 3 ]]; do let MBS++; done\n" + run, 3, nil},
		"counted":         {"MBS=0\nfor ((i=0; i<3; i++)); do MBS=$((MBS+i)); done\n" + run, 3, nil},
		"counted, broken": {"MBS=0\nfor ((;;)); do ((MBS++)); (( MBS == 5 )) && break; done\n" + run, 5, nil},
		"retried":         {"MBS=2\nwhile true; do " + run + "; sleep 5; done", 2, nil},
		"until it ends":   {"MBS=2\nuntil " + run + "; do sleep 5; done", 2, nil},
		"read":            {"MBS=2\nwhile read h; do MBS=4; done < hosts\n" + run, 2, []string{"whether read h is not known: it is taken as false; true would set MBS otherwise"}},
		"read, starts":    {"MBS=2\nwhile read h; do " + run + "; done < hosts", 2, []string{"whether read h is not known: the training that it would start is read"}},
		"waits":           {"MBS=2\nwhile ! nc -z h 1; do sleep 1; done\n" + run, 2, nil},
		"endless":         {"MBS=2\nn=0\nwhile true; do n=$((n+1)); done\n" + run, 2, []string{"a loop is left out"}},
		"arguments":       {"f(){ while [[ $# -gt 0 ]]; do case $1 in -b) MBS=$2; shift 2;; *) shift;; esac; done; }\nf -x -b 4\n" + run, 4, nil},
		"case":            {"case /data/llama/x in *gpt*) MBS=1;; *llama*) MBS=2;; esac\n" + run, 2, nil},
		"case, not":       {"MBS=1\ncase b in [!a]) MBS=2;; esac\n[[ a/b == a* ]] && MBS=$((MBS*2))\n" + run, 4, nil},
		"case, on":        {"case a in a) MBS=1;;& b) MBS=3;; *) MBS=2;; esac\n" + run, 2, nil},
		"case, through":   {"case a in a) MBS=1;& b) MBS=3;; *) MBS=2;; esac\n" + run, 3, nil},
		"break 2":         {"MBS=0\nfor a in 1 2; do for b in 1 2; do MBS=$((MBS+4)); break 2; done; done\n" + run, 4, nil},
		"continue 2":      {"MBS=0\nfor a in 1 2; do for b in 1 2; do MBS=$((MBS+4)); continue 2; done; MBS=9; done\n" + run, 8, nil},
		"list of if":      {"MBS=4\nif MBS=8; [ 1 = 1 ]; then :; fi\n" + run, 8, nil},
		"set":             {"set 4 256\nMBS=$1\n" + run, 4, nil},
		"set -e":          {"MBS=2\nset -e\nset +x\n" + run, 2, nil},
		"function, not":   {"f(){ MBS=4; }\nif nvidia-smi; then f(){ MBS=8; }; fi\n(f(){ MBS=9; })\nf\n" + run, 4, nil},
		"pairs":           {"declare -A m\ni=0\nwhile [ $i -lt 2 ]; do m[a]=$i; ((i++)); done\nMBS=$((m[a]+1))\n" + run, 2, nil},
		"none to shift":   {"MBS=2\nshift\nshift 3\n" + run, 2, nil},
		"asks":            {"MBS=2\nif [ $(nvidia-smi -L | wc -l) -gt 4 ]; then MBS=4; fi\n" + run, 2, []string{"is taken as false; true would set MBS otherwise"}},
		"asks in a loop":  {"MBS=2\nwhile [ $(squeue | wc -l) -gt 4 ]; do MBS=4; done\n" + run, 2, []string{"a loop is left out"}},
		"break, not":      {"MBS=1\nfor i in 2 3 5; do if false; then break; fi; MBS=$i; done\n" + run, 5, nil},
		"break":           {"MBS=1\nfor i in 2 3 5; do [ $i = 5 ] && break; MBS=$i; done\n" + run, 3, nil},
		"inner break":     {"MBS=1\nfor i in 2 3 5; do for j in 1; do break; done; MBS=$i; done\n" + run, 5, nil},
		"return":          {"MBS=1\nf(){ for i in 2 3 5; do MBS=$i; [ $i = 3 ] && return; done; }\nf\n" + run, 3, nil},
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

// TestTooLong: words that would fill the memory are refused before they are made.
func TestTooLong(t *testing.T) {
	x := "X=" + strings.Repeat("a", 100_000)
	for _, line := range []string{
		"Y=${X//a/" + strings.Repeat("b", 100_000) + "}", `echo "` + strings.Repeat("$X", 200_000) + `"`,
		"A=(" + strings.Repeat("$X ", 200_000) + ")",
	} {
		_, err := scripted(x, line, "torchrun pretrain_gpt.py --num-layers 2")
		require.ErrorContains(t, err, "longer than", line[:9])
	}
}

// TestManyCalls: functions that call two others each are not called without end.
func TestManyCalls(t *testing.T) {
	lines := []string{"f0(){ :; }"}
	for n := range 13 {
		lines = append(lines, fmt.Sprintf("f%d(){ f%d; f%[2]d; f%[2]d; }", n+1, n))
	}
	_, err := scripted(append(lines, "f13", "python x.py "+least)...)
	require.ErrorContains(t, err, "functions are called more than 10000 times")
}
