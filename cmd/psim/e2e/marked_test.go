package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// marked lists the running processes with a variable in their environment by age, except mpirun and
// this one.
func marked(t *testing.T, variable string) (pids []int) {
	folders, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(t, err)
	for _, folder := range folders {
		environment, err1 := os.ReadFile(filepath.Join(folder, "environ"))
		stat, err2 := os.ReadFile(filepath.Join(folder, "stat"))
		_, state, _ := strings.Cut(string(stat), ") ")
		pid, err3 := strconv.Atoi(filepath.Base(folder))
		if err1 != nil || err2 != nil || err3 != nil || strings.HasPrefix(state, "Z") || strings.Contains(string(stat), "(mpirun) ") || pid == os.Getpid() {
			continue
		}
		if slices.Contains(strings.Split(string(environment), "\x00"), variable) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// requireNoProcess waits until no process with a variable in its environment is left.
func requireNoProcess(t *testing.T, variable string) {
	t.Helper()
	require.Eventually(t, func() bool { return len(marked(t, variable)) == 0 }, 3*time.Second, time.Millisecond, "processes are left")
}
