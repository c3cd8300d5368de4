package questions

import (
	"time"

	"psim"
	"psim/configs"
	"psim/costmodel"
	"psim/costmodel/link"
	"psim/costmodel/network"
	"psim/costmodel/stages"
	"psim/costmodel/training"
	"psim/internal/units"
	"psim/schedules"
	"psim/schedules/collective"
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// A run is a simulated step.
type run struct{ psim.Simulation }

func execute(g *graph.Graph, costs graph.Costs) (run, error) {
	s, err := psim.Simulate(&configs.Experiment{Graph: g, Costs: costs})
	return run{s}, err
}

func (r run) makespan() float64 { return inSeconds(r.Summary.Makespan) }
func (r run) bubble() float64   { return r.Summary.Bubble.Makespan }

// bytes sums the payloads of the tasks of one kind, over all ranks.
func (r run) bytes(k graph.Kind) (total float64) {
	for _, t := range r.Experiment.Graph.Tasks {
		if t.Kind == k {
			total += float64(t.Bytes)
		}
	}
	return total
}

// persistent sums the persistent memory of all ranks.
func (r run) persistent() (total int64) {
	for _, rank := range r.Summary.Ranks {
		total += rank.PersistentMemory
	}
	return total
}

func (r run) perRank(read func(graph.RankSummary) float64) []float64 {
	var numbers []float64
	for _, rank := range r.Summary.Ranks {
		numbers = append(numbers, read(rank))
	}
	return numbers
}

func persistent(r graph.RankSummary) float64 { return float64(r.PersistentMemory) }
func gigabytes(r graph.RankSummary) float64  { return persistent(r) / 1e9 }
func peak(r graph.RankSummary) float64       { return float64(r.PeakMemory) }
func sent(r graph.RankSummary) float64       { return float64(r.SentBytes) }

func sum(numbers []float64) (total float64) {
	for _, n := range numbers {
		total += n
	}
	return total
}

// machine makes devices of a round speed, joined by links of so many Gb/s. Memory
// and traffic do not depend on it.
func machine(gigabits int64, latency time.Duration) costmodel.Machine {
	return costmodel.Machine{
		Device: costmodel.Device{
			Name:            "sample device",
			MemoryBandwidth: 1e12,
			Peak:            costmodel.Peak{FP32: 1e14, FP16: 1e14, BF16: 1e14},
			Efficiency:      costmodel.Efficiency{FP32: 1, FP16: 1, BF16: 1, Memory: 1},
		},
		Link: link.Link{
			Name:      "sample link",
			Bandwidth: units.Rate(float64(gigabits) * 1e9 / 8),
			Latency:   units.Duration(latency),
		},
	}
}

// network makes four layers without activations whose tensors, eight of different
// sizes, hold so many parameters together. Up to sixteen workers share each of
// them equally, so that sharding pads nothing.
func sampleNetwork(parameters int64) network.Network {
	n := network.Network{Name: "sample network", TokensPerSample: 1}
	left := parameters
	for i, name := range []string{"first", "second", "third", "last"} {
		size := parameters * int64(i+1) / 160 * 16
		if i == 3 {
			size = left
		}
		left -= size
		bias := size / 16
		n.Layers = append(n.Layers, network.Layer{
			Name: name, Input: network.Dims{1}, Output: network.Dims{1},
			Params: []network.Tensor{
				{Name: name + ".weight", Shape: network.Dims{int(size - bias)}},
				{Name: name + ".bias", Shape: network.Dims{int(bias)}},
			},
			Ops: []network.Op{{Name: name, Class: network.Product, Count: 1, Rows: 1, Inner: size - bias, Cols: 1, Weight: true}},
		})
	}
	return n
}

// trainer describes a data-parallel step: what is trained, in which precision, and
// at which ZeRO stage. A zero state is the one that
// training implies.
type trainer struct {
	parameters, workers int64
	zero                int
	state               training.State
	training            training.Options
}

// run simulates the step: forward, backward, the gradients' sums, the update.
func (t trainer) run() (run, error) {
	w := stages.Workload{
		Network: sampleNetwork(t.parameters), Training: t.training, State: t.state, Zero: t.zero,
		Layers: []int{4}, Placement: graph.Placement{First: []int32{0}}, Samples: []int64{1}, Replicas: int(t.workers),
		Bucket: max(25<<20, t.parameters/16), Overlap: true,
	}
	if t.zero == 3 { // layer by layer
		w.Layers, w.Placement.First = []int{1, 1, 1, 1}, make([]int32, 4)
	}
	staged := w.Staged()
	p := wiring.Pipeline{Shape: graph.Shape{Ranks: 1, Microbatches: 1, Replicas: int(t.workers)}, Optimizer: true}
	staged.Fill(&p)
	g, err := wire("ddp", p)
	if err != nil {
		return run{}, err
	}
	costs, err := costmodel.StepCosts(machine(100, 0), staged, g)
	if err != nil {
		return run{}, err
	}
	return execute(g, costs)
}

// wire turns a pipeline without a name and an order into the graph of a
// schedule of the catalog.
func wire(name string, p wiring.Pipeline) (*graph.Graph, error) {
	schedule, err := schedules.Find(name)
	if err != nil {
		return nil, err
	}
	p.Name = name
	if p.Order, err = schedule.Order(p.Shape, p.Placement.First); err != nil {
		return nil, err
	}
	return p.Graph()
}

// ring describes an all-reduce of elements.
type ring struct {
	workers, length, elementBytes, gigabits int64
	latency                                 time.Duration
	convention                              string
}

// run simulates the all-reduce chunk by chunk.
func (r ring) run() (run, error) {
	g, err := collective.Call{
		Collective: collective.RingAllReduce, Ranks: int(r.workers),
		Length: r.length, Element: r.elementBytes, Convention: r.convention,
	}.Graph()
	if err != nil {
		return run{}, err
	}
	costs, err := costmodel.RingCosts(machine(r.gigabits, r.latency), g)
	if err != nil {
		return run{}, err
	}
	return execute(g, costs)
}

// pipeline runs a schedule with explicit times.
type pipeline struct {
	schedule             string
	stages, microbatches int64
	times                costmodel.Times
	samples              []int64
	boundaries           []wiring.Boundary
}

// run simulates the pipeline. Crossing a boundary takes no time.
func (p pipeline) run() (run, error) {
	g, err := wire(p.schedule, wiring.Pipeline{
		Shape:   graph.Shape{Ranks: int(p.stages), Microbatches: int(p.microbatches)},
		Samples: p.samples, Boundaries: p.boundaries,
	})
	if err != nil {
		return run{}, err
	}
	if err := p.times.Validate(int(p.stages), int(p.microbatches), false); err != nil {
		return run{}, err
	}
	return execute(g, p.times.Costs(costmodel.MemoryOptions{}, g.Placement))
}

func uniform(forward, backward time.Duration) costmodel.Times {
	return costmodel.Times{Forward: costmodel.Uniform(forward), Backward: costmodel.Uniform(backward)}
}

// inSeconds converts a time, exact to the last digit of the quotient.
func inSeconds(d time.Duration) float64 { return float64(d) / 1e9 }
