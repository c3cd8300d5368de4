package ram

import (
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// spared is address space that a limit keeps from the heap: the runtime maps heaps in pieces of
// 64 MiB, with tables for them, and a stack for every thread.
const spared = 256 << 20

// A ulimit is a limit of a process, as the shell's ulimit sets it.
type ulimit struct {
	row   string // of proc/self/limits
	flag  string
	used  int   // the field of proc/self/statm that it counts
	least int64 // the limit in KiB with which every verb runs; below it, the runtime ends one or the other
}

func ulimits() []ulimit {
	return []ulimit{{"Max address space", "-v", 0, 2_500_000}, {"Max data size", "-d", 5, 500_000}}
}

// of returns the limit in bytes, and whether there is one.
func (u ulimit) of(limits []byte) (int64, bool) {
	for line := range strings.Lines(string(limits)) {
		if rest, ok := strings.CutPrefix(line, u.row); ok && len(strings.Fields(rest)) > 1 {
			limit, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return limit, err == nil // and not "unlimited"
		}
	}
	return 0, false
}

// limited returns the memory that the limits of this process leave free. A Go program maps more
// than a gigabyte of address space before it begins, so what is mapped counts and not what is used.
func limited(root fs.FS) Room {
	limits, _ := fs.ReadFile(root, "proc/self/limits") // Linux has it
	statm, _ := fs.ReadFile(root, "proc/self/statm")
	mapped, left := strings.Fields(string(statm)), Room{Free: unlimited}
	for _, u := range ulimits() {
		if limit, ok := u.of(limits); ok && u.used < len(mapped) {
			pages, _ := strconv.ParseInt(mapped[u.used], 10, 64)
			free := max(0, limit-pages*int64(os.Getpagesize())-spared)
			left = left.less(Room{Free: free, Ulimit: fmt.Sprintf("ulimit %s %d", u.flag, limit>>10)})
		}
	}
	return left
}

// Obey keeps the heap of a process with a limit below it, since the runtime ends a process that
// reaches its limit. It returns an error if the limit is too low for any work.
func Obey() error {
	if err := tooLow(os.DirFS("/")); err != nil {
		return err
	}
	if here := Here(); here.Ulimit != "" {
		debug.SetMemoryLimit(Heap() + int64(HeapShare*float64(here.Free)))
	}
	return nil
}

// tooLow refuses limits by themselves and not by what is free: that differs from run to run with the
// threads that have begun, so that of two equal commands one would be refused.
func tooLow(root fs.FS) error {
	limits, _ := fs.ReadFile(root, "proc/self/limits")
	for _, u := range ulimits() {
		if limit, ok := u.of(limits); ok && limit>>10 < u.least {
			return fmt.Errorf("ulimit %s %d leaves too little memory to begin with, for Go's runtime and its threads; "+
				"run ulimit %s %d or more, or unlimited", u.flag, limit>>10, u.flag, u.least)
		}
	}
	return nil
}
