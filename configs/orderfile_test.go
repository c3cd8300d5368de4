package configs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
	"psim/internal/ordertest"
	"psim/schedules/graph"
	"psim/schedules/order"
)

// withOrder writes an order beside a configuration, without schedule.name.
func withOrder(t *testing.T, o, sections string) string {
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "mine.csv"), []byte(o), 0o600))
	path := filepath.Join(folder, "x.toml")
	require.NoError(t, os.WriteFile(path, []byte("[schedule]\nfile = \"mine.csv\"\n"+sections), 0o600))
	return path
}

const (
	ownTimes = "[times]\nforward = \"10ms\"\nbackward_input = \"10ms\"\nbackward_weight = \"10ms\"\n"
	ownModel = "[model]\nfamily = \"gpt\"\nlayers = 4\nhidden = 64\nheads = 4\nvocab = 101\nsequence_length = 32\n[batch]\nglobal = 16\n[machine]\ndevice = \"t4\"\n"
)

// A file of a schedule's order is that schedule, with or without messages.
func TestOrderFile(t *testing.T) {
	for name, v := range map[string]string{"1f1b": "1", "interleaved-zero-bubble": "2", "zb-h2": "1", "looped-bfs": "2", "chimera": "1"} {
		sets := []string{"schedule.name=" + name, "schedule.virtual_stages=" + v, "times.backward_input=10ms", "times.backward_weight=10ms"}
		text := "[schedule]\nname = \"gpipe\"\nstages = 2\nmicrobatches = 4\n"
		experiment, want := run(t, parse(t, text+ownTimes, sets...))
		ranks := orderOf(experiment.Graph)
		withMessages, err := ranks.WithMessages()
		require.NoError(t, err)
		for _, o := range []order.Order{ranks, withMessages} {
			c, err := configs.Load(withOrder(t, ordertest.CSV(t, o), ownTimes))
			require.NoError(t, err)
			own, got := run(t, c)
			require.Equal(t, want, got, name)
			require.Equal(t, "mine.csv", own.Graph.Name)
			require.Equal(t, experiment.Graph.Shape, own.Graph.Shape)
		}
		model := text + ownModel
		experiment, want = run(t, parse(t, model, sets[:2]...))
		c, err := configs.Load(withOrder(t, ordertest.CSV(t, orderOf(experiment.Graph)), ownModel))
		require.NoError(t, err)
		_, got := run(t, c)
		require.Equal(t, want, got, name)
	}
}

// orderOf reads the compute order off a graph.
func orderOf(g *graph.Graph) order.Order {
	o := make(order.Order, g.Ranks())
	for _, task := range g.Tasks() {
		if task.Kind.Compute() {
			o[task.Rank] = append(o[task.Rank], order.Action{Kind: task.Kind, Stage: task.Stage, Microbatch: task.Microbatch})
		}
	}
	return o
}

func TestOrderFileErrors(t *testing.T) {
	const good = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"
	for _, c := range []struct {
		order, set, want string
	}{
		{"0F0,0B0,0F1,0B1\n1F0,1B1,1F1,1B0\n", "", `x.toml:2:9: schedule.file = "mine.csv": rank 1, step 1: 1B1 comes before its forward 1F1
  step      0   1   2   3
  rank 0: 0F0 0B0 0F1 0B1
  rank 1: 1F0 1B1 1F1 1B0
              ^^^`},
		{"0F0,0B0,0F1,0B1\n1F1,1F0,1B0,1B1\n", "", `schedule.file = "mine.csv": rank 0, step 1: 0B0 waits forever`},
		{"0F0,0X0", "", `schedule.file = "mine.csv": line 1, cell 2: "0X0" has the kind X`},
		{good, "schedule.stages=3", "schedule.stages=3: schedule.stages = 3: mine.csv has 2; remove stages, which follows from the file"},
		{good, "schedule.microbatches=3", "schedule.microbatches = 3: mine.csv has 2"},
		{good, "schedule.virtual_stages=2", "schedule.virtual_stages = 2: mine.csv has 1"},
		{good, "schedule.placement=[1,0]", "schedule.placement: has no meaning with file, which says where and in which order all is done; remove placement"},
		{good, "schedule.file=other.csv", `schedule.file=other.csv: cannot be read: no such file or directory`},
	} {
		sets := []string{}
		if c.set != "" {
			sets = append(sets, c.set)
		}
		require.ErrorContains(t, failure(configs.Load(withOrder(t, c.order, ownTimes), sets...)), c.want)
	}
	large := strings.Repeat(",", order.MaxFile)
	require.ErrorContains(t, failure(configs.Load(withOrder(t, large+good, ownTimes))), `schedule.file = "mine.csv": has more than 33554432 bytes; that is too large`)
	c, err := configs.Load(withOrder(t, large[:2<<20]+good, ownTimes))
	require.NoError(t, err)
	run(t, c)
	require.ErrorContains(t, failure(configs.Load(withOrder(t, good, ownModel), "parallel.zero=3")), "or remove schedule.file")
	split := "[times]\nforward = \"1ms\"\nbackward = \"2ms\"\n"
	require.ErrorContains(t, failure(configs.Load(withOrder(t, "0F0,0I0,0W0", split))), "times.backward_input is missing: the schedule splits the backward")
}

