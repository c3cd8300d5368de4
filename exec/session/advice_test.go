package session

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel"
	"psim/internal/ram"
)

var advised = regexp.MustCompile(`--set (\S+)`)

// The settings that a run is advised to use make it fit, with the same number of devices.
func TestAdviceFits(t *testing.T) {
	for _, c := range []struct {
		name    string
		devices int
		sets    []string
		shares  []float64 // free, as a share of what is needed
	}{
		{"ddp", 2, nil, []float64{0.9, 0.6, 0.4, 0.25}},
		{"ddp", 3, []string{"schedule.name=fsdp"}, []float64{0.9, 0.5}},
		{"gpipe", 2, nil, []float64{0.9, 0.4}},
		{"ddp", 2, []string{"batch.global=8", "batch.micro=4"}, []float64{0.7}},
	} {
		for _, share := range c.shares {
			t.Run(fmt.Sprint(c.name, share), func(t *testing.T) {
				r := planned(t, c.name, c.devices, c.sets...)
				need, err := r.bytesNeeded()
				require.NoError(t, err)
				free := int64(share * need)
				err = r.checkMemory(Options{}, ram.Room{Free: free})
				require.ErrorContains(t, err, "of this machine's memory are free; ")
				require.ErrorContains(t, err, " would fit")
				sets := c.sets
				for _, m := range advised.FindAllStringSubmatch(err.Error(), -1) {
					sets = append(sets, m[1])
				}
				again := planned(t, c.name, c.devices, sets...)
				require.NoError(t, again.checkMemory(Options{}, ram.Room{Free: free}), sets)
				require.Equal(t, c.devices, again.Experiment.Graph.Ranks())
			})
		}
	}
	err := planned(t, "ddp", 2).checkMemory(Options{}, ram.Room{Free: 1e9})
	require.ErrorContains(t, err, "are free; train a smaller network")
	require.NoError(t, planned(t, "ddp", 2).checkMemory(Options{}, ram.Room{Free: 1e12}))
}

// In a container of 4 GB VGG16 has no room for four workers, little for two, and enough
// for one or for the pipeline of three.
func TestContainer(t *testing.T) {
	here := ram.Room{Free: 3.9e9, Container: 4e9}
	err := planned(t, "vgg16-cpu-ddp", 4).checkMemory(Options{}, here)
	require.ErrorContains(t, err, "vgg16-cpu-ddp: the tensors of all devices need 4.71 GB at least, and 3.90 GB of the container's 4.00 GB are free; use fewer workers (--gpus 1)")
	var warnings []string
	o := Options{Warn: func(what string) { warnings = append(warnings, what) }}
	require.NoError(t, planned(t, "vgg16-cpu-ddp", 1).checkMemory(o, here))
	require.NoError(t, planned(t, "vgg16-cpu-pipeline", 3).checkMemory(o, here))
	require.Empty(t, warnings)
	require.NoError(t, planned(t, "vgg16-cpu-ddp", 2).checkMemory(o, here))
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0], "vgg16-cpu-ddp: the tensors of all devices need 2.56 GB, and 3.90 GB of the container's 4.00 GB are free")
	require.Contains(t, warnings[0], "use fewer workers (--gpus 1)")
}

// planned returns a run that was built and not begun.
func planned(t *testing.T, name string, devices int, sets ...string) *Trial {
	t.Helper()
	c, _, err := Load(name, devices, sets...)
	require.NoError(t, err)
	r := &Trial{Config: c}
	require.NoError(t, r.build())
	require.Equal(t, costmodel.MachineOptions{Device: "cpu-core"}, c.Machine)
	return r
}
