package psim_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim"
	"psim/advise"
	"psim/results"
)

// predicted is what psim predicts, with advice.
func predicted(t require.TestingT, name string, sets ...string) *psim.Prediction {
	c, err := psim.Load(name, sets...)
	require.NoError(t, err)
	p, err := psim.Predict(context.Background(), c)
	require.NoError(t, err)
	advise.Fit(context.Background(), p)
	return p
}

// Four workers with VGG16 do not fit into a container of 4 GB, and three do; each keeps
// its batch.
func TestMemoryPerNode(t *testing.T) {
	r := predicted(t, "vgg16-cpu-ddp", "machine.memory_per_node=4GB").Result
	require.Equal(t, results.DoesNotFit, r.MemoryVerdict)
	require.False(t, r.FitsMemory)
	require.Equal(t, []results.NodeResult{{Devices: 4, PeakMemory: 4 * r.PeakMemory(), MemoryCapacity: 4e9}}, r.Nodes)
	require.Contains(t, r.Warnings, "node 0 needs 4.71 GB of memory for its 4 devices and has 4.00 GB, 713 MB too little")
	require.Equal(t, []string{"parallel.data=3", "batch.global=192"}, r.WouldFit[0].Set)
	require.Contains(t, r.Warnings[1], "it would fit with fewer workers: --set parallel.data=3 --set batch.global=192 (")
	require.True(t, predicted(t, "vgg16-cpu-ddp", r.WouldFit[0].Set[0], r.WouldFit[0].Set[1], "machine.memory_per_node=4GB").Result.Fits())

	r = predicted(t, "vgg16-cpu-ddp", "machine.memory_per_node=5GB", "machine.memory_margin=0.1").Result
	require.Equal(t, results.Close, r.MemoryVerdict)
	require.True(t, r.FitsMemory)
	require.Empty(t, predicted(t, "vgg16-cpu-ddp").Result.Nodes)

	// An order that is searched for leaves what its node lacks.
	alone := predicted(t, "gpipe", "schedule.name=auto").Result
	sum := nodeSum(alone)
	r = predicted(t, "gpipe", "schedule.name=auto", "machine.memory_per_node=8GB").Result
	require.Greater(t, sum, int64(8e9))
	require.True(t, r.Fits(), "%v", r.Warnings)
	require.Greater(t, r.StepTime, alone.StepTime)
	slower := r.StepTime
	for _, memory := range []string{"10GB", "12GB", "14GB"} {
		r := predicted(t, "gpipe", "schedule.name=auto", "machine.memory_per_node="+memory).Result
		require.True(t, r.Fits(), "%s: %v", memory, r.Warnings)
		require.LessOrEqual(t, r.StepTime, slower, memory)
		slower = r.StepTime
	}
}

// nodeSum adds up the peaks of all devices.
func nodeSum(r results.Result) (sum int64) {
	for _, rank := range r.Ranks {
		sum += rank.PeakMemory * int64(r.TensorParallel)
	}
	return sum
}

// However devices are divided among nodes, these hold all of them, each with as many as it
// has room for, and what they need is what the devices need.
func TestNodesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		per := rapid.IntRange(1, 9).Draw(t, "per node")
		c, err := psim.Load("gpipe", append(drawTraining(t), "machine.memory_per_node=1GB", fmt.Sprint("machine.devices_per_node=", per))...)
		require.NoError(t, err)
		p, err := psim.Predict(context.Background(), c)
		if err != nil {
			t.Skip(err)
		}
		var sum int64
		devices, short := 0, false
		for i, n := range p.Result.Nodes {
			require.Equal(t, i, n.Node)
			require.LessOrEqual(t, n.Devices, per)
			sum += n.PeakMemory
			devices += n.Devices
			short = short || n.PeakMemory > n.MemoryCapacity
		}
		require.Equal(t, p.Result.Devices, devices)
		require.Equal(t, nodeSum(p.Result), sum)
		require.True(t, !short || !p.Result.FitsMemory)
	})
}
