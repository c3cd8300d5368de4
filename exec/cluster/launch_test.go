package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/exec/cluster"
)

// memberVariable makes this program a member of a run. It says what to do, which member does it
// and, if no launcher says so, how many there are.
const memberVariable = "PSIM_TEST_MEMBER"

// member takes part in a run of processes.
func member(do string) (code int) {
	var what string
	var size, who int
	fmt.Sscan(do, &what, &size, &who)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	w, err := cluster.Open(ctx, cluster.Options{Processes: size, Arguments: os.Args[1:], Ranks: 4, Stall: time.Second})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	w.Divide(4)
	if err := take(ctx, w, what, who); err != nil {
		w.Abort(err)
		if w.Speaks() {
			fmt.Fprintln(os.Stderr, "said:", err)
		}
		code = 1
	}
	w.Close() // not during a panic
	return code
}

// take does what the members of a run do, and what one of them is told to do at the end.
func take(ctx context.Context, w *cluster.World, what string, who int) error {
	ctx, cancel := w.Context(ctx)
	defer cancel()
	for i, n := range []int{0, 1, 4 << 10, 4<<10 + 1, 3 << 20} {
		next, before := (w.Rank+1)%w.Size, (w.Rank+w.Size-1)%w.Size
		key := fmt.Sprint("round ", i)
		sent := bytes.Repeat([]byte{byte(w.Rank)}, n)
		errs := make(chan error, 1)
		go func() { errs <- w.Send(next, key, sent) }()
		got, err := w.Receive(ctx, before, key)
		if err = errors.Join(err, <-errs); err != nil {
			return err
		}
		if !bytes.Equal(got, bytes.Repeat([]byte{byte(before)}, n)) {
			return fmt.Errorf("%s: %d bytes, not those of process %d", key, len(got), before)
		}
	}
	clock, err := w.Clock(ctx, "clock")
	if err != nil {
		return err
	}
	p := w.Processes()[w.Rank]
	all, err := w.Gather(ctx, "who", fmt.Appendf(nil, "process %d pid %d at %d, %d ranks, clock within 1s: %t, at loopback: %t", w.Rank,
		p.PID, p.LocalRank, len(p.Ranks), clock.Residual < time.Second,
		len(p.Addresses) == 1 && strings.HasPrefix(p.Addresses[0], "127.0.0.1:")))
	if err != nil {
		return err
	}
	for _, line := range all {
		fmt.Println(string(line))
	}
	if err := w.Barrier(ctx, "all said"); err != nil || what == "work" {
		return err
	}
	if w.Rank == who {
		if err := end(what); err != nil {
			return err
		}
	}
	_, err = w.Receive(ctx, (w.Rank+1)%w.Size, "never")
	return err
}

// end ends this process in one of the ways in which processes end.
func end(what string) error {
	signals := map[string]syscall.Signal{"kill": syscall.SIGKILL, "stop": syscall.SIGSTOP}
	switch {
	case what == "crash":
		panic("out of ideas")
	case what == "exit":
		os.Exit(3)
	case what == "fail":
		return errors.New("no memory on device 1")
	}
	return syscall.Kill(os.Getpid(), signals[what])
}

// started returns the command of a run, of this program or another build of it.
func started(t *testing.T, ctx context.Context, do string, command ...string) (stdout, stderr string, code int) {
	c := exec.CommandContext(ctx, command[0], command[1:]...)
	c.Env = append(os.Environ(), memberVariable+"="+do)
	var out, err bytes.Buffer
	c.Stdout, c.Stderr = &out, &err
	c.WaitDelay = time.Second
	if e := c.Run(); e != nil && !errors.As(e, new(*exec.ExitError)) {
		require.NoError(t, e, err.String())
	}
	require.NoError(t, ctx.Err(), "%s has not ended\n%s%s", do, out.String(), err.String())
	return out.String(), err.String(), c.ProcessState.ExitCode()
}

// requireGone checks that all processes that have printed their ids are gone.
func requireGone(t *testing.T, stdout string, n int) {
	t.Helper()
	pids := regexp.MustCompile(`pid (\d+)`).FindAllStringSubmatch(stdout, -1)
	require.Len(t, pids, n, stdout)
	for _, m := range pids {
		pid, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		require.Eventually(t, func() bool { return dead(pid) }, 5*time.Second, 10*time.Millisecond,
			"process %d is left", pid)
	}
}

// dead reports whether a process has ended, even if its parent did not wait for it.
func dead(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(after, "Z") || strings.HasPrefix(after, "X")
}

// A run over copies of this program works, and ends cleanly however one of them ends: the
// others say which one it was, and all are gone.
func TestCopies(t *testing.T) {
	runs(t, 3, os.Args[0])
}

