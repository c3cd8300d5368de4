package processes

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"

	"psim/exec/mpi"
)

// A Launcher has started several processes of one program.
type Launcher struct {
	Name       string // of its command
	Rank, Size int
}

// launchers lists the commands that start processes, and the variables by which they
// tell each which it is. Slurm sets its size for every step, the others only for
// programs of MPI.
func launchers() [][3]string {
	return [][3]string{
		{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
		{"mpirun", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
		{"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
		{"mpiexec", "PMI_RANK", "PMI_SIZE"},
	}
}

// Launched returns what has started this process as one of several. The zero value
// says that it is alone.
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

// Check refuses numbers of processes that make no sense where this one was started,
// which all of them find.
func (o Options) Check() error {
	switch l := Launched(os.Getenv); {
	case l.Size > 1 && o.Processes > 0:
		return fmt.Errorf("--processes %d: %s has started %d processes already; leave the flag out, or start psim without %s", o.Processes, l.Name, l.Size, l.Name)
	case l.Size > 1 && !mpi.Compiled:
		return fmt.Errorf("%s has started %d processes, and this psim is built without MPI: build it with CC=mpicc go build -tags mpi ./cmd/psim, or start it without %s and with --processes %d, on one machine", l.Name, l.Size, l.Name, l.Size)
	case l.Size > o.Ranks:
		return fmt.Errorf("%s has started %d processes for fewer devices (%d); every process needs one at least", l.Name, l.Size, o.Ranks)
	case o.Processes > o.Ranks:
		return fmt.Errorf("--processes %d: more processes than devices (%d); every process needs one at least", o.Processes, o.Ranks)
	case o.Processes > mostCopies:
		return fmt.Errorf("--processes %d: at most %d are started on one machine", o.Processes, mostCopies)
	}
	return nil
}

// mostCopies bounds the processes that are started on one machine, each with threads and
// connections to all others.
const mostCopies = 256

// Open joins the run that this process was started for: by mpirun, srun or another
// launcher, or as one of the copies that the first process has started. Where it is
// to be the first, it starts them. It returns nil where one process is all there is.
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
	case launcher.Size > 1:
		return launcher.joinMPI(ctx, o)
	case o.Processes <= 1:
		return nil, nil
	}
	return launch(ctx, o)
}

// A place is what a copy is told by the first process: the run that it takes part in,
// and as which process.
type place struct {
	Invitation
	Rank int
}

// placeVariable holds a place as JSON.
const placeVariable = "PSIM_PROCESS"

// invited returns the place that this process was started for; nil if it has none. It
// takes it out of the environment, which others inherit.
func invited() (*place, error) {
	text, found := os.LookupEnv(placeVariable)
	if !found {
		return nil, nil
	}
	p := new(place)
	if err := json.Unmarshal([]byte(text), p); err != nil || p.Size < 2 || p.Rank < 1 || p.Rank >= p.Size {
		return nil, fmt.Errorf("%s is set, and not by psim: unset it", placeVariable)
	}
	return p, os.Unsetenv(placeVariable)
}

// First reports whether this process is the one that tells the user what is wrong
// before it has joined the others.
func First() bool {
	_, copied := os.LookupEnv(placeVariable)
	return !copied && Launched(os.Getenv).Rank == 0
}
