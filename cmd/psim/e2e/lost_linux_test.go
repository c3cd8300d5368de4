package e2e

import (
	"bytes"
	"context"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// runMark begins the variable that marks the processes of a run.
const runMark = "PSIM_TEST_RUN="

// together returns psim exec over several processes, with a mark by which the test finds them:
// copies of this program, or under mpirun the psim that PSIM_MPI names.
func (u user) together(ctx context.Context, mark string, size int, line string) *exec.Cmd {
	program := []string{program}
	if over := os.Getenv("PSIM_MPI"); over != "" {
		program = []string{"mpirun", "--oversubscribe", "--allow-run-as-root", "-np", strconv.Itoa(size), over}
	} else {
		line += fmt.Sprint(" --processes ", size)
	}
	c := exec.CommandContext(ctx, program[0], append(program[1:], strings.Fields(line)[1:]...)...)
	c.Dir, c.Env = u.folder, append(os.Environ(), runMark+mark)
	c.WaitDelay = time.Second
	return c
}

// A process that is killed or stopped at any moment ends the run: the others report which process it
// was, and no process and no new file is left. PSIM_LOST says how often to try.
func TestLost(t *testing.T) {
	times, err := strconv.Atoi(os.Getenv("PSIM_LOST"))
	if err != nil {
		times = 2
	}
	every := min(4, max(2, times)) // every n-th process is stopped, not killed
	t.Parallel()
	u := mlpUser(t)
	const line = "psim exec mlp.toml" + untimed + " --repeats 1 --quiet --stall 1s --out o --set model.layers=4 --gpus "
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	begin := time.Now()
	shown, err := u.together(ctx, "whole", 2, line+"2 --steps 20").CombinedOutput()
	require.NoError(t, err, "%s", shown)
	whole := time.Since(begin)
	before := u.tree(t, "o")
	random := rand.New(rand.NewSource(1390))
	for n := range times {
		signal, size := syscall.SIGKILL, 2+random.Intn(3)
		if n%every == every-1 {
			signal = syscall.SIGSTOP
		}
		wait := time.Duration(random.Int63n(int64(2 * whole)))
		who := random.Intn(size)
		t.Run(fmt.Sprintf("%v to %d of %d after %v", signal, who, size, wait.Round(time.Millisecond)), func(t *testing.T) {
			lose(t, u.together(ctx, t.Name(), size, line+fmt.Sprint(size, " --steps 2000")), wait, who, size, signal)
			require.Equal(t, before, u.tree(t, "o"))
			require.NoError(t, os.RemoveAll(u.path("o.partial"))) // with the steps that were complete
			left, err := filepath.Glob(u.path("*"))
			require.NoError(t, err)
			require.Equal(t, []string{u.path("configs"), u.path("mlp.toml"), u.path("my.toml"), u.path("o")}, left)
		})
	}
}

// lose starts a run, sends one of its processes a signal after a while, and checks that the others end.
func lose(t *testing.T, run *exec.Cmd, wait time.Duration, who, size int, signal syscall.Signal) {
	var out bytes.Buffer
	run.Stdout, run.Stderr = &out, &out
	require.NoError(t, run.Start())
	mark := runMark + t.Name()
	require.Eventually(t, func() bool { return len(marked(t, mark)) == size }, 30*time.Second, time.Millisecond)
	time.Sleep(wait)
	pids := marked(t, mark)
	require.Len(t, pids, size, out.String())
	require.NoError(t, syscall.Kill(pids[who], signal))
	ended := make(chan error, 1)
	go func() { ended <- run.Wait() }()
	select {
	case err := <-ended:
		require.Error(t, err)
	case <-time.After(12 * time.Second): // ten seconds, plus the second of --stall
		t.Errorf("has not ended\n%s", out.String())
		for _, pid := range marked(t, mark) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		<-ended
	}
	requireNoProcess(t, mark)
	text := out.String()
	if who == 0 && text == "" { // the first process had only just started the others, which end with it
		return
	}
	if !strings.Contains(text, ", rank") { // before the processes were connected
		require.Regexp(t, fmt.Sprintf(`pid %d .*(was lost|does not answer)|not all processes of the run have come together|exited on signal 9`, pids[who]), text)
		return
	}
	require.Equal(t, 1, strings.Count(text, "psim: "), text)
	what := map[syscall.Signal]string{syscall.SIGKILL: "was lost: it ended without a message", syscall.SIGSTOP: "does not answer"}
	require.Regexp(t, fmt.Sprintf(`process \d \(pid %d on .*\) %s`, pids[who], what[signal]), text)
}

// An interrupt of all processes, as a terminal sends it, prints one line at any moment of their start.
func TestInterruptedStart(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	moments := []time.Duration{50, 200, 500, 1000}
	if !long() {
		moments = moments[1:2]
	}
	for n, wait := range moments {
		mark := fmt.Sprint(t.Name(), n)
		run := u.together(t.Context(), mark, 12, "psim exec ring-allreduce --gpus 12 --oversubscribe --quiet")
		run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		var said bytes.Buffer
		run.Stderr = &said
		require.NoError(t, run.Start())
		require.Eventually(t, func() bool { return len(marked(t, runMark+mark)) > 1 }, 30*time.Second, time.Millisecond)
		time.Sleep(wait * time.Millisecond)
		require.NoError(t, syscall.Kill(-run.Process.Pid, syscall.SIGINT))
		require.Error(t, run.Wait())
		require.Equal(t, exitFailed, run.ProcessState.ExitCode(), said.String())
		require.Equal(t, "psim: interrupted\n", strings.TrimPrefix(said.String(), "psim: stopping; interrupt again to end at once\n"))
		requireNoProcess(t, runMark+mark)
	}
}
