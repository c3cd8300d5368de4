package main

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

	"psim/internal/fault"
)

// faultVariable has the test's binary run psim and one task of it go wrong, in whichever
// process that is.
const faultVariable = "PSIM_TEST_FAULT"

// attendFaulty runs psim as its main function does.
func attendFaulty(text string) {
	var m misfortune
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		panic(err)
	}
	interrupt := func() { syscall.Kill(0, syscall.SIGINT) } // as a terminal does
	attend(context.WithValue(context.Background(), fault.Key{}, m.hook(interrupt)))
}

// endProcess ends the process that calls it, or keeps it from going on.
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

// Whatever goes wrong in a run of several processes, or with one of them, all end soon.
// One message says what and where, and nothing is left: no process, no temporary file, an
// earlier result as it was, and of what was measured until then all or nothing.
// PSIM_FAULTS asks for all cases, else there are a few.
func TestFaultyProcesses(t *testing.T) {
	step := uint64(18)
	if os.Getenv("PSIM_FAULTS") != "" {
		step = 1
	}
	faultyProcesses(t, 108, step, func(f faulty, n int) []string {
		line := strings.Fields(f.line())[1:]
		if over := os.Getenv("PSIM_MPI"); over != "" {
			return append([]string{"mpirun", "--oversubscribe", "--allow-run-as-root", "-np", fmt.Sprint(n), over}, line...)
		}
		return append([]string{os.Args[0]}, append(line, "--processes", fmt.Sprint(n))...)
	})
}

func faultyProcesses(t *testing.T, cases, step uint64, command func(f faulty, n int) []string) {
	writeTinyMLP(t)
	require.NoError(t, os.Remove("configs"))
	_, stderr, code := psim(t, "psim exec mlp.toml --gpus 2 --oversubscribe --steps 1 --repeats 1 --quiet --out o")
	require.Zero(t, code, stderr)
	before := tree(t, ".")
	template, err := os.Getwd()
	require.NoError(t, err)
	for seed := uint64(0); seed < cases; seed += step {
		kinds := []string{"panic", "error", "stall", "nan", "lost", "truncated", "kill", "exit", "stop", "hang"}
		if os.Getenv("PSIM_MPI") == "" { // mpirun passes an interrupt on later than --stall
			kinds = append(kinds, "interrupt")
		}
		f := drawFaulty(t, seed, kinds...)
		n := 2 + int(seed)%(f.graph.Ranks()-1)
		t.Run(fmt.Sprint(seed, " ", f.Kind), func(t *testing.T) {
			folder, temporary := t.TempDir(), t.TempDir()
			require.NoError(t, os.CopyFS(folder, os.DirFS(template)))
			t.Chdir(folder)
			began := time.Now()
			stderr, code := f.start(t, temporary, command(f, n)...)
			require.Less(t, time.Since(began), f.limit(), "%v in %d\n%s", f, n, stderr)
			f.checkProcesses(t, n, stderr, code)
			requireAside(t, true)
			requireSame(t, before, tree(t, "."), f)
			require.Empty(t, contents(t, temporary), f)
			requireNoProcess(t, "TMPDIR="+temporary)
		})
	}
}

// limit bounds how long a run may take: ten seconds, and where nothing happens any more the
// second of --stall.
func (f faulty) limit() time.Duration {
	if slices.Contains([]string{"stall", "hang", "lost", "stop"}, f.Kind) {
		return 11 * time.Second
	}
	return 10 * time.Second
}

// start runs a command in a group of its own, and waits for all its processes.
func (f faulty) start(t *testing.T, temporary string, command ...string) (stderr string, code int) {
	text, err := json.Marshal(f.misfortune)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), faultVariable+"="+string(text), "TMPDIR="+temporary)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 20 * time.Second
	var said bytes.Buffer
	cmd.Stderr = &said
	cmd.Run()
	return said.String(), cmd.ProcessState.ExitCode()
}

// checkProcesses holds what was printed to what went wrong, in the process that has the
// task's rank.
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
		require.Regexp(t, fmt.Sprintf(lost, "was lost: it ended without a word"), stderr, "%v in %d", f, n)
	case "stop":
		require.Regexp(t, fmt.Sprintf(lost, "does not answer: nothing was heard of it for "), stderr, "%v in %d", f, n)
	case "interrupt":
		require.Equal(t, "psim: interrupted\n", stderr, "%v in %d", f, n)
	case "hang", "stall":
		if os.Getenv("PSIM_MPI") == "" { // mpirun may end its process before it has told of the task
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

// What one process alone has wrong is one message, though mpirun then ends the others.
func TestMistake(t *testing.T) {
	over := os.Getenv("PSIM_MPI")
	if over == "" {
		t.Skip("needs mpirun: see .ci/mpi")
	}
	writeTinyMLP(t)
	cmd := exec.Command("mpirun", "--oversubscribe", "--allow-run-as-root", "-np", "1", over, "exec", "mlp.toml", "--gpus", "2", ":",
		"-np", "1", over, "exec", "nosuch.toml", "--gpus", "2")
	cmd.Env = append(os.Environ(), asPsim+"=itself")
	said, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(said), "nosuch.toml: no such file")
	require.Equal(t, 1, strings.Count(string(said), "psim: "), "%s", said)
}
