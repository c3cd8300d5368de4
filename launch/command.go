package launch

import (
	"fmt"
	"io"
	"strings"

	"psim/internal/units"
	"psim/launch/patches"
)

// words returns an argument as the words of a command line; nothing if it is off and has no flag that says so.
func (a Argument) words() (list []string) {
	p := megatron().byName[a.Name]
	if p == nil { // only Megatron-Bridge has it
		return nil
	}
	flag := ""
	for f, value := range p.flags { // of several that mean the same, the shortest
		if (value == "" || value == a.Value) && (flag == "" || len(f) < len(flag) || len(f) == len(flag) && f < flag) {
			flag = f
		}
	}
	switch {
	case flag == "":
		return nil
	case p.flags[flag] != "":
		return []string{flag}
	case p.list:
		return append([]string{flag}, strings.Fields(a.Value)...)
	}
	return []string{flag, a.Value}
}

// writeArray writes arguments as an array of bash, with as many on a line as fit.
func writeArray(b *strings.Builder, name string, list []Argument) {
	const width = 110
	line := name + "=("
	fmt.Fprint(b, line)
	at := len(line)
	for _, a := range list {
		var words []string
		for _, word := range a.words() {
			words = append(words, patches.Quoted(word))
		}
		text := strings.Join(words, " ")
		switch {
		case text == "":
			continue
		case at+len(text) > width:
			fmt.Fprint(b, "\n  ")
			at = 2
		case at > len(line) || !strings.HasSuffix(b.String(), "("):
			fmt.Fprint(b, " ")
			at++
		}
		fmt.Fprint(b, text)
		at += len(text)
	}
	fmt.Fprint(b, ")\n")
}

// WriteScript writes a launch script, below lines of comment, for devices on nodes of each. What is trained on is
// left to the user.
func (c *Command) WriteScript(w io.Writer, comment []string, devices, each int) error {
	var b strings.Builder
	b.WriteString("#!/bin/bash\n")
	for _, line := range comment {
		fmt.Fprintf(&b, "# %s\n", line)
	}
	fmt.Fprintf(&b, "# For pretrain_gpt.py of Megatron-LM as of %s, on %s.\n", megatronVersion,
		units.Plural(devices, "device"))
	b.WriteString("# Start it on every node, in the folder of Megatron-LM; MASTER_ADDR is the first node.\n" +
		"set -euo pipefail\n")
	if !c.has("use_megatron_fsdp") { // which refuses it
		b.WriteString("export CUDA_DEVICE_MAX_CONNECTIONS=1\n")
	}
	b.WriteString("\n# Yours: these are made-up tokens and a learning rate to try it with.\n" +
		"DATA=(--mock-data --tokenizer-type NullTokenizer --train-iters 50 --lr 1e-4 --eval-iters 0\n" +
		"  --log-interval 1 --log-throughput)\n\n")
	writeArray(&b, "MODEL", c.Model)
	writeArray(&b, "PLAN", c.Plan)
	writeArray(&b, "TRAINING", c.Training)
	fmt.Fprintf(&b, "\ntorchrun --nnodes %d --nproc-per-node %d --rdzv-backend c10d \\\n"+
		"  --rdzv-endpoint \"${MASTER_ADDR:-localhost}:${MASTER_PORT:-29500}\" pretrain_gpt.py \\\n"+
		"  \"${MODEL[@]}\" \"${PLAN[@]}\" \"${TRAINING[@]}\" \"${DATA[@]}\"\n",
		max(1, devices/each), min(devices, each))
	_, err := io.WriteString(w, b.String())
	return err
}

// has reports whether an argument is given.
func (c *Command) has(name string) bool {
	for _, a := range c.All() {
		if a.Name == name {
			return true
		}
	}
	return false
}