// runs tries runs of n members under a command.
func runs(t *testing.T, n int, command ...string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	launched := len(command) > 1
	size := n
	if launched {
		size = 0
	}
	stdout, stderr, code := started(t, ctx, fmt.Sprint("work ", size), command...)
	require.Zero(t, code, stderr)
	require.Regexp(t, `(?m)^process 0 pid \d+ at 0, 2 ranks, clock within 1s: true, at loopback: true\nprocess 1 pid \d+ at 1, 1 ranks, clock within 1s: true, at loopback: true\nprocess 2 pid`, stdout)
	for _, c := range []struct {
		what string
		who  int
		want string
	}{
		{"kill", 1, `said: process 1 \(pid \d+ on .*, rank 2\) was lost: it ended without a message`},
		{"kill", 0, `said: process 0 \(pid \d+ on .*, ranks 0 to 1\) was lost: it ended without a message`},
		{"exit", 2, `said: process 2 \(pid \d+ on .*, rank 3\) was lost: it ended without a message`},
		{"crash", 1, `said: process 1 .* was lost`},
		{"fail", 1, `said: process 1 \(pid .*, rank 2\) ended the run: no memory on device 1`},
		{"fail", 0, `said: no memory on device 1`},
		{"stop", 1, `said: process 1 .* does not answer: nothing was heard from it for 1`},
		{"stop", 0, `said: process 0 .* does not answer: nothing was heard from it for 1`},
	} {
		t.Run(fmt.Sprint(c.what, " ", c.who), func(t *testing.T) {
			stdout, stderr, code := started(t, ctx, fmt.Sprint(c.what, " ", size, " ", c.who), command...)
			require.NotZero(t, code)
			require.Regexp(t, c.want, stderr)
			if c.what == "crash" { // mpirun may first print the message of another process
				require.Contains(t, stderr, "panic: out of ideas")
			}
			require.Equal(t, 1, strings.Count(stderr, "said:"), stderr)
			requireGone(t, stdout, n)
		})
	}
}

// The same works over MPI, with a build of this program that knows MPI.
func TestMPI(t *testing.T) {
	for _, program := range []string{"mpicc", "mpirun"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s", program)
		}
	}
	if testing.Short() {
		t.Skip("builds a program")
	}
	program := filepath.Join(t.TempDir(), "processes.test")
	build := exec.Command("go", "test", "-tags", "mpi", "-c", "-o", program, ".")
	build.Env = append(os.Environ(), "CC=mpicc", "CGO_ENABLED=1")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	runs(t, 3, "mpirun", "--oversubscribe", "--allow-run-as-root", "-np", "3", program)
}

// The variables of a launcher say which process this is. Without them it is alone.
func TestLaunched(t *testing.T) {
	for _, c := range []struct {
		set  string
		want cluster.Launcher
	}{
		{"", cluster.Launcher{}},
		{"OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4", cluster.Launcher{Name: "mpirun", Rank: 1, Size: 4}},
		{"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1", cluster.Launcher{}},
		{"PMI_RANK=2 PMI_SIZE=3", cluster.Launcher{Name: "mpiexec", Rank: 2, Size: 3}},
		{"SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=8 PMI_RANK=3 PMI_SIZE=8",
			cluster.Launcher{Name: "srun", Rank: 3, Size: 8}},
		{"SLURM_PROCID=0 SLURM_NTASKS=8", cluster.Launcher{}}, // a batch script, which was not started by srun
		{"PMI_RANK=x PMI_SIZE=3", cluster.Launcher{}},
		{"PMI_RANK=3 PMI_SIZE=3", cluster.Launcher{}},
	} {
		getenv := func(name string) string {
			for _, field := range strings.Fields(c.set) {
				if value, ok := strings.CutPrefix(field, name+"="); ok {
					return value
				}
			}
			return ""
		}
		require.Equal(t, c.want, cluster.Launched(getenv), c.set)
	}
}

// Numbers of processes that make no sense are refused before any is started.
func TestOpenRefuses(t *testing.T) {
	ctx := context.Background()
	w, err := cluster.Open(ctx, cluster.Options{Processes: 1, Ranks: 4})
	require.NoError(t, err)
	require.Nil(t, w)
	_, err = cluster.Open(ctx, cluster.Options{Processes: 3, Ranks: 2})
	require.EqualError(t, err, "--processes 3: more processes than devices (2); every process needs one at least")
	t.Setenv("OMPI_COMM_WORLD_RANK", "0")
	t.Setenv("OMPI_COMM_WORLD_SIZE", "2")
	_, err = cluster.Open(ctx, cluster.Options{Processes: 2, Ranks: 2})
	require.ErrorContains(t, err, "--processes 2: mpirun has started 2 processes already; leave the flag out")
	_, err = cluster.Open(ctx, cluster.Options{Ranks: 2})
	require.ErrorContains(t, err, "mpirun has started 2 processes, and this psim is built without MPI: build it with CC=mpicc go build -tags mpi ./cmd/psim")
	require.True(t, cluster.First())
	t.Setenv("OMPI_COMM_WORLD_RANK", "1")
	require.False(t, cluster.First())
	t.Setenv("OMPI_COMM_WORLD_SIZE", "1")
	t.Setenv("PSIM_PROCESS", "{}")
	_, err = cluster.Open(ctx, cluster.Options{Ranks: 2})
	require.EqualError(t, err, "PSIM_PROCESS is set, and not by psim: unset it")
}
