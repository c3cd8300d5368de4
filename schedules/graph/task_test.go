package graph_test

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"psim/schedules/graph"
)

func TestTask(t *testing.T) {
	require.Equal(t, uintptr(32), unsafe.Sizeof(graph.Task{}))
	const none = graph.None
	for want, task := range map[string]graph.Task{
		"2F0":          {Kind: graph.Forward, Stage: 2, Microbatch: 0},
		"1SEND_F3":     {Kind: graph.SendForward, Stage: 1, Microbatch: 3},
		"2B5.1":        {Kind: graph.Backward, Stage: 2, Microbatch: 5, Part: 1},
		"3ALL_GATHER":  {Kind: graph.AllGather, Stage: 3, Microbatch: none},
		"SEND1.2":      {Kind: graph.Send, Stage: none, Microbatch: 1, Part: 2},
		"REDUCE.7":     {Kind: graph.Reduce, Stage: none, Microbatch: none, Part: 7},
		"0Kind(200)0":  {Kind: 200},
		"ALL_REDUCE.0": {Kind: graph.AllReduce, Stage: none, Microbatch: none},
	} {
		require.Equal(t, want, task.String())
	}
}

func TestKinds(t *testing.T) {
	var compute, message, collective, communication []string
	for k := graph.Forward; k < graph.Kinds; k++ {
		back, err := graph.ParseKind(k.String())
		require.NoError(t, err)
		require.Equal(t, k, back)
		for _, set := range []struct {
			in    bool
			names *[]string
		}{{k.Compute(), &compute}, {k.Message(), &message}, {k.Collective(), &collective}, {k.Communication(), &communication}} {
			if set.in {
				*set.names = append(*set.names, k.String())
			}
		}
	}
	require.Equal(t, []string{"F", "B", "I", "W", "LOSS"}, compute)
	require.Equal(t, []string{"SEND_F", "SEND_B", "SEND"}, message)
	require.Equal(t, []string{"ALL_REDUCE", "REDUCE_SCATTER", "ALL_GATHER", "BROADCAST", "ALL_TO_ALL"}, collective)
	require.Equal(t, []string{"SEND_F", "SEND_B", "SEND", "REDUCE", "COPY", "ALL_REDUCE", "REDUCE_SCATTER", "ALL_GATHER", "AVERAGE", "BROADCAST", "ALL_TO_ALL", "TO_HOST", "FROM_HOST"}, communication)
	_, err := graph.ParseKind("f")
	require.ErrorContains(t, err, `unknown kind of task "f"; the kinds are [F B I W`)
}

func TestShape(t *testing.T) {
	s := graph.Shape{Ranks: 4, Microbatches: 2}
	require.Equal(t, 4, s.Stages())
	require.Equal(t, 4, (&graph.Graph{Shape: s}).Ranks())
	s.Virtual, s.Replicas = 2, 3
	require.Equal(t, 8, s.Stages())
	require.Equal(t, 12, (&graph.Graph{Shape: s}).Ranks())
}
