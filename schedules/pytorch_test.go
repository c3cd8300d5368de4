package schedules_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/internal/ordertest"
	"psim/schedules"
	"psim/schedules/graph"
)

// PyTorch's own loader takes the order of every schedule, with messages and without, except
// those with a stage on two ranks, and needs as many activations as psim counts in flight.
func TestPyTorchsLoader(t *testing.T) {
	python, folder := pythonWithTorch(t), t.TempDir()
	var files []string
	peaks := map[string][]int{} // by file; nil if a stage is on two ranks
	for _, s := range schedules.Catalog() {
		if !s.Pipelined {
			continue
		}
		for _, shape := range []graph.Shape{{Ranks: 4, Microbatches: 8}, {Ranks: 2, Microbatches: 6}} {
			shape.Virtual = 1
			if _, err := s.Order(shape, nil); err != nil {
				shape.Virtual = 2
			}
			p := ordertest.Shaped(t, s.Name, shape)
			withMessages, err := p.Order.WithMessages()
			require.NoError(t, err, s.Name)
			twice := p.Placement.Second != nil
			name := filepath.Join(folder, s.Name+string(rune('0'+shape.Ranks)))
			for file, text := range map[string]string{
				name + ".csv":       ordertest.CSV(t, p.Order),
				name + ".comms.csv": ordertest.CSV(t, withMessages.WithWaits()),
			} {
				if twice && strings.HasSuffix(file, ".comms.csv") {
					continue
				}
				require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
				files, peaks[file] = append(files, file), nil
				if !twice {
					peaks[file] = ordertest.Peaks(t, p)
				}
			}
		}
	}
	script, err := filepath.Abs("../tools/peers/orders.py")
	require.NoError(t, err)
	out, err := exec.Command(python, append([]string{script}, files...)...).CombinedOutput()
	require.NoError(t, err, string(out))
	answers := json.NewDecoder(bytes.NewReader(out))
	for range files {
		var a struct {
			File, Error string
			Slots       []int
		}
		require.NoError(t, answers.Decode(&a), string(out))
		name := filepath.Base(a.File)
		if peaks[a.File] == nil {
			require.Contains(t, a.Error, "AssertionError", name)
			continue
		}
		require.Empty(t, a.Error, name)
		require.Equal(t, peaks[a.File], a.Slots, name)
	}
}

// pythonWithTorch returns the Python of make peers-python, and skips the test without it.
func pythonWithTorch(t *testing.T) string {
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	python := filepath.Join(cmp.Or(os.Getenv("PSIM_PEERS"), filepath.Join(cache, "psim", "peers-python")), "bin", "python")
	if _, err := os.Stat(python); err != nil {
		t.Skip("no Python with PyTorch: make peers-python installs it")
	}
	return python
}
