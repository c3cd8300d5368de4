package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
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
and the least counts. "Before" is commit a8930e90, on a machine that is faster: what takes one second there
took 1.25 to 1.5 here.

| work | CPU before | now | memory before | now | command |
|---|--:|--:|--:|--:|---|
`

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
	fmt.Printf(headRows, processor(), runtime.NumCPU(), short)
	for _, row := range rows[1:] {
		work, command, beforeCPU, beforeMemory := row[0], row[1], row[2], row[3]
		now, memory := "failed", "–"
		if m, err := leastOfRow(program, command); err != nil {
			log.Printf("%s: %v", work, err)
		} else {
			now, memory = fmt.Sprintf("%.3g s", m.CPU.Seconds()), units.FormatBytes(m.peak)
		}
		if beforeCPU != "" {
			beforeCPU += " s"
		}
		fmt.Printf("| %s | %s | %s | %s | %s | `%s` |\n", work, beforeCPU, now, beforeMemory, memory, command)
	}
	return nil
}

// leastOfRow runs the commands of a row, several times if they are short.
func leastOfRow(program, commands string) (measured, error) {
	least, err := runRow(program, commands)
	for n := 1; err == nil && n < 3 && least.CPU < short; n++ {
		var m measured
		m, err = runRow(program, commands)
		least.CPU, least.peak = min(least.CPU, m.CPU), min(least.peak, m.peak)
	}
	return least, err
}

// runRow runs commands that are joined by &&, adds up their times, and keeps the most memory.
func runRow(program, commands string) (m measured, err error) {
	folder, err := os.MkdirTemp("", "psim-speed-")
	if err != nil {
		return m, err
	}
	defer os.RemoveAll(folder)
	for command := range strings.SplitSeq(commands, " && ") {
		env, args, _ := strings.Cut(command, "psim ")
		c := exec.Command(program, strings.Fields(strings.ReplaceAll(args, "DIR", folder))...)
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
