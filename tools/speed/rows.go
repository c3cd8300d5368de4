package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"psim/internal/units"
)

const headRows = `
## What a user waits for

Whole processes of psim, from start to end, on this machine: %s, %d cores.
DIR is an empty folder. CPU is user and system time of all threads, and of all commands where there are
several; memory is the most that one process ever had. What takes less than %v is run three times,
and the least counts. "Before" is commit a8930e90, %s.

| work | CPU before | now | memory before | now | command |
|---|--:|--:|--:|--:|---|
`

// beforeVariable is the variable of the environment for a folder with an older commit and its program psim, which then
// runs every row, too. Without it the table copies rows.csv, whose machine was another one.
const beforeVariable = "BEFORE"

// Commands that take less time are run several times.
const short = 2 * time.Second

// rowLimit ends a command that hangs.
const rowLimit = 5 * time.Minute

// documentRows prints the table of rows.csv. A row whose command fails says so.
func documentRows(program string) error {
	file, err := os.Open("tools/speed/rows.csv")
	if err != nil {
		return err
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		return err
	}
	tree := os.Getenv(beforeVariable)
	where := "on a machine that is faster: what takes one second there\ntook 1.25 to 1.5 here"
	if tree != "" {
		where = "measured here as well, row by row"
	}
	fmt.Printf(headRows, processor(), runtime.NumCPU(), short, where)
	for _, row := range rows[1:] {
		work, command, beforeCPU, beforeMemory := row[0], row[1], row[2], row[3]
		now, memory := cells(work, runner{program: program}, command)
		if tree != "" {
			beforeCPU, beforeMemory = cells(work, runner{filepath.Join(tree, "psim"), tree}, command)
		} else if beforeCPU != "" {
			beforeCPU += " s"
		}
		fmt.Printf("| %s | %s | %s | %s | %s | `%s` |\n", work, beforeCPU, now, beforeMemory, memory, command)
	}
	return nil
}

// A runner runs a program in a folder, "" for this one.
type runner struct{ program, folder string }

// cells returns the time and the memory of a row as the table has them.
func cells(work string, r runner, commands string) (cpu, memory string) {
	m, err := r.least(commands)
	if err != nil {
		log.Printf("%s: %v", work, err)
		return "failed", "–"
	}
	return fmt.Sprintf("%.3g s", m.CPU.Seconds()), units.FormatBytes(m.peak)
}

// least runs the commands of a row, several times if they are short.
func (r runner) least(commands string) (measured, error) {
	least, err := r.run(commands)
	for n := 1; err == nil && n < 3 && least.CPU < short; n++ {
		var m measured
		m, err = r.run(commands)
		least.CPU, least.peak = min(least.CPU, m.CPU), min(least.peak, m.peak)
	}
	return least, err
}

// run runs commands that are joined by &&, adds up their times, and keeps the most memory.
func (r runner) run(commands string) (m measured, err error) {
	folder, err := os.MkdirTemp("", "psim-speed-")
	if err != nil {
		return m, err
	}
	defer os.RemoveAll(folder)
	ours, err := filepath.Abs("tools/speed")
	if err != nil {
		return m, err
	}
	commands = strings.ReplaceAll(commands, "tools/speed", ours) // an older tree has no such files
	for command := range strings.SplitSeq(commands, " && ") {
		env, args, _ := strings.Cut(command, "psim ")
		c := exec.Command(r.program, strings.Fields(strings.ReplaceAll(args, "DIR", folder))...)
		c.Dir = r.folder
		c.Env = append(os.Environ(), strings.Fields(env)...)
		if err := c.Start(); err != nil {
			return m, err
		}
		timer := time.AfterFunc(rowLimit, func() { _ = c.Process.Kill() })
		err := c.Wait()
		timer.Stop()
		var exit *exec.ExitError
		// With 1 psim says that nothing fits, which takes as long.
		if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1) {
			return m, fmt.Errorf("%s: %w", command, err)
		}
		m.CPU += c.ProcessState.UserTime() + c.ProcessState.SystemTime()
		m.peak = max(m.peak, resident(c.ProcessState))
	}
	return m, nil
}

// processor names the processor of this machine.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if _, after, ok := strings.Cut(string(text), "model name"); err == nil && ok {
		line, _, _ := strings.Cut(after, "\n")
		if name := strings.Trim(line, "\t :"); name != "" {
			return name
		}
	}
	return runtime.GOARCH
}
