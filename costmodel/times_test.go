package costmodel_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/costmodel"
	"psim/internal/golden"
	"psim/schedules/graph"
	"psim/schedules/order"
)

// table decodes a value as the TOML library hands it over.
func table(t *testing.T, value any) costmodel.TimeTable {
	t.Helper()
	var table costmodel.TimeTable
	require.NoError(t, table.UnmarshalTOML(value))
	require.True(t, table.Set())
	return table
}

func TestTable(t *testing.T) {
	one := table(t, "10ms")
	require.Equal(t, costmodel.Uniform(10*time.Millisecond), one)
	require.Equal(t, 10*time.Millisecond, one.At(7, 9))
	perStage := table(t, []any{"1s", "2s"})
	require.Equal(t, time.Second, perStage.At(0, 5))
	require.Equal(t, 2*time.Second, perStage.At(1, 0))
	mixed := table(t, []any{[]any{"1s", "2s"}, "3s", []any{"4s"}})
	for stage, row := range [][]time.Duration{{1, 2}, {3, 3}, {4, 4}} {
		for m, want := range row {
			require.Equal(t, want*time.Second, mixed.At(int32(stage), int32(m)))
		}
	}
	require.False(t, costmodel.TimeTable{}.Set())
	require.Zero(t, costmodel.TimeTable{}.At(3, 4))
	// A list of one is a list, for one stage.
	require.EqualError(t, costmodel.Times{Forward: table(t, []any{"1s"}), Backward: one}.Validate(2, 1, false),
		"forward = […]: 1 entries for 2 stages; give one duration for all, or one per stage")
	// A later value replaces an earlier one.
	again := mixed
	require.NoError(t, again.UnmarshalTOML("5s"))
	require.Equal(t, 5*time.Second, again.At(2, 1))
	require.Equal(t, time.Second, mixed.At(0, 0))
}

func TestTimesErrors(t *testing.T) {
	var b strings.Builder
	for _, value := range []any{
		"", "10", "10 parsecs", "-1ms", int64(3), 2.5, true, map[string]any{"a": "1s"}, []any{}, []any{"1s", int64(2)},
		[]any{"1s", []any{}}, []any{[]any{"1s", "x"}}, []any{[]any{[]any{"1s"}}}, []map[string]any{{"a": "1s"}},
	} {
		var table costmodel.TimeTable
		err := table.UnmarshalTOML(value)
		require.Error(t, err)
		fmt.Fprintf(&b, "%-24s %v\n", fmt.Sprintf("%#v", value), err)
	}
	b.WriteString("\n")
	s, years := costmodel.Uniform(time.Second), costmodel.Uniform(1<<62)
	two, ragged := table(t, []any{"1s", "1s"}), table(t, []any{"1s", []any{"1s", "2s"}, "3s"})
	for _, e := range []struct {
		what  string
		split bool
		times costmodel.Times
	}{
		{"nothing", false, costmodel.Times{}},
		{"no backward", false, costmodel.Times{Forward: s}},
		{"no forward", false, costmodel.Times{Backward: s}},
		{"whole and I", false, costmodel.Times{Forward: s, Backward: s, InputGradient: s}},
		{"whole and both", true, costmodel.Times{Forward: s, Backward: s, InputGradient: s, WeightGradient: s}},
		{"I alone", true, costmodel.Times{Forward: s, InputGradient: s}},
		{"W alone", false, costmodel.Times{Forward: s, WeightGradient: s}},
		{"split, whole", true, costmodel.Times{Forward: s, Backward: s}},
		{"two for three stages", false, costmodel.Times{Forward: s, Backward: two}},
		{"ragged", false, costmodel.Times{Forward: ragged, Backward: s}},
		{"I ragged", true, costmodel.Times{Forward: s, InputGradient: ragged, WeightGradient: s}},
		{"W of two", true, costmodel.Times{Forward: s, InputGradient: s, WeightGradient: two}},
		{"years", false, costmodel.Times{Forward: s, Backward: years}},
		{"years of p2p", false, costmodel.Times{Forward: s, Backward: s, PointToPoint: 1 << 62}},
		{"years of optimizer", false, costmodel.Times{Forward: s, Backward: s, Optimizer: 1 << 62}},
	} {
		err := e.times.Validate(3, 4, e.split)
		require.Error(t, err, e.what)
		fmt.Fprintf(&b, "%-24s %v\n", e.what, err)
	}
	b.WriteString("\n")
	err := costmodel.MemoryOptions{Activation: 5, FreedByInputGradient: 6}.Validate()
	require.Error(t, err)
	fmt.Fprintf(&b, "%-24s %v\n", "freed more", err)
	golden.Equal(t, "times-errors.golden", b.String())
}

func TestTimesValidate(t *testing.T) {
	s := costmodel.Uniform(time.Second)
	rows := table(t, []any{"1s", []any{"1s", "2s", "3s", "4s"}, []any{"3s"}})
	for _, times := range []costmodel.Times{
		{Forward: s, Backward: s}, {Forward: rows, Backward: rows, PointToPoint: 5}, {Forward: s, InputGradient: s, WeightGradient: rows},
	} {
		require.NoError(t, times.Validate(3, 4, false))
	}
	require.NoError(t, costmodel.Times{Forward: s, InputGradient: s, WeightGradient: rows}.Validate(3, 4, true))
	require.NoError(t, costmodel.MemoryOptions{Activation: 5, FreedByInputGradient: 5}.Validate())
}

