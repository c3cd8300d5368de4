package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

const headProgram = `
## The program

` + "`psim run --json`" + ` of the same graphs (tools/speed/1f1b.toml), from the start of the process to
the last byte of its result. Besides the graph there are pages of a program that also draws and
trains. From about %s tasks on, the process takes at most %d B a task.

| process | tasks | CPU | tasks a second | kept a task | resident a task | resident |
|---|--:|--:|--:|--:|--:|--:|
`

// documentProgram prints the table of whole processes of psim.
func documentProgram() error {
	folder, err := os.MkdirTemp("", "psim-speed-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	program := filepath.Join(folder, "psim")
	build := exec.Command("go", "build", "-o", program, "./cmd/psim")
	build.Env = append(os.Environ(), "GOEXPERIMENT=simd") // as README.md installs it
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", build.Args, err, out)
	}
	var rows []measured
	for _, microbatches := range []string{"512", "1024", "4096", "16384"} {
		m, err := least(func(out []byte) (tasks int, err error) {
			var result struct {
				Tasks int `json:"tasks"`
			}
			err = json.Unmarshal(out, &result)
			return result.Tasks, err
		}, program, "run", "tools/speed/1f1b.toml", "--json", "--set", "schedule.microbatches="+microbatches)
		if err != nil {
			return err
		}
		rows = append(rows, m)
	}
	const most = 96 // bytes a task
	fmt.Printf(headProgram, thousands(from(rows[0], rows[1], most)), most)
	for _, m := range rows {
		row("psim run --json", m)
	}
	return documentRows(program)
}

// from finds the number of tasks from which a process takes at most a number of bytes per
// task, on the line through two measurements. It is rounded up to ten thousands.
func from(a, b measured, most float64) int {
	task := float64(b.peak-a.peak) / float64(b.Tasks-a.Tasks)
	start := float64(a.peak) - task*float64(a.Tasks)
	return int(math.Ceil(start/(most-task)/1e4) * 1e4)
}

// least runs a command three times and keeps the least time and memory. It checks the output
// and takes the number of tasks from it.
func least(check func(out []byte) (tasks int, err error), command ...string) (m measured, err error) {
	m.CPU, m.peak = math.MaxInt64, math.MaxInt64
	for range 3 {
		c := exec.Command(command[0], command[1:]...)
		c.Stderr = os.Stderr
		out, err := c.Output()
		if err != nil {
			return m, fmt.Errorf("%v: %w", command, err)
		}
		if m.Tasks, err = check(out); err != nil {
			return m, err
		}
		used := c.ProcessState.UserTime() + c.ProcessState.SystemTime()
		m.CPU, m.peak = min(m.CPU, used), min(m.peak, resident(c.ProcessState))
	}
	return m, nil
}

// resident returns the most bytes of memory that a process has had.
func resident(s *os.ProcessState) int64 { return s.SysUsage().(*syscall.Rusage).Maxrss << 10 }
