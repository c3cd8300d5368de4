package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"psim/internal/units"
)

const head = `# Speed

This page is the output of ` + "`make speed`" + `, which measures psim on this machine (%d cores, %s):
every row is a process of its own, run three times, and the least counts. Times are
those of the CPU, user and system, over all threads, the garbage collector's among them.

## The engine

1F1B over 64 ranks with messages, from order to statistics. Pictures and files need the microbatch
of every task, and critical paths need causes: these are the rows "named". The rows "brief" are without
(Pipeline.Brief, Engine.NoCauses), as ` + "`psim run --json`, `psim sweep` and `psim search`" + ` need
it: the same numbers to the nanosecond and the byte. "Kept" is the memory in use on the heap
after the statistics, including the order; "resident" is the most memory that the process ever had.

| tasks | number | CPU | tasks a second | kept a task | resident a task | resident |
|---|--:|--:|--:|--:|--:|--:|
`

// document prints the page.
func document() error {
	fmt.Printf(head, runtime.NumCPU(), runtime.Version())
	for _, of := range []struct {
		name, label string
		sizes       []string
	}{
		{"named", "named", []string{"512", "1024", "4096", "16384", "40960"}},
		{"brief", "brief", []string{"512", "1024", "4096", "16384", "40960", "161500"}},
	} {
		for _, size := range of.sizes {
			m, err := best(of.name, size)
			if err != nil {
				return err
			}
			row(of.label, m)
		}
	}
	if err := simgrid("1024"); err != nil {
		return err
	}
	smallest, err := best("brief", "1")
	if err != nil {
		return err
	}
	fmt.Printf("\nA process that simulates next to nothing is resident with %s, "+
		"of which %s are pages of its program's file.\n",
		units.FormatBytes(smallest.peak), units.FormatBytes(smallest.File))
	if err := documentProgram(); err != nil {
		return err
	}
	return document1T()
}

// simgrid prints the row of SimGrid, or why it is missing.
func simgrid(microbatches string) error {
	folder, err := os.MkdirTemp("", "psim-speed-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	const source = "tools/speed/simgrid/"
	program := filepath.Join(folder, "pipeline")
	compile := exec.Command("cc", "-O2", "-o", program, source+"pipeline.c", "-lsimgrid")
	if out, err := compile.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%s", out)
		fmt.Print("\nSimGrid is not installed here (Debian's libsimgrid-dev and a C compiler), " +
			"so its row is missing.\n")
		return nil
	}
	ours, err := best("brief", microbatches)
	if err != nil {
		return err
	}
	m, err := least(func(out []byte) (tasks int, err error) {
		if got, want := strings.TrimSpace(string(out)), fmt.Sprintf("%.3f", ours.Step.Seconds()); got != want {
			err = fmt.Errorf("SimGrid's step takes %s s, psim's %s", got, want)
		}
		return ours.Tasks, err
	}, program, source+"platform.xml", fmt.Sprint(ranks), microbatches)
	if err != nil {
		return err
	}
	row("SimGrid, an actor a rank, whole process", m)
	fmt.Println("\nSimGrid's actors sleep while they compute and send empty messages; " +
		"its step takes as long as psim's, to the millisecond.")
	return nil
}

const head1T = `
## A whole prediction

Megatron's 1T on 3,072 GPUs (tools/speed/megatron-1t.toml): 64 stages of 2 chunks, 6
replicas of 512 microbatches. CPU is the whole process's, with its start, reading the
configuration, pricing the layers and all that result.json says. In nodes of 8 devices
the replicas do the same at the same time, and one is simulated for all. Nodes of 24 devices
hold ranks of two replicas, which share their network cards, so all 6 are simulated.

| prediction | tasks | CPU | tasks a second | kept a task | resident a task | resident |
|---|--:|--:|--:|--:|--:|--:|
`

// document1T prints the second table.
func document1T() error {
	fmt.Print(head1T)
	for _, of := range []struct{ name, label, nodes string }{
		{"trace", "with a trace of every task", "8"},
		{"trace", "with a trace of every task, nodes of 24", "24"},
		{"step", "statistics, one replica for all", "8"},
		{"step", "statistics, every replica: nodes of 24", "24"},
	} {
		m, err := best(of.name, of.nodes)
		if err != nil {
			return err
		}
		row(of.label, m)
	}
	return nil
}