// What every kind of task costs, whole and in halves, and what it does to the
// memory.
func TestTimesCosts(t *testing.T) {
	const ms = time.Millisecond
	memory := costmodel.MemoryOptions{Activation: 10, FreedByInputGradient: 4}
	times := costmodel.Times{
		Forward: table(t, []any{"1ms", []any{"2ms", "3ms"}}), InputGradient: costmodel.Uniform(4 * ms),
		WeightGradient: costmodel.Uniform(5 * ms), PointToPoint: 6e6, Optimizer: 7e6,
	}
	cost := func(k graph.Kind, stage, m int32) graph.Cost {
		return times.Costs(memory, graph.Placement{}).Task(&graph.Task{Kind: k, Stage: stage, Microbatch: m})
	}
	require.Equal(t, graph.Cost{Busy: ms, BytesAtStart: 10}, cost(graph.Forward, 0, 1))
	require.Equal(t, graph.Cost{Busy: 3 * ms, BytesAtStart: 10}, cost(graph.Forward, 1, 1))
	require.Equal(t, graph.Cost{Busy: 4 * ms, BytesAtEnd: -4}, cost(graph.InputGradient, 1, 0))
	require.Equal(t, graph.Cost{Busy: 5 * ms, BytesAtEnd: -6}, cost(graph.WeightGradient, 1, 0))
	require.Equal(t, graph.Cost{Busy: 9 * ms, BytesAtEnd: -10}, cost(graph.Backward, 1, 0)) // both halves
	require.Equal(t, graph.Cost{Delay: 6 * ms}, cost(graph.SendForward, 0, 0))
	require.Equal(t, graph.Cost{Delay: 6 * ms}, cost(graph.SendBackward, 1, 0))
	require.Equal(t, graph.Cost{Busy: 7 * ms}, cost(graph.Optimizer, -1, -1))
	require.Equal(t, graph.Cost{}, cost(graph.Average, -1, -1))
	times = costmodel.Times{Forward: costmodel.Uniform(ms), Backward: costmodel.Uniform(2 * ms)}
	require.Equal(t, graph.Cost{Busy: 2 * ms, BytesAtEnd: -10}, cost(graph.Backward, 0, 0))
	require.Nil(t, times.Costs(memory, graph.Placement{}).Persistent)
}

// Memory in halves balances, and holds what W has not freed.
func TestTimesLedger(t *testing.T) {
	const ms = time.Millisecond
	times := costmodel.Times{Forward: costmodel.Uniform(ms), InputGradient: costmodel.Uniform(ms), WeightGradient: costmodel.Uniform(ms)}
	w := workload(t, mlp(t, 4, 4), []int32{0, 1, 2, 3}, 1, 1, 1, 1, 1, 1)
	costs := times.Costs(costmodel.MemoryOptions{Activation: 10, FreedByInputGradient: 4}, graph.Placement{})
	o := orderOf(t, "1f1b", w)
	peaks := func(o order.Order) []int64 { return ledger(t, run(t, graphOf(t, w, o), costs)) }
	require.Equal(t, []int64{40, 30, 20, 10}, peaks(o))
	require.Equal(t, []int64{40, 30, 20, 10}, peaks(splitOrders(o)["at once"]))
	// The last rank holds all six of what W frees, and the one it is at.
	require.EqualValues(t, 5*6+10, peaks(splitOrders(o)["last"])[3])
}

// The host's time comes before the first kernel of every computing task, and of
// no other.
func TestHostTime(t *testing.T) {
	times := costmodel.Times{Forward: costmodel.Uniform(3), Backward: costmodel.Uniform(5), Optimizer: 7}
	require.Nil(t, times.Costs(costmodel.MemoryOptions{}, graph.Placement{}).Host)
	times.Host = 2
	costs := times.Costs(costmodel.MemoryOptions{}, graph.Placement{})
	require.Equal(t, &graph.Host{Waits: true}, costs.Host)
	require.Equal(t, graph.Cost{Busy: 3, Launch: 2, LaunchLead: 2}, costs.Task(&graph.Task{Kind: graph.Forward}))
	require.Equal(t, graph.Cost{Busy: 7}, costs.Task(&graph.Task{Kind: graph.Optimizer}))
}

// That of messages comes before what begins with one: no W, no first F and last B, and
// nothing that stays on its rank.
func TestHostTimeOfMessages(t *testing.T) {
	times := costmodel.Times{Forward: costmodel.Uniform(3), Backward: costmodel.Uniform(5), Host: 2, HostMessage: 10}
	costs := times.Costs(costmodel.MemoryOptions{}, graph.Placement{First: []int32{0, 1, 1, 0}}) // a V
	for _, c := range []struct {
		kind  graph.Kind
		leads []time.Duration // by stage
	}{
		{graph.Forward, []time.Duration{2, 12, 2, 12}},
		{graph.Backward, []time.Duration{12, 2, 12, 2}},
		{graph.InputGradient, []time.Duration{12, 2, 12, 2}},
		{graph.WeightGradient, []time.Duration{2, 2, 2, 2}},
		{graph.SendForward, []time.Duration{0, 0, 0, 0}},
	} {
		for s, want := range c.leads {
			require.Equal(t, want, costs.Task(&graph.Task{Kind: c.kind, Stage: int32(s)}).LaunchLead, "%v %d", c.kind, s)
		}
	}
}
