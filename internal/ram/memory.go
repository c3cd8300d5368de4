// Package ram says how much of this machine's memory is free, and refuses graphs that do not
// fit into it.
package ram

import (
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"psim/internal/units"
)

// bytesPerTask bounds the memory per task for building and simulating a graph and writing its
// files. It was measured on 1F1B with 1 to 20 million tasks and rounded up.
const bytesPerTask = 420

// bytesPerBrief bounds the memory per task of a brief graph, measured in the same way.
const bytesPerBrief = 64

// alwaysFits is a need so small that it is not worth asking how much memory is free.
const alwaysFits = 16 << 20

// CheckTasks returns an error if a graph would not fit. The number of tasks may be an
// estimate.
func CheckTasks(tasks float64) error { return check(tasks, bytesPerTask) }

// CheckBrief does the same as CheckTasks for graphs without names of tasks.
func CheckBrief(tasks float64) error { return check(tasks, bytesPerBrief) }

func check(tasks, bytes float64) error {
	need := tasks * bytes
	if need <= alwaysFits {
		return nil
	}
	have := Here()
	if need <= float64(have.Free) {
		return nil
	}
	where := "here"
	if have.Ulimit != "" {
		where = "under " + have.Ulimit
	}
	return TooLarge(fmt.Sprintf("the graph would have about %.2g tasks and need about %s of memory, "+
		"but only %s are free %s; make it smaller",
		tasks, units.FormatBytes(int64(min(need, 1e18))), units.FormatBytes(have.Free), where))
}

// TooLarge is the error for a graph that needs more memory than is free.
type TooLarge string

// Error says how much memory the graph needs.
func (t TooLarge) Error() string { return string(t) }

// A Room is the memory in bytes that this process may use.
type Room struct {
	Free int64
	// Container is the limit of the container if that determines Free, and otherwise 0.
	Container int64
	// Ulimit is the shell's command for the limit of this process that determines Free, or "".
	Ulimit string
}

// less returns the room with fewer bytes.
func (r Room) less(other Room) Room {
	if other.Free < r.Free {
		return other
	}
	return r
}

// Free returns the number of bytes that can be used: those that are free in the system, or the
// fewer that the container or a limit of the process leaves.
func Free() int64 { return Here().Free }

// Here returns the memory that can be used, and what limits it.
func Here() Room { return roomIn(os.DirFS("/")) }

// roomIn returns the same as Here, from the files of a system under root.
func roomIn(root fs.FS) Room {
	return Room{Free: system(root)}.less(container(root)).less(limited(root))
}

// system returns the number of bytes that are free in the system. If the system does not say,
// it assumes a small machine.
func system(root fs.FS) int64 {
	const assumed = 8 << 30
	data, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return assumed
	}
	for line := range strings.Lines(string(data)) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == "MemAvailable:" {
			if kib, err := strconv.ParseInt(words[1], 10, 64); err == nil {
				return kib << 10
			}
		}
	}
	return assumed
}
