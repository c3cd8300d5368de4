package schedules_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/internal/ordertest"
	"psim/schedules"
	"psim/schedules/graph"
)

// readJSON decodes a file of testdata.
func readJSON[T any](t *testing.T, name string) (v T) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &v))
	return v
}

func TestPublishedOrders(t *testing.T) {
	type entry struct {
		Schedule string
		P, M, V  int
		Order    []string
		Peak     []int `json:"peak_in_flight"`
	}
	for file, count := range map[string]int{"orders.json": 8, "orders_looped.json": 12, "orders_zb.json": 6, "orders_zbv.json": 4, "orders_pairs.json": 5} {
		entries := readJSON[[]entry](t, file)
		require.Len(t, entries, count)
		for _, e := range entries {
			t.Run(fmt.Sprintf("%s P=%d M=%d V=%d", e.Schedule, e.P, e.M, e.V), func(t *testing.T) {
				p := ordertest.Shaped(t, e.Schedule, graph.Shape{Ranks: e.P, Microbatches: e.M, Virtual: e.V})
				require.Equal(t, strings.Join(e.Order, "\n")+"\n", p.Order.String())
				require.Equal(t, e.Peak, ordertest.Peaks(t, p))
			})
		}
	}
}

func TestOrders(t *testing.T) {
	for _, c := range []struct {
		name                string
		ranks, microbatches int
		placement           []int32
		want                string
		peak                []int
	}{
		{"gpipe", 3, 2, nil, `
			0F0 0F1 0B0 0B1
			1F0 1F1 1B0 1B1
			2F0 2F1 2B0 2B1`, []int{2, 2, 2}},
		{"torchgpipe", 3, 2, nil, `
			0F0 0F1 0B1 0B0
			1F0 1F1 1B1 1B0
			2F0 2F1 2B1 2B0`, []int{2, 2, 2}},
		{"hw4", 2, 3, []int32{0, 1, 0}, `
			0F0 0F1 0F2 2F0 2F1 2F2 2B2 2B1 2B0 0B2 0B1 0B0
			1F0 1F1 1F2 1B2 1B1 1B0`, []int{6, 3}},
		{"1f1b", 4, 2, nil, `
			0F0 0F1 0B0 0B1
			1F0 1F1 1B0 1B1
			2F0 2F1 2B0 2B1
			3F0 3B0 3F1 3B1`, []int{2, 2, 2, 1}},
		{"1f1b", 3, 4, nil, `
			0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3
			1F0 1F1 1B0 1F2 1B1 1F3 1B2 1B3
			2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3`, []int{3, 2, 1}},
		{"1f1b", 3, 1, nil, `
			0F0 0B0
			1F0 1B0
			2F0 2B0`, []int{1, 1, 1}},
		{"ddp", 1, 2, nil, `0F0 0B0 0F1 0B1`, []int{1}},
		{"model-parallel", 2, 2, nil, `
			0F0 0B0 0F1 0B1
			1F0 1B0 1F1 1B1`, []int{1, 1}},
		{"model-parallel", 2, 2, []int32{0, 1, 0}, `
			0F0 2F0 2B0 0B0 0F1 2F1 2B1 0B1
			1F0 1B0 1F1 1B1`, []int{2, 1}},
		{"gpipe", 2, 2, []int32{0, 1, 1, 0}, `
			0F0 0F1 3F0 3F1 3B0 3B1 0B0 0B1
			1F0 1F1 2F0 2F1 2B0 2B1 1B0 1B1`, []int{4, 4}},
	} {
		t.Run(fmt.Sprintf("%s P=%d M=%d %v", c.name, c.ranks, c.microbatches, c.placement), func(t *testing.T) {
			require.Equal(t, ordertest.Text(c.want), ordertest.Order(t, c.name, c.ranks, c.microbatches, c.placement...).String())
			require.Equal(t, c.peak, ordertest.Peaks(t, ordertest.Pipeline(t, c.name, c.ranks, c.microbatches, c.placement...)))
		})
	}
}

