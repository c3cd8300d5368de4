package costmodel_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel"
	"psim/costmodel/link"
	"psim/costmodel/models"
	"psim/costmodel/stages"
	"psim/costmodel/training"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/partition"
)

// With n = min(M, P − s) microbatches in flight, stage s holds n versions of its
// weights where M >= 2(n − 1), else M − n + 2: the first n forwards share one. All
// but the newest are gone at the end.
func TestStashedVersions(t *testing.T) {
	network, err := models.Model{Family: "mlp", Layers: 6, Hidden: 8}.Network()
	require.NoError(t, err)
	machine := costmodel.Machine{
		Device: costmodel.Device{Peak: costmodel.Peak{FP32: 1e9}, Efficiency: costmodel.Efficiency{FP32: 1}},
		Link:   link.Link{Bandwidth: 1e9},
	}
	for p := 1; p <= 6; p++ {
		for m := 1; m <= 14; m++ {
			layers, err := partition.Equal(len(network.Layers), p)
			require.NoError(t, err)
			w := stages.Workload{Network: network, Training: training.Options{Precision: "fp32", Optimizer: "sgd"}, Layers: layers, Placement: graph.InOrder(p)}
			for range m {
				w.Samples = append(w.Samples, 1)
			}
			stashing, plain := pricedAs(t, w, machine, "pipedream", p, m), pricedAs(t, w, machine, "1f1b", p, m)
			held, most := make([]int64, p), make([]int64, p)
			for i := range int32(stashing.graph.Len()) {
				task := new(stashing.graph.Task(i))
				got, want := stashing.Task(task), plain.Task(task)
				held[task.Rank] += got.BytesAtStart - want.BytesAtStart
				most[task.Rank] = max(most[task.Rank], held[task.Rank])
				held[task.Rank] += got.BytesAtEnd - want.BytesAtEnd
			}
			require.Equal(t, plain.Persistent, stashing.Persistent)
			for s := range p {
				n := min(m, p-s)
				require.Zero(t, held[s], "P=%d M=%d stage %d", p, m, s)
				require.EqualValues(t, min(n, m-n+2), 1+most[s]/(4*parameters(w, s)), "P=%d M=%d stage %d", p, m, s)
				require.Zero(t, most[s]%(4*parameters(w, s)))
			}
		}
	}
}

// priced is a graph with its costs.
type priced struct {
	graph.Costs
	graph *graph.Graph
}

func pricedAs(t *testing.T, w stages.Workload, m costmodel.Machine, name string, ranks, microbatches int) priced {
	s, err := schedules.Find(name)
	require.NoError(t, err)
	p, err := s.Pipeline(graph.Shape{Ranks: ranks, Microbatches: microbatches}, nil)
	require.NoError(t, err)
	p.Samples, p.Boundaries, p.Optimizer = w.Samples, w.Staged().Boundaries(), true
	g, err := p.Graph()
	require.NoError(t, err)
	costs, err := costmodel.StepCosts(m, w.Staged(), g)
	require.NoError(t, err)
	return priced{costs, g}
}
