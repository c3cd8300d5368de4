package configs_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
)

// What a node has, and what messages and groups go through.
func TestNotesOfNodes(t *testing.T) {
	c, err := configs.Load("gpipe", "machine.devices_per_node=2", "machine.network=ib-hdr", "machine.nics_per_node=1")
	require.NoError(t, err)
	experiment, err := c.Build()
	require.NoError(t, err)
	notes := c.MachineNotes(experiment)
	require.Contains(t, notes, "decides  2 nodes of 2 devices, each with 1 network card: ib-hdr")
	require.Contains(t, notes, "decides  messages between ranks: ib-hdr and nvlink3-a100")
}

// What a configuration reads and assumes, and what its plan decides.
func ExampleConfig_Inputs() {
	c, err := configs.Load("vgg16-cpu-pipeline", "parallel.data=2", "batch.global=128")
	if err != nil {
		panic(err)
	}
	experiment, err := c.Build()
	if err != nil {
		panic(err)
	}
	for _, lines := range [][]string{c.Inputs(), c.Decisions(experiment), c.MachineNotes(experiment)} {
		for _, line := range lines {
			fmt.Println(line)
		}
	}
	// Output:
	// reads    example vgg16-cpu-pipeline
	// reads    setting parallel.data=2
	// reads    setting batch.global=128
	// assumes  train.recompute = "none"
	// assumes  parallel.bucket = "25MB"
	// assumes  parallel.overlap = true
	// assumes  parallel.collectives = "nccl"
	// decides  network vgg16-pipeline: 13 layers, 33,638,218 parameters
	// decides  2, 3, 8 layers on stages 0 to 2, as schedule.partition says
	// decides  2 microbatches of 32 samples, 2 replicas
	// decides  1, 3, 2 buckets of gradients by stage, the largest of 67.3 MB
	// reads    device cs1390-core of the catalog
	// reads    link gloo-cs1390 of the catalog
	// assumes  no machine.host: launching takes no thread of the host
	// assumes  no machine.devices_per_node: all are in one node
	// assumes  machine.memory_margin = 0
	// decides  large products reach 10.6 GFLOP/s in fp32
	// decides  no limit of memory is known
	// decides  messages between ranks: gloo-cs1390
	// decides  collectives over 2 ranks: gloo-cs1390
}

// The links that parts of sequences meet on, and what they share with replicas.
func TestNotesOfContext(t *testing.T) {
	for _, e := range []struct {
		perNode, want string
	}{
		{"8", "nvlink4-h100"},
		{"4", "nvlink4-h100 and ib-ndr"},
		{"2", "ib-ndr"},
	} {
		c, err := configs.Load("llama3-70b", "parallel.tensor=2", "parallel.context=4", "batch.global=16", "machine.devices_per_node="+e.perNode)
		require.NoError(t, err)
		experiment, err := c.Build()
		require.NoError(t, err)
		notes := c.MachineNotes(experiment)
		require.Contains(t, notes, "decides  sequences in 4 parts, which attend to each other by ring: "+e.want)
		require.True(t, slices.ContainsFunc(notes, func(s string) bool { return strings.HasPrefix(s, "decides  collectives over 8 devices: ") }))
	}
}
