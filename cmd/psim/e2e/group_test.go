package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/results"
)

// A started process is one that a user started by hand.
type started struct {
	stdout, stderr string
	code           int
	took           time.Duration
}

// byHand starts a process for each line at the same time, each after a while, and waits for all.
func (u user) byHand(t *testing.T, pause time.Duration, lines ...string) []started {
	list := make([]started, len(lines))
	mark := runMark + t.Name()
	var all sync.WaitGroup
	for k, line := range lines {
		all.Go(func() {
			time.Sleep(time.Duration(k) * pause)
			fields := strings.Fields(line)
			var set []string
			for ; fields[0] != "psim"; fields = fields[1:] {
				set = append(set, fields[0])
			}
			cmd := u.command(t, fields[1:]...)
			cmd.Env = append(append(cmd.Env, set...), mark)
			var out, said bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &said
			began := time.Now()
			cmd.Run()
			list[k] = started{out.String(), said.String(), cmd.ProcessState.ExitCode(), time.Since(began)}
		})
	}
	all.Wait()
	requireNoProcess(t, mark)
	return list
}

// freeMaster returns an address of this machine where nothing listens.
func freeMaster(t *testing.T) (host, port string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	host, port, err = net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return host, port
}

// Processes that were started one by one, by flags or by torchrun's variables and in any order,
// compute what copies compute, bit for bit. Only rank 0 prints and writes.
func TestGroup(t *testing.T) {
	t.Parallel()
	u := mlpUser(t)
	line := "psim exec mlp.toml --gpus 3" + untimed + " --steps 2 --repeats 1 --set model.layers=4"
	copies := u.execJSON(t, line+" --processes 2 --save-gradients copies")
	gradients := u.contents(t, "copies")
	for name, places := range map[string]func(host, port string, rank int) string{
		"flags": func(host, port string, rank int) string {
			return fmt.Sprintf("%s --rank %d --world-size 2 --master %s:%s", line, rank, host, port)
		},
		"variables": func(host, port string, rank int) string {
			return fmt.Sprintf("RANK=%d WORLD_SIZE=2 MASTER_ADDR=%s MASTER_PORT=%s LOCAL_RANK=%d %s", rank, host, port, 1-rank, line)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host, port := freeMaster(t)
			list := u.byHand(t, 300*time.Millisecond, places(host, port, 1)+" --quiet --save-gradients "+name, places(host, port, 0)+" --json --save-gradients "+name)
			require.Zero(t, list[1].code, list[1].stderr)
			require.Equal(t, started{took: list[0].took}, list[0])
			var r results.Result
			require.NoError(t, json.Unmarshal([]byte(list[1].stdout), &r))
			require.Equal(t, copies.Losses, r.Losses)
			require.Len(t, r.Processes, 2)
			require.Equal(t, []int{0, 1}, r.Processes[0].Ranks)
			require.Equal(t, gradients, u.contents(t, name))
		})
	}
}

