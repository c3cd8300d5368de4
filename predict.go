package psim

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"psim/configs"
	"psim/costmodel"
	ledger "psim/costmodel/memory"
	"psim/internal/interrupt"
	"psim/internal/ram"
	"psim/results"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/wiring"
	"psim/sim"
)

// A Simulation is a plan that has been run by the simulator.
type Simulation struct {
	Experiment *configs.Experiment
	Trace      *graph.Trace
	Summary    graph.Summary
}

// Simulate runs a plan. The error of an order that cannot come to its end is a
// *sim.DeadlockError.
func Simulate(experiment *configs.Experiment) (Simulation, error) {
	g := experiment.Graph
	if experiment.Alone {
		g = g.Alone()
	}
	trace, err := sim.Run(g, experiment.Costs)
	if err != nil {
		return Simulation{Experiment: experiment}, err
	}
	trace.Graph, trace.Alone = experiment.Graph, experiment.Alone
	if experiment.Staged != nil {
		ledger.Reserve(experiment.Staged, trace)
	}
	return Simulation{experiment, trace, graph.Summarize(trace)}, nil
}

// Result puts a simulation in the form of result.json.
func (s Simulation) Result(info results.Info) results.Result {
	r := results.NewResult(results.Predicted, s.Trace, s.Summary, info)
	r.CriticalPath = results.NewCriticalPath(s.Trace, sim.CriticalPath(s.Trace))
	return r
}

// A Prediction is a configuration that has been built and simulated.
type Prediction struct {
	Simulation
	Config *configs.Config
	// Result is the prediction in the form of result.json: times, bubble, memory,
	// communication, and warnings.
	Result results.Result
	packer *wiring.Packer // nil where a trace is wanted
	// BuildTime and SimulationTime are how long psim itself took.
	BuildTime, SimulationTime time.Duration
}

// Predict builds and simulates a configuration. That a rank's memory does not
// suffice is no error, but a warning of the result; Advise says what would help.
func Predict(ctx context.Context, c *configs.Config) (*Prediction, error) {
	return predict(ctx, &Prediction{Config: c})
}

// Estimate is Predict without the trace of every task, which is nil: the same result, in
// a fraction of the time and memory where the graph can be packed (see graph.Packed).
func Estimate(ctx context.Context, c *configs.Config) (*Prediction, error) {
	return predict(ctx, &Prediction{Config: c, packer: &wiring.Packer{}})
}