// An order of one's own is executed on as many devices as it has ranks.
func TestOrderFileExecutable(t *testing.T) {
	c, err := configs.Load(withOrder(t, "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n", ownModel))
	require.NoError(t, err)
	for _, devices := range []int{0, 2} {
		_, changes, err := c.Executable(devices)
		require.NoError(t, err)
		require.Equal(t, []string{"runs on the devices of this machine, not on t4"}, changes)
	}
	_, _, err = c.Executable(3)
	require.ErrorContains(t, err, "the order of schedule.file is for 2 ranks")
}

// Several stages per rank: times go by global stage, a network is cut into all
// of them.
func TestVirtualStages(t *testing.T) {
	sets := []string{"schedule.name=interleaved-1f1b", "schedule.virtual_stages=2"}
	experiment, s := run(t, parse(t, small, sets...))
	require.Equal(t, []int32{0, 1, 0, 1}, experiment.Graph.Placement.First)
	require.EqualValues(t, (4*2+1)*30e6, s.Makespan)
	experiment, _ = run(t, parse(t, small, append(sets, `times.forward=["1ms","2ms","3ms","4ms"]`)...))
	for i := range int32(experiment.Graph.Len()) {
		if task := new(experiment.Graph.Task(i)); task.Kind == graph.Forward {
			require.EqualValues(t, (task.Stage+1)*1e6, experiment.Costs.Task(task).Busy)
		}
	}
	err := failure(configs.Parse("x.toml", []byte(small), append(sets, `times.forward=["1ms","2ms"]`)...))
	require.ErrorContains(t, err, "times.forward = […]: 2 entries for 4 stages")
	err = failure(configs.Parse("x.toml", []byte(small), append(sets, "schedule.microbatches=5", "schedule.stages=3", "schedule.microbatches=7")...))
	require.ErrorContains(t, err, "schedule.microbatches = 7: over 3 ranks they must go in 2 rounds of equal size; the nearest numbers that do are 6 and 8")
	err = failure(configs.Parse("x.toml", []byte(small), append(sets, "schedule.group=3")...))
	require.ErrorContains(t, err, "schedule.group=3: schedule.group = 3: of 4 microbatches the last group would have 1, fewer than the 2 ranks; use one of 2, 4")
	err = failure(configs.Parse("x.toml", []byte(small), append(sets, "schedule.placement=[0,0,1,1]")...))
	require.ErrorContains(t, err, "schedule.placement: placement of stage 1 on rank 0: interleaved-1f1b needs it on rank 1")

	experiment, _ = run(t, parse(t, networkKeys, append(sets, "schedule.virtual_stages=3")...))
	require.Len(t, experiment.Staged.Layers, 6)
	require.Equal(t, experiment.Graph.Placement.First, experiment.Staged.Placement.First)
	err = failure(configs.Parse("x.toml", []byte(networkKeys), append(sets, "schedule.virtual_stages=4")...))
	require.ErrorContains(t, err, "schedule.virtual_stages = 4: 8 stages in all, but gpt-4x64 has 7 layers")
	err = failure(configs.Parse("x.toml", []byte(small), append(sets, "schedule.virtual_stages=2000000000")...))
	require.ErrorContains(t, err, "more than 2147483647")
}

// What PyTorch writes with every form with communication is read, has no effect,
// and is said.
func TestOrderFileWithSharding(t *testing.T) {
	const plain = "0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n"
	const sharded = "0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0,0RESHARD,0REDUCE_GRAD\r\n1UNSHARD,1RECV_F0,1F0,1B0,1SEND_B0,1RESHARD,1REDUCE_GRAD\r\n"
	times := "[times]\nforward = \"10ms\"\nbackward = \"20ms\"\n"
	load := func(o string) *configs.Config {
		c, err := configs.Load(withOrder(t, o, times))
		require.NoError(t, err)
		return c
	}
	want, trace := run(t, load(plain))
	got, sameTrace := run(t, load(sharded))
	require.Equal(t, trace, sameTrace)
	require.Empty(t, want.Warnings)
	require.Equal(t, []string{"mine.csv: UNSHARD, RESHARD and REDUCE_GRAD are left out: psim sums gradients as [parallel] says"}, got.Warnings)
}
