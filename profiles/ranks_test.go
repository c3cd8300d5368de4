package profiles

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A rankOf has what differs between ranks: how far its clock is ahead, and when it comes to each collective of a step.
type rankOf struct {
	clock   int64
	arrives []int64
}

// traces makes traces of ranks that meet in collectives, each of which lasts 2 ms from when the last one comes. They
// compute from the start of a step to the first one, and from each one to the next. Steps take 100 ms.
func traces(t require.TestingT, ranks []rankOf, group string, steps int) (list []*RankProfile) {
	for rank, r := range ranks {
		var events []made
		for step := range steps {
			begin := r.clock + int64(step+1)*100*millisecond
			events = append(events, onHost("user_annotation", fmt.Sprintf("ProfilerStep#%d", step), begin-millisecond, begin+98*millisecond, 0))
			launch := step * 100
			add := func(name string, start, end int64) {
				launch++
				events = append(events, onHost("cuda_runtime", "cudaLaunchKernel", begin-millisecond+int64(launch%100), begin, launch))
				events = append(events, onDevice(name, 7, start, end, launch))
			}
			at := begin
			for i, arrives := range r.arrives {
				add("nvjet_tst", at, begin+arrives)
				last := int64(0)
				for _, other := range ranks {
					last = max(last, other.arrives[i])
				}
				at = begin + last + 2*millisecond
				add("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)", begin+arrives, at)
				args := events[len(events)-1].Args
				if group != "" {
					args["Collective name"], args["Process Group Name"], args["Group size"] = "allreduce", group, len(ranks)
					args["In msg nelems"] = 1000 + i
				}
			}
		}
		p, err := parse(context.Background(), bytes.NewReader(text(t, rank, len(ranks), events)))
		require.NoError(t, err)
		p.Name = fmt.Sprintf("rank%d.json", rank)
		list = append(list, p)
	}
	return list
}

// TestManyRanks: groups take memory for their own ranks, and not for all that there are.
func TestManyRanks(t *testing.T) {
	const ranks, steps = 2000, 4
	list := make([]*RankProfile, ranks)
	for i := range list {
		p := &RankProfile{
			Rank: i, World: ranks, names: []string{"ncclDevKernel_AllReduce"},
			calls: []call{{name: "allreduce", group: fmt.Sprint("pair ", i/2), members: 2, elements: 1000}},
		}
		for step := range int64(steps) {
			p.steps = append(p.steps, span{start: step * 100, end: step*100 + 100, number: int(step)})
			p.kernels = append(p.kernels, kernel{start: step*100 + 10, end: step*100 + 20, class: Transfer})
		}
		list[i] = p
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	found := meet(list)
	runtime.ReadMemStats(&after)
	require.Len(t, found, ranks/2*steps)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(40<<20))
}

// TestTogether: the shortest kernel of a collective is its transfer, the rest is waiting for the last rank, whatever
// the clocks say.
func TestTogether(t *testing.T) {
	ranks := []rankOf{
		{1e10, []int64{10 * millisecond, 40 * millisecond}},
		{5e12 + 1e10, []int64{30 * millisecond, 35 * millisecond}},
		{3e9, []int64{11 * millisecond, 50 * millisecond}},
	}
	list := traces(t, ranks, "dp", 4)
	s, err := Together([]*RankProfile{list[2], list[0], list[1]})
	require.NoError(t, err)
	require.Equal(t, []int{3, 3, 6, 6, 0, 3}, []int{s.Ranks, s.World, s.Collectives, s.Matched, s.Incomplete, s.Steps})
	require.Equal(t, time.Duration(5e12+7e9), s.Clocks)
	require.Zero(t, s.Apart)
	require.Equal(t, 100*time.Millisecond, s.Times.Sum())
	require.Equal(t, 4*time.Millisecond, s.Times[Transfer])
	require.InDelta(t, float64((20+0+19+10+15+0)*time.Millisecond/3), float64(s.Times[Skew]), 1)
	require.Equal(t, 1, s.Last)
	require.Equal(t, (20+19)*time.Millisecond/2, s.Waited)

	// One rank of the three says only how long communication is exposed; two leave out one that may come later still.
	s, err = Together(traces(t, ranks, "dp", 4)[:1])
	require.NoError(t, err)
	require.Equal(t, []int{2, 0, -1}, []int{s.Collectives, s.Matched, s.Last})
	require.Equal(t, 34*time.Millisecond, s.Times[Transfer], "waiting cannot be told from it")
	require.Zero(t, s.Times[Skew])
	s, err = Together(traces(t, ranks, "dp", 4)[:2])
	require.NoError(t, err)
	require.Equal(t, []int{4, 4, 4}, []int{s.Collectives, s.Matched, s.Incomplete})

	// Without groups nothing says who meets whom, unless there are two ranks.
	s, err = Together(traces(t, ranks, "", 4))
	require.NoError(t, err)
	require.Equal(t, []int{6, 0}, []int{s.Collectives, s.Matched})
	s, err = Together(traces(t, ranks[:2], "", 4))
	require.NoError(t, err)
	require.Equal(t, []int{4, 4}, []int{s.Collectives, s.Matched})
}

