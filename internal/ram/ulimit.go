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

// least is the memory in addition to spared that any command needs, and advised a limit in KiB that
// leaves some for a graph.
const (
	least   = 64 << 20
	advised = 4_000_000
)

// A ulimit is a limit of a process, as the shell's ulimit sets it.
type ulimit struct {
	row  string // of proc/self/limits
	flag string
	used int // the field of proc/self/statm that it counts
}

func ulimits() []ulimit { return []ulimit{{"Max address space", "-v", 0}, {"Max data size", "-d", 5}} }

// limited returns the memory that the limits of this process leave free. A Go program maps more
// than a gigabyte of address space before it begins, so what is mapped counts and not what is used.
func limited(root fs.FS) Room {
	limits, _ := fs.ReadFile(root, "proc/self/limits") // Linux has it
	statm, _ := fs.ReadFile(root, "proc/self/statm")
	mapped, left := strings.Fields(string(statm)), Room{Free: unlimited}
	for line := range strings.Lines(string(limits)) {
		for _, u := range ulimits() {
			rest, ok := strings.CutPrefix(line, u.row)
			if words := strings.Fields(rest); ok && len(words) > 1 && u.used < len(mapped) {
				limit, err := strconv.ParseInt(words[0], 10, 64)
				pages, _ := strconv.ParseInt(mapped[u.used], 10, 64)
				if err == nil { // and not "unlimited"
					free := max(0, limit-pages*int64(os.Getpagesize())-spared)
					left = left.less(Room{Free: free, Ulimit: fmt.Sprintf("ulimit %s %d", u.flag, limit>>10)})
				}
			}
		}
	}
	return left
}

// Obey keeps the heap of a process with a limit below it, since the runtime ends a process that
// reaches its limit. It returns an error if too little is left to begin with.
func Obey() error {
	here := Here()
	if here.Ulimit == "" {
		return nil
	}
	if here.Free < least {
		return fmt.Errorf("%s leaves too little memory to begin with: a Go program reserves more than 1 GB; "+
			"set %d at least, or run ulimit %s unlimited", here.Ulimit, advised, strings.Fields(here.Ulimit)[1])
	}
	debug.SetMemoryLimit(Heap() + int64(HeapShare*float64(here.Free)))
	return nil
}