// Every schedule of the catalog is legal for every shape that it accepts, and
// its Stages are the placement it was given.
func TestOrdersAreLegal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, shape := drawServed(t)
		if s.Placement(shape).Second != nil {
			checkCopies(t, s, shape)
			return
		}
		placement, m := s.Placement(shape).First, shape.Microbatches
		if s.MultiStage {
			extra := rapid.SliceOfN(rapid.Int32Range(0, int32(shape.Ranks-1)), 0, 5).Draw(t, "extra")
			placement = rapid.Permutation(append(placement, extra...)).Draw(t, "placement")
		}
		if s.Grouped && rapid.Bool().Draw(t, "grouped") {
			if shape.Group = rapid.IntRange(1, m).Draw(t, "group"); s.Check(shape) != nil {
				shape.Group = 0
			}
		}
		if s.PerRank > 0 && shape.Virtual == s.PerRank && rapid.Bool().Draw(t, "left to the schedule") {
			shape.Virtual = 0
		}
		o, err := s.Order(shape, placement)
		require.NoError(t, err)
		require.NoError(t, o.Validate(graph.Placement{First: placement}, m))
		stages, err := o.Placement()
		require.NoError(t, err)
		require.Equal(t, graph.Placement{First: placement}, stages)
		require.Equal(t, m, o.Microbatches())
	})
}

// checkCopies checks a schedule that holds every stage twice: what is needed is
// there once, on the ranks that its microbatch goes through.
func checkCopies(t *rapid.T, s schedules.Schedule, shape graph.Shape) {
	p := ordertest.Shaped(t, s.Name, shape)
	for r, actions := range p.Order {
		for _, a := range actions {
			rank := a.Stage
			if 2*int(a.Microbatch) >= shape.Microbatches {
				rank = int32(shape.Ranks-1) - a.Stage
			}
			require.EqualValues(t, rank, r)
		}
	}
	p.Placement.Second[0] = 0
	_, err := p.Graph()
	require.EqualError(t, err, "both copies of stage 0 are on rank 0")
	p.Placement.Second[0] = int32(shape.Ranks)
	_, err = p.Graph()
	require.ErrorContains(t, err, "second copy on rank")
	p.Placement.Second = p.Placement.Second[1:]
	_, err = p.Graph()
	require.ErrorContains(t, err, "second copies of")
}

// Megatron-LM's own example of groups: five microbatches over two ranks with two
// chunks each, in a group of three and one of two.
func TestGroups(t *testing.T) {
	p := ordertest.Shaped(t, "interleaved-1f1b", graph.Shape{Ranks: 2, Microbatches: 5, Virtual: 2, Group: 3})
	require.Equal(t, []int32{0, 1, 0, 1}, p.Placement.First)
	require.Equal(t, ordertest.Text(`
		0F0 0F1 0F2 2F0 2F1 2F2 2B0 0F3 2B1 0F4 2B2 2F3 0B0 2F4 0B1 0B2 2B3 2B4 0B3 0B4
		1F0 1F1 1F2 3F0 3B0 3F1 3B1 3F2 3B2 1F3 1B0 1F4 1B1 3F3 1B2 3F4 3B3 3B4 1B3 1B4`), p.Order.String())

	// As large as the rounds, a group changes nothing.
	grouped := ordertest.Shaped(t, "interleaved-1f1b", graph.Shape{Ranks: 3, Microbatches: 8, Virtual: 2, Group: 4})
	rounds := ordertest.Shaped(t, "interleaved-1f1b", graph.Shape{Ranks: 3, Microbatches: 8, Virtual: 2})
	require.Equal(t, rounds.Order, grouped.Order)
}

// With one stage per rank, looped schedules are those that they grew from.
func TestOneChunk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks, m := rapid.IntRange(1, 9).Draw(t, "ranks"), rapid.IntRange(1, 24).Draw(t, "microbatches")
		for looped, plain := range map[string]string{"interleaved-1f1b": "1f1b", "interleaved-zero-bubble": "zb-h1", "looped-bfs": "torchgpipe"} {
			require.Equal(t, ordertest.Order(t, plain, ranks, m), ordertest.Order(t, looped, ranks, m), looped)
		}
	})
}