// TestTogetherRandom: waiting and transfer are what the traces were made from.
func TestTogetherRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks := make([]rankOf, rapid.IntRange(2, 4).Draw(t, "ranks"))
		collectives := rapid.IntRange(1, 3).Draw(t, "collectives")
		for i := range ranks {
			ranks[i].clock = rapid.Int64Range(-1e12, 1e12).Draw(t, "clock") + 2e12
			for j := range collectives {
				ranks[i].arrives = append(ranks[i].arrives, (int64(j)*30+rapid.Int64Range(1, 20).Draw(t, "arrives"))*millisecond)
			}
		}
		s, err := Together(traces(t, ranks, "g", 3))
		require.NoError(t, err)
		var skew time.Duration
		for j := range collectives {
			last := int64(0)
			for _, r := range ranks {
				last = max(last, r.arrives[j])
			}
			for _, r := range ranks {
				skew += time.Duration(last - r.arrives[j])
			}
		}
		n := time.Duration(len(ranks))
		require.InDelta(t, float64(skew/n), float64(s.Times[Skew]), float64(n))
		require.InDelta(t, float64(2*int64(collectives)*millisecond), float64(s.Times[Transfer]), float64(n))
		require.Equal(t, len(ranks)*collectives, s.Matched)
	})
}

// TestTogetherErrors: traces that are not of one run are refused.
func TestTogetherErrors(t *testing.T) {
	ranks := []rankOf{{0, []int64{millisecond}}, {0, []int64{millisecond}}}
	for want, change := range map[string]func(list []*RankProfile){
		"rank0.json and rank1.json are both of rank 0": func(l []*RankProfile) { l[1].Rank = 0 },
		"rank0.json is of 2 ranks and rank1.json of 8": func(l []*RankProfile) { l[1].World = 8 },
		"only one has kernels of a GPU":                func(l []*RankProfile) { l[1].Host = true },
		"the traces have no step in common":            func(l []*RankProfile) { l[1].steps[0].number, l[1].steps[1].number = 7, 8 },
	} {
		list := traces(t, ranks, "dp", 2)
		change(list)
		_, err := Together(list)
		require.ErrorContains(t, err, want)
	}
}

// TestMessages: sends and receives are no collectives, and go by the kernel where the call has no name.
func TestMessages(t *testing.T) {
	const sendRecv = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
	for _, c := range []struct {
		kernel, call string
		want         Class
	}{
		{sendRecv, "", Messages},
		{sendRecv, "send", Messages},
		{sendRecv, "recv", Messages},
		{sendRecv, "coalesced", Messages},
		{sendRecv, "all_to_allv", Transfer},
		{sendRecv, "gather", Transfer},
		{"ncclDevKernel_AllGather_RING_LL(x)", "coalesced", Transfer},
		{"ncclDevKernel_AllGather_RING_LL(x)", "_allgather_base", Transfer},
	} {
		e := onDevice(c.kernel, 20, millisecond, 2*millisecond, 1)
		if c.call != "" {
			e.Args["Collective name"] = c.call
		}
		require.Equal(t, c.want.String(), read(t, []made{e}).kernels[0].class.String(), c)
	}
}
