package questions

import (
	"slices"
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
	"psim/schedules/partition"
	"psim/schedules/wiring"
)

// A setup is what is simulated for a question, with the values of its symbols.
type setup struct {
	// Kind is what runs: replicas (W workers, P parameters), ring (an all-reduce of P
	// gradients by W workers), pipeline (K stages, M microbatches) or cut (a pipeline of P
	// partitions of L equal layers).
	Kind string
	// The precision and optimizer of replicas, if Implied holds for the symbols, and else
	// the bytes of a parameter, its gradient and its optimizer states, as formulas.
	Precision, Optimizer, Implied string
	Parameter, Gradient, States   string
	Schedule                      string // of pipelines

	latency    time.Duration    // of a ring's links
	convention string           // by which a ring is ordered
	times      *costmodel.Times // of a pipeline's unequal stages
}

// run simulates a step.
func (s *setup) run(v values) (run, error) {
	switch s.Kind {
	case "replicas":
		return s.replicas(v)
	case "ring":
		return s.ring(v)
	}
	return s.pipeline(v)
}

func execute(g *graph.Graph, costs graph.Costs) (run, error) {
	simulation, err := psim.Simulate(&configs.Experiment{Graph: g, Costs: costs})
	return run{Simulation: simulation}, err
}

// machine makes devices of a round speed, joined by links of a bandwidth in Gb/s. Memory
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

// sampleNetwork makes four layers without activations whose tensors, eight of different
// sizes, hold a number of parameters together. Up to sixteen workers share each of them
// equally, so that sharding pads nothing.
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
			Ops: []network.Op{{
				Name: name, Class: network.Product, Count: 1, Rows: 1, Inner: size - bias, Cols: 1, Weight: true,
			}},
		})
	}
	return n
}

// replicas simulates a data-parallel step: forward, backward, the gradients' sums, the
// update.
func (s *setup) replicas(v values) (run, error) {
	w := stages.Workload{
		Network: sampleNetwork(v["P"]), Zero: int(v["zero"]), Replicas: int(v["W"]),
		Layers: []int{4}, Placement: graph.Placement{First: []int32{0}}, Samples: []int64{1},
		Bucket: max(25<<20, v["P"]/16), Overlap: true,
	}
	w.Training, w.State = s.training(v)
	if w.Zero == 3 { // layer by layer
		w.Layers, w.Placement.First = []int{1, 1, 1, 1}, make([]int32, 4)
	}
	staged := w.Staged()
	p := wiring.Pipeline{Shape: graph.Shape{Ranks: 1, Microbatches: 1, Replicas: w.Replicas}, Optimizer: true}
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

// training returns how replicas are trained, and what they keep of a parameter: nothing if
// the training implies it.
func (s *setup) training(v values) (o training.Options, kept training.State) {
	if s.Implied != "" {
		o = training.Options{Precision: s.Precision, Optimizer: s.Optimizer}
	}
	if s.Implied == "" || !holds(s.Implied, v.lookup) {
		kept = training.State{
			Parameter: whole(s.Parameter, v.lookup), Gradient: whole(s.Gradient, v.lookup),
			Optimizer: whole(s.States, v.lookup),
		}
	}
	return o, kept
}

// wire turns a pipeline without a name and an order into the graph of a schedule of the
// catalog.
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

// ring simulates an all-reduce chunk by chunk.
func (s *setup) ring(v values) (run, error) {
	g, err := collective.Call{
		Collective: collective.RingAllReduce, Ranks: int(v["W"]),
		Length: v["P"], Element: v["Sg"] / 8, Convention: s.convention,
	}.Graph()
	if err != nil {
		return run{}, err
	}
	as := costmodel.Fused{Kind: graph.AllReduce, Algorithm: link.RingAlgorithm}
	costs, err := costmodel.SpelledCosts(machine(v["B"], s.latency), g, as)
	if err != nil {
		return run{}, err
	}
	return execute(g, costs)
}

// pipeline simulates a schedule with explicit times. Crossing a boundary takes no time.
func (s *setup) pipeline(v values) (run, error) {
	ranks, p, times := v["K"], wiring.Pipeline{}, costmodel.Times{}
	switch {
	case s.Kind == "cut":
		ranks, times = v["P"], uniform(10, 20)
		if err := cut(&p, v); err != nil {
			return run{}, err
		}
	case s.times != nil:
		times = *s.times
	default:
		times = uniform(v["tf"], v["tb"])
	}
	p.Shape = graph.Shape{Ranks: int(ranks), Microbatches: int(v["M"])}
	g, err := wire(s.Schedule, p)
	if err != nil {
		return run{}, err
	}
	if err := times.Validate(p.Shape.Ranks, p.Shape.Microbatches, false); err != nil {
		return run{}, err
	}
	return execute(g, times.Costs(costmodel.MemoryOptions{}, g.Placement))
}

// cut adds to a pipeline the boundaries and samples that a cut of equal layers gives. A
// symbol that a question does not have is 0: nothing is sent in that direction.
func cut(p *wiring.Pipeline, v values) error {
	layers, err := partition.Equal(int(v["L"]), int(v["P"]))
	if err != nil {
		return err
	}
	boundary := wiring.Boundary{Forward: v["N_f"], Backward: v["N_b"]} // what every layer takes, and gives back
	p.Boundaries = slices.Repeat([]wiring.Boundary{boundary}, len(layers)-1)
	microbatches, err := partition.Equal(int(v["B"]), int(v["M"]))
	for _, n := range microbatches {
		p.Samples = append(p.Samples, int64(n))
	}
	return err
}

// uniform returns equal times for all stages, in milliseconds.
func uniform(forward, backward int64) costmodel.Times {
	return costmodel.Times{
		Forward:  costmodel.Uniform(time.Duration(forward) * time.Millisecond),
		Backward: costmodel.Uniform(time.Duration(backward) * time.Millisecond),
	}
}
