// Command speed measures how fast psim simulates, in processes of their own, and prints
// docs/speed.md. With arguments it is one of these processes.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"psim/internal/units"
)

// A measured holds the resources that a process used for its work.
type measured struct {
	Tasks int
	CPU   time.Duration // user and system, all threads
	Kept  int64         // bytes on the heap after the work, including all of its results
	File  int64         // resident bytes that are pages of files: of its program
	Step  time.Duration // of the simulated step
	peak  int64         // resident bytes of the process
}

func main() {
	log.SetFlags(0)
	if len(os.Args) > 1 {
		if err := work(os.Args[1], os.Args[2]); err != nil {
			log.Fatal(err)
		}
		return
	}
	if err := document(); err != nil {
		log.Fatal(err)
	}
}

// cpu returns the time that this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		log.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// work does one case and prints the resources that it used.
func work(name, size string) error {
	m, keep, err := cases[name](size)
	if err != nil {
		return err
	}
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	m.Kept, m.File = int64(s.HeapAlloc), filePages()
	runtime.KeepAlive(keep)
	return json.NewEncoder(os.Stdout).Encode(m)
}

// filePages counts the resident bytes of this process that are pages of files. It is 0 if the
// system does not say.
func filePages() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(status), "RssFile:")
	var kilobytes int64
	if _, err := fmt.Sscan(after, &kilobytes); err != nil {
		return 0
	}
	return kilobytes << 10
}

// best runs a case several times, each in a process of its own, and keeps the least of each
// number.
func best(name, size string) (measured, error) {
	const times = 3
	var least measured
	for i := range times {
		c := exec.Command(os.Args[0], name, size)
		c.Stderr = os.Stderr
		out, err := c.Output()
		if err != nil {
			return least, fmt.Errorf("%s %s: %w", name, size, err)
		}
		var m measured
		if err := json.Unmarshal(out, &m); err != nil {
			return least, err
		}
		m.peak = resident(c.ProcessState)
		if i == 0 {
			least = m
		}
		least.CPU, least.Kept = min(least.CPU, m.CPU), min(least.Kept, m.Kept)
		least.peak = min(least.peak, m.peak)
	}
	return least, nil
}

// row prints a line of a table.
func row(label string, m measured) {
	n := float64(m.Tasks)
	kept := "–"
	if m.Kept > 0 {
		kept = fmt.Sprintf("%.0f B", float64(m.Kept)/n)
	}
	fmt.Printf("| %s | %s | %.0f ms | %.1f million | %s | %.0f B | %s |\n",
		label, thousands(m.Tasks), m.CPU.Seconds()*1e3,
		n/m.CPU.Seconds()/1e6, kept, float64(m.peak)/n, units.FormatBytes(m.peak))
}

// thousands prints a number in groups of three digits.
func thousands(n int) string {
	digits := fmt.Sprint(n)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}