// Processes that were not started alike, or that are lost, end at once with one error each.
func TestGroupErrors(t *testing.T) {
	t.Parallel()
	u := mlpUser(t)
	u.write(t, "token", "secret\n")
	const line = "psim exec mlp.toml" + untimed + " --repeats 1 --set model.layers=4 --stall 3s --gpus "
	for name, c := range map[string]struct {
		first, second string // MASTER is the address
		wants         [2]string
		code          int
	}{
		"size":   {"2 --rank 0 --world-size 2 --master MASTER", "3 --rank 1 --world-size 3 --master MASTER", [2]string{"process 1 (pid ", "was told that 3 processes take part, and the first that 2 do"}, exitUsage},
		"config": {"2 --rank 0 --world-size 2 --master MASTER", "2 --rank 1 --world-size 2 --master MASTER --seed 7", [2]string{"was started with another configuration or other flags", "was started with another configuration or other flags"}, exitUsage},
		"token":  {"2 --rank 0 --world-size 2 --master MASTER --token-file token", "2 --rank 1 --world-size 2 --master MASTER", [2]string{"came with another token", "the token of this process differs"}, exitUsage},
		"late":   {"2 --rank 0 --world-size 2 --master MASTER", "2 --rank 1 --world-size 2 --master 127.0.0.1:1", [2]string{"process 1 of 2 did not come to 127.0.0.1:", "the first process could not be reached within 3s"}, exitFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host, port := freeMaster(t)
			at := strings.NewReplacer("MASTER", host+":"+port)
			for k, p := range u.byHand(t, 0, at.Replace(line+c.first), at.Replace(line+c.second)) {
				require.Equal(t, c.code, p.code, p.stderr)
				require.Contains(t, p.stderr, c.wants[k])
				require.Less(t, p.took, 10*time.Second)
				require.Equal(t, 1, strings.Count(p.stderr, "psim: ")-strings.Count(p.stderr, " at most\n"), p.stderr)
				require.Empty(t, p.stdout)
			}
		})
	}
	for _, c := range [][2]string{
		{"2 --rank 1", "--rank: needs --world-size and --master as well"},
		{"2 --rank 1 --world-size 2 --master x --processes 2", "--processes and --rank cannot be combined"},
		{"2 --rank 2 --world-size 2 --master 127.0.0.1:1", "--rank 2: must be 0 to 1, as 2 take part"},
		{"2 --rank 0 --world-size 2 --master 127.0.0.1", "--master 127.0.0.1: must be HOST:PORT"},
		{"2 --rank 0 --world-size 2 --master 203.0.113.7:1", "--token-file, or PSIM_TOKEN"},
		{"2 --rank 0 --world-size 2 --master 127.0.0.1:1 --token-file nosuch", "--token-file nosuch: cannot be read: no such file"},
		{"2 --token-file token", "--token-file: there are no processes to share it with"},
		{"2 --rank 0 --world-size 3 --master 127.0.0.1:1", "--world-size 3: more processes than devices (2)"},
	} {
		_, stderr, code := u.psim(t, line+c[0])
		require.Equal(t, exitUsage, code, c[0])
		require.Contains(t, stderr, c[1])
		require.Equal(t, 1, strings.Count(stderr, "psim: "))
	}
	u.environment = []string{"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1"} // too few, and only exec reads them
	_, stderr, code := u.psim(t, line+"2 --steps 1 --out -")
	require.Zero(t, code, stderr)
	u.environment = append(u.environment, "MASTER_PORT=1")
	_, stderr, code = u.psim(t, "psim run gpipe --out -")
	require.Zero(t, code, stderr)
}

// If a process is killed or stopped, the other one says so.
func TestGroupLost(t *testing.T) {
	t.Parallel()
	u := mlpUser(t)
	signals := map[string]syscall.Signal{"was lost: it ended without a message": syscall.SIGKILL, "does not answer": syscall.SIGSTOP}
	for want, signal := range signals {
		for who := range 2 {
			if who == 1 && signal == syscall.SIGSTOP && !long() {
				continue
			}
			t.Run(fmt.Sprint(signal, who), func(t *testing.T) {
				t.Parallel()
				host, port := freeMaster(t)
				var list []*exec.Cmd
				var said [2]bytes.Buffer
				for k := range 2 {
					cmd := u.command(t, strings.Fields(fmt.Sprintf("exec mlp.toml --gpus 2"+untimed+" --repeats 1 --stall 1s --steps 90000 --rank %d --world-size 2 --master %s:%s", k, host, port))...)
					cmd.Env, cmd.Stderr = append(cmd.Env, runMark+t.Name()), &said[k]
					require.NoError(t, cmd.Start())
					list = append(list, cmd)
				}
				time.Sleep(1500 * time.Millisecond)
				require.NoError(t, list[who].Process.Signal(signal))
				began := time.Now()
				require.Error(t, list[1-who].Wait())
				require.Less(t, time.Since(began), 10*time.Second)
				require.Regexp(t, fmt.Sprintf(`process %d \(pid %d on .*, rank %d\) %s`, who, list[who].Process.Pid, who, want), said[1-who].String())
				require.Equal(t, exitFailed, list[1-who].ProcessState.ExitCode())
				list[who].Process.Kill() // a stopped one of another user is theirs
				list[who].Wait()
				requireNoProcess(t, runMark+t.Name())
			})
		}
	}
}
