package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"psim/cmd/psim/cli"
	"psim/internal/fault"
)

// faultVariable is the variable that makes the test's binary run psim with a fault at one task, in the
// process that runs the task.
const faultVariable = "PSIM_TEST_FAULT"

// exitLeaked is the exit code of a faulty run that leaves goroutines.
const exitLeaked = 99

// runFaulty runs psim as its main function does, and returns the exit code.
func runFaulty(text string) int {
	var m misfortune
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		panic(err)
	}
	interrupt := func() { syscall.Kill(0, syscall.SIGINT) } // as a terminal does
	code := cli.Main(context.WithValue(context.Background(), fault.Key{}, m.hook(interrupt)))
	if !m.Alone {
		return code
	}
	if err := goleak.Find(goleak.IgnoreAnyFunction("os/signal.loop"), goleak.IgnoreAnyFunction("os/signal.NotifyContext.func1"), goleak.IgnoreAnyFunction("psim/cmd/psim/cli.Main.func1")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitLeaked
	}
	return code
}

// endProcess ends the process that calls it, or makes it hang.
func endProcess(how string) {
	switch how {
	case "kill":
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "stop":
		syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	case "exit":
		os.Exit(3)
	case "hang":
		select {}
	}
}

// Whatever goes wrong in a run of several processes, or with one of them, all end soon. One message
// reports the fault and its place. No process and no temporary file is left, an earlier result is
// unchanged, and the measurements until then are saved completely or not at all. There is a case of
// every kind of fault; PSIM_FAULTS asks for another number of cases.
func TestFaultyProcesses(t *testing.T) {
	t.Parallel()
	kinds := []string{"panic", "error", "stall", "nan", "lost", "truncated", "kill", "exit", "stop", "hang"}
	over := os.Getenv("PSIM_MPI")
	if over == "" { // mpirun passes an interrupt on later than --stall
		kinds = append(kinds, "interrupt")
	}
	template := faultyUser(t)
	before := template.tree(t, ".")
	for seed, f := range drawFaulties(t, template, 108, kinds) {
		n := 2 + int(seed)%(f.graph.Ranks()-1)
		command := append([]string{program}, append(strings.Fields(f.line())[1:], "--processes", fmt.Sprint(n))...)
		if over != "" {
			command = append([]string{"mpirun", "--oversubscribe", "--allow-run-as-root", "-np", fmt.Sprint(n), over}, strings.Fields(f.line())[1:]...)
		}
		t.Run(fmt.Sprint(seed, " ", f.Kind), func(t *testing.T) {
			t.Parallel()
			u, temporary := template.copied(t), t.TempDir()
			began := time.Now()
			_, stderr, code := f.start(t, u, temporary, command...)
			require.Less(t, time.Since(began), f.limit(), "%v in %d\n%s", f, n, stderr)
			f.checkProcesses(t, n, stderr, code)
			u.requireAside(t, true)
			requireSame(t, before, u.tree(t, "."), f)
			requireEmpty(t, temporary, f)
			requireNoProcess(t, "TMPDIR="+temporary)
		})
	}
}

// limit bounds how long a run may take: ten seconds, plus the second of --stall if it hangs.
func (f faulty) limit() time.Duration {
	if slices.Contains([]string{"stall", "hang", "lost", "stop"}, f.Kind) {
		return 11 * time.Second
	}
	return 10 * time.Second
}

// start runs a command in a group of its own, and waits for all its processes.
func (f faulty) start(t *testing.T, u user, temporary string, command ...string) (stdout, stderr string, code int) {
	text, err := json.Marshal(f.misfortune)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = u.folder
	cmd.Env = append(os.Environ(), faultVariable+"="+string(text), "TMPDIR="+temporary)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 20 * time.Second
	var printed, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &printed, &said
	cmd.Run()
	return printed.String(), said.String(), cmd.ProcessState.ExitCode()
}

// checkProcesses compares the output with the fault in the process that has the task's rank.
func (f faulty) checkProcesses(t *testing.T, n int, stderr string, code int) {
	ranks, of := f.graph.Ranks(), 0
	for begin := 0; ; of++ {
		if begin += ranks / n; of < ranks%n {
			begin++
		}
		if int(f.Rank) < begin {
			break
		}
	}
	if os.Getenv("PSIM_MPI") != "" {
		require.NotZero(t, code, "%v in %d\n%s", f, n, stderr)
	} else if of > 0 || f.Kind != "kill" && f.Kind != "exit" && f.Kind != "stop" {
		require.Equal(t, exitFailed, code, "%v in %d\n%s", f, n, stderr)
	}
	require.Equal(t, 1, strings.Count(stderr, "psim: "), "%v in %d: one message\n%s", f, n, stderr)
	lost := fmt.Sprintf(`(?m)^psim: ([a-z-]+ of 64B: )?process %d \(pid \d+ on .*, ranks? .*%%s`, of)
	switch f.Kind {
	case "kill", "exit":
		require.Regexp(t, fmt.Sprintf(lost, "was lost: it ended without a message"), stderr, "%v in %d", f, n)
	case "stop":
		require.Regexp(t, fmt.Sprintf(lost, "does not answer: nothing was heard from it for "), stderr, "%v in %d", f, n)
	case "interrupt":
		require.Equal(t, "psim: interrupted\n", stderr, "%v in %d", f, n)
	case "hang", "stall":
		if os.Getenv("PSIM_MPI") == "" { // mpirun may end the process before it has reported the task
			require.Contains(t, stderr, "\n  "+f.graph.Describe(f.Task)+" ", "%v in %d", f, n)
		}
		require.Contains(t, stderr, f.graph.Describe(f.Task), "%v in %d", f, n)
	case "truncated", "lost":
		require.Contains(t, stderr, f.graph.Describe(f.Task), "%v in %d", f, n)
	case "nan":
		if strings.Contains(f.command, "mlp.toml") {
			require.Regexp(t, `step \d of \d: .*rank \d.*; run again task by task, `, stderr, f)
		} else {
			require.Contains(t, stderr, "wrong", f)
		}
	default:
		f.check(t, "", stderr, code)
	}
}

// A mistake in one process gives one message, although mpirun then ends the others.
func TestMistake(t *testing.T) {
	over := os.Getenv("PSIM_MPI")
	if over == "" {
		t.Skip("needs mpirun: see .ci/mpi")
	}
	t.Parallel()
	u := mlpUser(t)
	cmd := exec.Command("mpirun", "--oversubscribe", "--allow-run-as-root", "-np", "1", over, "exec", "mlp.toml", "--gpus", "2", ":",
		"-np", "1", over, "exec", "nosuch.toml", "--gpus", "2")
	cmd.Dir = u.folder
	said, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(said), "nosuch.toml: no such file")
	require.Equal(t, 1, strings.Count(string(said), "psim: "), "%s", said)
}
