package costmodel_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel/memory"
	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/costmodel/stages"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/order"
)

// splitOrders are the ways to write a 1F1B order with the backward in halves:
// W at once, W as late as can be, and W delayed by the rank, as in ZB-H1 (Qi
// et al. 2023).
func splitOrders(o order.Order) map[string]order.Order {
	delayed := func(by func(rank int) int) order.Order {
		split := make(order.Order, len(o))
		for r, actions := range o {
			var waiting []order.Action
			for _, a := range actions {
				if a.Kind == graph.Forward {
					split[r] = append(split[r], a)
					continue
				}
				a.Kind = graph.InputGradient
				split[r] = append(split[r], a)
				a.Kind = graph.WeightGradient
				if waiting = append(waiting, a); len(waiting) > by(r) {
					split[r] = append(split[r], waiting[0])
					waiting = waiting[1:]
				}
			}
			split[r] = append(split[r], waiting...)
		}
		return split
	}
	return map[string]order.Order{
		"at once": delayed(func(int) int { return 0 }),
		"last":    delayed(func(int) int { return 1 << 20 }),
		"zb-h1":   delayed(func(r int) int { return r }),
	}
}

// orders lists what can run a placement: schedules by name and split orders.
func orders(t *testing.T, w stages.Workload) map[string]order.Order {
	t.Helper()
	all := map[string]order.Order{}
	for _, s := range schedules.Catalog() {
		of := shape(w)
		if s.Virtual {
			of.Virtual = len(w.Placement.First) / of.Ranks
		}
		if s.Placement(of).Second != nil {
			continue // see TestSecondCopies
		}
		o, err := s.Order(of, w.Placement.First)
		if err != nil {
			continue
		}
		all[s.Name] = o
		if o.Split() {
			continue
		}
		for name, split := range splitOrders(o) {
			all[s.Name+", W "+name] = split
		}
	}
	return all
}

var placements = [][]int32{{0}, {0, 1}, {1, 0}, {0, 1, 2}, {0, 1, 0}, {0, 0, 1}, {0, 1, 1, 0}, {0, 1, 2, 3}, {0, 1, 0, 1}, {0, 0}}

// samplings are sizes of microbatches, ragged ones among them.
var samplings = [][]int64{{2}, {3, 3, 3, 3}, {4, 4, 1}}

// Whatever is run and however it is cut, memory is never below what persists,
// and ends there, on every rank.
func TestLedger(t *testing.T) {
	networks := []network.Network{smallGPT(t), mlp(t, 5, 8), build(t, models.Model{Preset: "vgg16-pipeline"})}
	count := 0
	for _, n := range networks {
		for _, placement := range placements {
			for _, samples := range samplings {
				w := workload(t, n, placement, samples...)
				for name, o := range orders(t, w) {
					for _, w.Training = range recomputations() {
						trace := simulate(t, w, machine(), graphOf(t, w, o))
						for r, peak := range ledger(t, trace) {
							require.Positive(t, peak, "%s: rank %d", name, r)
						}
						require.Equal(t, memory.Persistent(w.Staged(), trace.Graph.Ranks()), trace.Persistent)
						count++
					}
				}
			}
		}
	}
	require.Greater(t, count, 1000)
}

// The same over replicas, with backwards in slices, and with every layer on
// a rank of its own: flatten and dropout take no time and own nothing.
func TestLedgerOfReplicasAndSingleLayers(t *testing.T) {
	for _, n := range []network.Network{smallGPT(t), build(t, models.Model{Preset: "vgg16-pipeline"}), build(t, models.Model{Preset: "vgg16"})} {
		for _, placement := range [][]int32{{0}, {0, 1, 0}, graph.InOrder(len(n.Layers)).First} {
			w := workload(t, n, placement, 2, 2, 1)
			w.Replicas = 2
			for _, w.Zero = range []int{0, 1, 2} {
				for name, o := range orders(t, w) {
					for _, bucket := range []int64{0, 5000} {
						trace := stepOf(t, synced(w, bucket, true), machine(), o)
						peaks := ledger(t, trace)
						half := len(peaks) / 2
						require.Equal(t, peaks[:half], peaks[half:], name)
					}
				}
			}
		}
	}
}

// Twice the samples take twice the activations, but for the loss of each
// microbatch; the gradients of norms between I and W, which do not grow, are
// taken out. Times are fixed, so that the order of events is.
func TestLedgerIsLinear(t *testing.T) {
	for _, n := range []network.Network{smallGPT(t), mlp(t, 5, 8), build(t, models.Model{Preset: "vgg16-pipeline"})} {
		for _, placement := range placements {
			w := workload(t, withoutNorms(n), placement, 4, 4, 1)
			for name, o := range orders(t, w) {
				for _, w.Training = range recomputations() {
					single := peaksAtFixedTimes(t, w, o)
					twice := w
					twice.Samples = []int64{8, 8, 2}
					for r, peak := range peaksAtFixedTimes(t, twice, o) {
						losses := 2*single[r] - peak
						require.Contains(t, []int64{0, loss, 2 * loss, 3 * loss}, losses, "%s: rank %d", name, r)
					}
				}
			}
		}
	}
}

// withoutNorms is a network none of whose parameters count as a norm's.
func withoutNorms(n network.Network) network.Network {
	n.Layers = slices.Clone(n.Layers)
	for i := range n.Layers {
		params := slices.Clone(n.Layers[i].Params)
		for k := range params {
			params[k].Norm = false
		}
		n.Layers[i].Params = params
	}
	return n
}

func peaksAtFixedTimes(t *testing.T, w stages.Workload, o order.Order) []int64 {
	t.Helper()
	g := graphOf(t, w, o)
	costs := costsOf(t, w, machine(), g)
	price := costs.Task
	costs.Task = func(t *graph.Task) graph.Cost {
		c := price(t)
		c.Busy = 10
		if t.Kind != graph.Forward {
			c.Busy = 13
		}
		return c
	}
	return ledger(t, run(t, g, costs))
}

// More is recomputed, less is held; the sum over stages on one rank is that of
// one stage but for the results between them.
func TestRecomputeSavesMemory(t *testing.T) {
	w := workload(t, smallGPT(t), []int32{0}, 4, 4)
	var peaks []int64
	for _, w.Training.Recompute = range []string{"none", "selective", "full"} {
		o := orderOf(t, "gpipe", w)
		peaks = append(peaks, ledger(t, simulate(t, w, machine(), graphOf(t, w, o)))[0])
	}
	require.True(t, slices.IsSortedFunc(peaks, func(a, b int64) int { return int(b - a) }), fmt.Sprint(peaks))
	require.Less(t, peaks[2], peaks[1])
	require.Less(t, peaks[1], peaks[0])
}
