package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"

	"psim/exec/cluster/mpi"
)

// A Launcher has started several processes of one program.
type Launcher struct {
	Name       string // of its command
	Rank, Size int
}

// launchers lists the commands that start processes, with the variables that tell a process its
// rank and the number of processes. Slurm sets its size for every step, the others only for MPI
// programs.
func launchers() [][3]string {
	return [][3]string{
		{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
		{"mpirun", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
		{"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
		{"mpiexec", "PMI_RANK", "PMI_SIZE"},
	}
}

// Launched returns the launcher that has started this process as one of several. The zero value
// says that it was started alone.
func Launched(getenv func(string) string) Launcher {
	for _, l := range launchers() {
		rank, err1 := strconv.Atoi(getenv(l[1]))
		size, err2 := strconv.Atoi(getenv(l[2]))
		if err1 == nil && err2 == nil && size > 1 && 0 <= rank && rank < size {
			return Launcher{l[0], rank, size}
		}
	}
	return Launcher{}
}

// Check refuses numbers of processes that make no sense. All processes come to the same result.
func (o Options) Check() error {
	if o.Place != nil {
		return o.Place.check(o.Ranks)
	}
	switch l := Launched(os.Getenv); {
	case l.Size > 1 && o.Processes > 0:
		return fmt.Errorf("--processes %d: %s has started %d processes already; "+
			"leave the flag out, or start psim without %s", o.Processes, l.Name, l.Size, l.Name)
	case l.Size > 1 && !mpi.Compiled:
		return fmt.Errorf("%s has started %d processes, and this psim is built without MPI: "+
			"build it with CC=mpicc go build -tags mpi ./cmd/psim, "+
			"start it without %s and with --processes %d, on one machine, "+
			"or give each process --rank, --world-size and --master", l.Name, l.Size, l.Name, l.Size)
	case l.Size > o.Ranks:
		return fmt.Errorf("%s has started %d processes for fewer devices (%d); every process needs one at least",
			l.Name, l.Size, o.Ranks)
	case o.Processes > o.Ranks:
		return fmt.Errorf("--processes %d: more processes than devices (%d); every process needs one at least",
			o.Processes, o.Ranks)
	case o.Processes > mostCopies:
		return fmt.Errorf("--processes %d: at most %d are started on one machine", o.Processes, mostCopies)
	}
	return nil
}

// mostCopies bounds the processes that are started on one machine. Each has threads, and
// connections to all others.
const mostCopies = 256

// Open joins the run that this process was started for, by mpirun, srun or another launcher, or
// as a copy that the first process has started, or by a Rendezvous. If this is the first process, it starts the
// copies. Open returns nil if there is only one process.
func Open(ctx context.Context, o Options) (*World, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	launcher := Launched(os.Getenv)
	switch place, err := invited(); {
	case err != nil:
		return nil, err
	case place != nil:
		return place.Invitation.Join(ctx, place.Rank, o)
	case o.Place != nil:
		return o.Place.join(ctx, o)
	case launcher.Size > 1:
		return launcher.joinMPI(ctx, o)
	case o.Processes <= 1:
		return nil, nil
	}
	return launch(ctx, o)
}

// A copyPlace tells a copy of the first process which run it belongs to, and its rank in it.
type copyPlace struct {
	Invitation
	Rank int
}

// placeVariable names the environment variable that has a copyPlace as JSON.
const placeVariable = "PSIM_PROCESS"

// invited returns the place that this process was started for, or nil. It removes it from the
// environment, which child processes inherit.
func invited() (*copyPlace, error) {
	text, found := os.LookupEnv(placeVariable)
	if !found {
		return nil, nil
	}
	p := new(copyPlace)
	if err := json.Unmarshal([]byte(text), p); err != nil || p.Size < 2 || p.Rank < 1 || p.Rank >= p.Size {
		return nil, fmt.Errorf("%s is set, and not by psim: unset it", placeVariable)
	}
	return p, os.Unsetenv(placeVariable)
}

// First reports whether this process is the one that tells the user of errors before the
// processes have found each other.
func First() bool {
	_, copied := os.LookupEnv(placeVariable)
	return !copied && Launched(os.Getenv).Rank == 0
}