func predict(ctx context.Context, p *Prediction) (*Prediction, error) {
	if err := p.build(ctx, nil); err != nil {
		return nil, err
	}
	if err := p.Simulate(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// Prepare is the first half of Estimate: it builds the graph and its costs, and leaves the
// simulation to Prediction.Simulate.
func Prepare(ctx context.Context, c *configs.Config) (*Prediction, error) {
	p := &Prediction{Config: c, packer: &wiring.Packer{}}
	return p, p.build(ctx, nil)
}

// Simulate is the second half of Estimate.
func (p *Prediction) Simulate(ctx context.Context) error {
	if err := p.simulate(ctx); err != nil {
		return err
	}
	return p.reserveForMessages(ctx)
}

// Devices counts the devices that the prediction is for.
func (p *Prediction) Devices() int {
	return p.Experiment.Graph.Ranks() * p.Experiment.Machine.Devices()
}

// Run returns the prediction as reports take it.
func (p *Prediction) Run() results.Run { return results.Run{Result: p.Result, Trace: p.Trace} }

// build makes the plan; reserve is the memory of every rank that a schedule that is
// searched for leaves free.
func (p *Prediction) build(ctx context.Context, reserve []int64) (err error) {
	err = ram.CheckTasks(p.Config.Tasks())
	if p.packer != nil { // packing counts exactly; F and B of every stage are certain
		err = ram.CheckPacked(p.Config.Tasks() / 2)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", p.Config.Name(), err)
	}
	start := time.Now()
	build := func() (*configs.Experiment, error) { return p.Config.BuildReserving(ctx, reserve, p.packer) }
	if configs.IsSearched(p.Config.Schedule.Name) { // a search has a solver to end
		p.Experiment, err = build()
	} else {
		p.Experiment, err = interrupt.Await(ctx, build)
	}
	p.BuildTime += time.Since(start)
	if err == nil {
		err = ctx.Err()
	}
	return err
}

func (p *Prediction) simulate(ctx context.Context) error {
	done, err := interrupt.Await(ctx, func() (Prediction, error) {
		simulated := *p
		err := simulated.simulateWhole()
		return simulated, err
	})
	if err == nil {
		*p = done
		err = ctx.Err()
	}
	return err
}

func (p *Prediction) simulateWhole() (err error) {
	start := time.Now()
	if p.Experiment.Packed != nil {
		err = p.simulatePacked(start)
	} else if p.Simulation, err = Simulate(p.Experiment); err == nil {
		p.SimulationTime += time.Since(start)
		p.Result = p.Simulation.Result(Info(p.Config, p.Experiment))
		if p.Experiment.Alone {
			p.Result.Tasks *= max(1, p.Experiment.Graph.Shape.Replicas)
		}
	}
	if err != nil {
		return err
	}
	p.Result.Search = p.found()
	return nil
}

// reserveForMessages searches again where the order that was found does not fit,
// because messages wait in memory, which the search does not count.
func (p *Prediction) reserveForMessages(ctx context.Context) error {
	const rounds = 6
	if p.Experiment.Search == nil || p.Result.Fits() {
		return nil
	}
	first := *p
	reserve := make([]int64, p.Experiment.Graph.Shape.Ranks)
	for range rounds {
		for r, over := range p.lacks() {
			if over > 0 { // below what the rank takes now, however much it may have alone
				slack := p.Experiment.Machine.RankMemory() - p.Result.Ranks[r].PeakMemory
				reserve[r%len(reserve)] = max(reserve[r%len(reserve)], slack) + over
			}
		}
		if err := p.build(ctx, reserve); err != nil {
			return err
		}
		if err := p.simulate(ctx); err != nil {
			return err
		}
		if p.Result.Fits() {
			return nil
		}
	}
	*p = first
	return nil
}

// lacks returns the bytes that every rank has too little: of its own, or as its share of
// what its node lacks.
func (p *Prediction) lacks() []int64 {
	list := make([]int64, len(p.Result.Ranks))
	for r, rank := range p.Result.Ranks {
		if rank.MemoryCapacity > 0 {
			list[r] = max(0, rank.PeakMemory-rank.MemoryCapacity)
		}
		if len(p.Result.Nodes) > 0 {
			node := p.Result.Nodes[p.Experiment.Machine.Node(int32(r))]
			list[r] = max(list[r], (node.PeakMemory-node.MemoryCapacity+int64(node.Devices)-1)/int64(node.Devices))
		}
	}
	return list
}

// found says how good the order is, where one was searched for. The span is that of
// the simulation, in which messages may queue.
func (p *Prediction) found() *results.FoundOrder {
	if p.Experiment.Search == nil {
		return nil
	}
	s := &results.FoundOrder{LowerBound: p.Experiment.Search.LowerBound.Seconds(), Span: p.Summary.LongestSpan.Seconds()}
	if s.LowerBound > 0 {
		s.Gap = max(0, s.Span/s.LowerBound-1)
	}
	s.Order = strings.Split(strings.TrimSuffix(p.Experiment.Search.Order.String(), "\n"), "\n")
	return s
}

// Unit is the time that counts as one where only order matters; any would do.
const Unit = time.Second

// UnitTrace runs the order of a schedule without costs: F, I and W take one unit of
// time, B two, messages none. What is not a pipeline has four copies, and sums
// gradients in two halves that take one each.
func UnitTrace(s schedules.Schedule, shape graph.Shape) (*graph.Trace, error) {
	pipeline, err := s.Pipeline(shape, nil)
	if err != nil {
		return nil, err
	}
	if !s.Pipelined {
		pipeline.Shape.Replicas = 4
		pipeline.Sync = wiring.Sync{Buckets: [][]int64{{1, 1}}, Overlap: true}
	}
	g, err := pipeline.Graph()
	if err != nil {
		return nil, err
	}
	one := costmodel.Uniform(Unit)
	times := costmodel.Times{Forward: one, InputGradient: one, WeightGradient: one}
	costs := times.Costs(costmodel.MemoryOptions{}, g.Placement)
	task := costs.Task
	costs.Task = func(t *graph.Task) graph.Cost {
		slice := !s.Pipelined && t.Kind == graph.Backward && int(t.Microbatch) == shape.Microbatches-1
		if t.Kind.Collective() || slice {
			return graph.Cost{Busy: Unit}
		}
		return task(t)
	}
	return sim.Run(g, costs)
}

// simulatePacked simulates a packed plan. What cannot be run is simulated as it is
// otherwise, for the reason.
func (p *Prediction) simulatePacked(start time.Time) error {
	packed := p.Experiment.Packed
	engine := sim.Packed{Causes: true}
	if blocked := engine.Run(packed); blocked != nil {
		experiment, err := p.Config.Build()
		if err == nil {
			_, err = Simulate(experiment)
		}
		return cmp.Or(err, blocked)
	}
	statistics := graph.Statistics{Peaks: true}
	p.Simulation = Simulation{Experiment: p.Experiment}
	statistics.Summarize(packed, &p.Summary)
	if p.Experiment.Staged != nil {
		ledger.ReservePeaks(p.Experiment.Staged, &p.Summary)
	}
	p.SimulationTime += time.Since(start)
	info := Info(p.Config, p.Experiment)
	info.Memory = func(*graph.Trace, graph.Summary) []results.MemoryBytes { return packedMemory(p, &statistics) }
	p.Result = results.NewResult(results.Predicted, packed.Trace(), p.Summary, info)
	p.Result.Tasks = packed.Size()
	path := packed.Path(engine.CriticalPath())
	whole := make([]int32, len(path.Spans))
	for i := range whole {
		whole[i] = int32(i)
	}
	p.Result.CriticalPath = results.NewCriticalPath(path, whole)
	return nil
}

// packedMemory divides the peaks of a packed plan by what they hold.
func packedMemory(p *Prediction, s *graph.Statistics) []results.MemoryBytes {
	if p.Experiment.Staged != nil {
		return memoryBytes(ledger.NewLedger(p.Experiment.Staged, p.Experiment.Graph).AtPackedPeak(s))
	}
	if !p.Experiment.Packed.Remembers() {
		return nil
	}
	list := make([]results.MemoryBytes, len(p.Summary.Ranks))
	for r, rank := range p.Summary.Ranks {
		list[r].Activations = rank.PeakMemory
	}
	return list
}
