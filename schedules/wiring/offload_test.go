package wiring_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/internal/ordertest"
	"psim/schedules/graph"
	"psim/schedules/order"
	"psim/schedules/wiring"
)

// offloading is five stages on a rank, of which the first two copy what they keep.
func offloading(t *testing.T, microbatches int) wiring.Pipeline {
	p := ordertest.Pipeline(t, "ddp", 1, microbatches, 0, 0, 0, 0, 0)
	p.Samples = make([]int64, microbatches)
	for m := range p.Samples {
		p.Samples[m] = int64(m + 1)
	}
	p.Offload = &wiring.Offload{
		Bytes: []int64{40, 50, 0, 0, 0}, Behind: []int32{graph.None, graph.None, graph.None, 0, 1},
	}
	return p
}

// At most three of five stages have their tensors on the device: a forward waits until those of the stage three
// before it have left, and these return when a backward has freed as much.
func TestOffload(t *testing.T) {
	g := ordertest.Graph(t, offloading(t, 2))
	require.Equal(t, ordertest.Text(`
		0 compute: 0F0 1F0 2F0 3F0 4F0 4B0 3B0 2B0 1B0 0B0 0F1 1F1 2F1 3F1 4F1 4B1 3B1 2B1 1B1 0B1
		0 offload: 0TO_HOST0 1TO_HOST0 1FROM_HOST0 0FROM_HOST0 0TO_HOST1 1TO_HOST1 1FROM_HOST1 0FROM_HOST1`), synchronised(g))
	waits := map[string][]string{}
	for i, task := range g.Tasks() {
		for _, d := range g.Deps(i) {
			if on := g.Task(d); on.Stream != task.Stream {
				waits[task.String()] = append(waits[task.String()], on.String())
			}
		}
		if task.Kind.Staging() {
			require.True(t, task.Offloads())
			require.Equal(t, []int64{40, 50}[task.Stage]*int64(task.Microbatch+1), task.Bytes, "%v", task)
		}
	}
	for _, m := range []string{"0", "1"} {
		for task, on := range map[string]string{
			"0TO_HOST": "0F", "1TO_HOST": "1F", "3F": "0TO_HOST", "4F": "1TO_HOST",
			"1FROM_HOST": "4B", "0FROM_HOST": "3B", "1B": "1FROM_HOST", "0B": "0FROM_HOST",
		} {
			require.Equal(t, []string{on + m}, waits[task+m], task)
			delete(waits, task+m)
		}
	}
	require.Empty(t, waits)
}

// Copies in orders that keep the tensors of several stages at a time are refused.
func TestOffloadErrors(t *testing.T) {
	for want, change := range map[string]func(*wiring.Pipeline){
		"copies to hosts for 1 stages; there are 5": func(p *wiring.Pipeline) { p.Offload.Bytes = []int64{1} },
		"one after another":                         func(p *wiring.Pipeline) { p.Synchronous = true },
		"with whole backwards":                      func(p *wiring.Pipeline) { p.Order = ordertest.Split(p.Order) },
		"on 2 ranks": func(p *wiring.Pipeline) {
			p.Shape.Ranks, p.Order = 2, append(p.Order, order.Order{nil}...)
		},
	} {
		p := offloading(t, 1)
		change(&p)
		_, err := p.Graph()
		require.ErrorContains(t, err, want)
	}
}