func TestScheduleErrors(t *testing.T) {
	shape := func(ranks, microbatches int) graph.Shape {
		return graph.Shape{Ranks: ranks, Microbatches: microbatches}
	}
	for _, c := range []struct {
		name      string
		shape     graph.Shape
		placement []int32
		want      string
	}{
		{"1f1b", shape(0, 1), nil, "stages = 0: there must be at least 1"},
		{"1f1b", shape(2, 0), nil, "microbatches = 0: there must be at least 1"},
		{"1f1b", graph.Shape{Ranks: 2, Virtual: 2, Microbatches: 2}, nil, "virtual_stages = 2: 1f1b holds one stage per rank; remove virtual_stages or set it to 1"},
		{"ddp", shape(2, 1), nil, "stages = 2: ddp does not split the network, so it takes 1; its copies are set by parallel.data"},
		{"gpipe", shape(1<<16, 1<<16), nil, "stages = 65536 × microbatches = 65536: more than 2147483647 tasks"},
		{"1f1b", shape(2, 2), []int32{0, 1, 0}, "1f1b cannot run 3 stages on 2 ranks: it needs one stage per rank (gpipe and model-parallel take any placement)"},
		{"1f1b", shape(2, 2), []int32{1, 0}, "placement of stage 0 on rank 1: 1f1b needs stage s on rank s (gpipe and model-parallel take any placement)"},
		{"gpipe", shape(2, 2), []int32{0, 2}, "placement of stage 1 on rank 2: the ranks are 0 to 1"},
	} {
		s, err := schedules.Find(c.name)
		require.NoError(t, err)
		_, err = s.Order(c.shape, c.placement)
		require.EqualError(t, err, c.want)
	}
	for _, c := range []struct {
		name                        string
		ranks, m, virtual, grouping int
		want                        string
	}{
		{"interleaved-1f1b", 3, 7, 2, 0, "microbatches = 7: over 3 ranks they must go in 2 rounds of equal size; the nearest numbers that do are 6 and 8"},
		{"interleaved-zero-bubble", 2, 9, 3, 0, "microbatches = 9: over 2 ranks they must go in 4 rounds of equal size; the nearest numbers that do are 8 and 10"},
		{"interleaved-1f1b", 4, 8, 2, 3, "group = 3: must be from stages = 4 to microbatches = 8"},
		{"interleaved-1f1b", 4, 2, 2, 3, "group = 3: a group needs a microbatch for each of the 4 ranks, and there are only 2; remove group"},
		{"interleaved-1f1b", 4, 12, 2, 5, "group = 5: of 12 microbatches the last group would have 2, fewer than the 4 ranks; use one of 4, 6, 7, 8, 12"},
		{"interleaved-1f1b", 2, 40, 2, 39, "group = 39: of 40 microbatches the last group would have 1, fewer than the 2 ranks; use one of 2, 4, 5, 6, 7, 8, 9, 10, …"},
		{"interleaved-1f1b", 4, 8, 1, 4, "group = 4: the microbatches of a group pass through a rank's chunks together; with virtual_stages = 1 there is nothing to group"},
		{"zbv", 4, 8, 3, 0, "virtual_stages = 3: zbv holds 2 stages per rank; remove virtual_stages or set it to 2"},
		{"dualpipev", 4, 7, 2, 0, "microbatches = 7: dualpipev over 4 ranks needs at least 8"},
		{"dualpipe", 3, 8, 1, 0, "stages = 3: dualpipe has two directions, which meet in the middle; the next even numbers are 2 and 4"},
		{"dualpipe", 1, 8, 1, 0, "stages = 1: dualpipe has two directions, which meet in the middle; the least even number is 2"},
		{"chimera", 2, 1, 1, 0, "microbatches = 1: chimera sends half of them in each direction; the least even number is 2"},
		{"dualpipe", 2, 5, 1, 0, "microbatches = 5: dualpipe sends half of them in each direction; the next even numbers are 4 and 6"},
		{"dualpipe", 4, 6, 1, 0, "microbatches = 6: dualpipe over 4 ranks needs at least 8"},
		{"dualpipe", 4, 8, 2, 0, "virtual_stages = 2: dualpipe holds one stage per rank; remove virtual_stages or set it to 1"},
		{"looped-bfs", 4, 8, 2, 4, "group = 4: looped-bfs has no groups of microbatches; remove group"},
		{"looped-bfs", 1 << 15, 1 << 15, 4, 0, "stages = 32768 × virtual_stages = 4 × microbatches = 32768: more than 2147483647 tasks"},
	} {
		s, err := schedules.Find(c.name)
		require.NoError(t, err)
		require.EqualError(t, s.Check(graph.Shape{Ranks: c.ranks, Microbatches: c.m, Virtual: c.virtual, Group: c.grouping}), c.want)
	}
	bfs, err := schedules.Find("looped-bfs")
	require.NoError(t, err)
	_, err = bfs.Order(graph.Shape{Ranks: 2, Microbatches: 2, Virtual: 2}, []int32{0, 1, 1, 0})
	require.EqualError(t, err, "placement of stage 2 on rank 1: looped-bfs needs it on rank 0 (gpipe and model-parallel take any placement)")
	_, err = bfs.Order(graph.Shape{Ranks: 2, Microbatches: 2, Virtual: 2}, []int32{0, 1})
	require.EqualError(t, err, "looped-bfs cannot run 2 stages on 2 ranks: it needs 2 stages per rank (gpipe and model-parallel take any placement)")
	_, err = schedules.Find("fifo")
	require.EqualError(t, err, `unknown schedule "fifo"; use one of `+strings.Join(schedules.Names(), ", "))
}
