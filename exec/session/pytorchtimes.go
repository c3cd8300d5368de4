package session

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"psim/configs"
	"psim/exec/pytorch"
	"psim/export"
	"psim/internal/files"
	"psim/internal/units"
	"psim/schedules/graph"
)

// PyTorchTimes are times of the tasks of a pipeline, measured in PyTorch.
type PyTorchTimes struct {
	Name      string             `json:"name"`
	Version   string             `json:"version"` // of PyTorch
	Device    string             `json:"device"`
	Disturbed bool               `json:"disturbed"` // whether other programs took more than 2 % of the cores
	Tasks     []PyTorchTask      `json:"tasks"`
	Slower    map[string]float64 `json:"slower"` // as in a Trial
	File      string             `json:"file"`   // that was written

	config *configs.Config
}

// A PyTorchTask has the medians of a kind of task on a rank.
type PyTorchTask struct {
	Rank   int32   `json:"rank"`
	Kind   string  `json:"kind"`
	Stage  int32   `json:"stage"`
	Bytes  int64   `json:"bytes,omitempty"`
	Alone  float64 `json:"alone_s"`
	Beside float64 `json:"beside_s"` // while the other processes compute
}

// TimeInPyTorch times the tasks of a pipeline in PyTorch by the Python of some options, in as many rounds as they
// say.
func TimeInPyTorch(ctx context.Context, c *configs.Config, o pytorch.Options) (*PyTorchTimes, error) {
	if c.Schedule.Stages < 2 || c.Parallel.Data > 1 {
		return nil, &configs.Error{Label: c.Name(), Key: "schedule.stages", Problem: "calibrate times the stages " +
			"of a pipeline in PyTorch; psim exec --engine torch times replicas and predicts them at once"}
	}
	var program bytes.Buffer
	if _, err := export.WriteTorch(&program, c); err != nil {
		return nil, err
	}
	o.Program, o.Steps, o.Warmup = program.Bytes(), o.Rounds, 1
	run, err := pytorch.Execute(ctx, o)
	if err != nil {
		return nil, err
	}
	engine := run.Result.Engine
	t := &PyTorchTimes{
		Name: c.Name(), Version: engine.Version, Device: engine.Device, Disturbed: run.Result.Disturbed,
		Slower: slowdowns(run.Alone), config: c,
	}
	t.summarize(run.Alone)
	return t, nil
}

// summarize sets the tasks to the medians over the rounds.
func (p *PyTorchTimes) summarize(times []pytorch.TaskTime) {
	alone, beside := map[PyTorchTask][]time.Duration{}, map[PyTorchTask][]time.Duration{}
	for _, t := range times {
		k := PyTorchTask{Rank: t.Rank, Kind: t.Kind, Stage: t.Stage, Bytes: t.Bytes}
		if alone[k] == nil {
			p.Tasks = append(p.Tasks, k)
		}
		alone[k], beside[k] = append(alone[k], t.Time), append(beside[k], t.Beside)
	}
	for i, k := range p.Tasks {
		p.Tasks[i].Alone, p.Tasks[i].Beside = units.Median(alone[k]).Seconds(), units.Median(beside[k]).Seconds()
	}
}

// stages returns the times of a kind of task by stage; nil if it was not measured.
func (p *PyTorchTimes) stages(kind graph.Kind) (list []string) {
	for stage := range int32(p.config.Schedule.Stages * max(1, p.config.Schedule.VirtualStages)) {
		i := slices.IndexFunc(p.Tasks, func(t PyTorchTask) bool { return t.Kind == kind.String() && t.Stage == stage })
		if i < 0 {
			return nil
		}
		list = append(list, fmt.Sprintf(`"%.0fus"`, 1e6*p.Tasks[i].Alone))
	}
	return list
}

// of lists the times of some kinds, of all stages and ranks.
func (p *PyTorchTimes) of(kinds ...graph.Kind) (list []time.Duration) {
	for _, t := range p.Tasks {
		if slices.ContainsFunc(kinds, func(k graph.Kind) bool { return k.String() == t.Kind }) {
			list = append(list, time.Duration(1e9*t.Alone))
		}
	}
	return list
}

// WriteConfig writes a configuration with the times, which psim run simulates. The command is that which
// measured them.
func (p *PyTorchTimes) WriteConfig(w io.Writer, command string) error {
	s := p.config.Schedule
	var b strings.Builder
	fmt.Fprintf(&b, "# Times of the tasks of %s in PyTorch %s on %s, each alone. Medians, by\n#   %s\n",
		p.Name, p.Version, p.Device, command)
	fmt.Fprintf(&b, "\n[schedule]\nname = %q\nstages = %d\nmicrobatches = %d\n", s.Name, s.Stages, s.Microbatches)
	if s.VirtualStages > 1 {
		fmt.Fprintf(&b, "virtual_stages = %d\n", s.VirtualStages)
	}
	if p.of(graph.AllReduce) != nil {
		b.WriteString("\n# Left out: sums of the gradients of tables that stages share (ALL_REDUCE).\n")
	}
	b.WriteString("\n[times]\n")
	for _, row := range []struct {
		key  string
		kind graph.Kind
	}{
		{"forward", graph.Forward}, {"backward", graph.Backward},
		{"backward_input", graph.InputGradient}, {"backward_weight", graph.WeightGradient},
	} {
		if list := p.stages(row.kind); list != nil {
			fmt.Fprintf(&b, "%s = [%s]\n", row.key, strings.Join(list, ", "))
		}
	}
	fmt.Fprintf(&b, "p2p = \"%dus\"\noptimizer = \"%dus\"\n",
		units.Median(p.of(graph.SendForward, graph.SendBackward)).Microseconds(),
		slices.Max(p.of(graph.Optimizer)).Microseconds())
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteText prints a table of the times.
func (p *PyTorchTimes) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s in PyTorch %s on %s\n\n  %-10s %4s %5s %10s %10s %10s\n", p.Name, p.Version, p.Device,
		"task", "rank", "stage", "bytes", "alone", "together")
	for _, t := range p.Tasks {
		size := "-"
		if t.Bytes > 0 {
			size = units.FormatBytes(t.Bytes)
		}
		fmt.Fprintf(&b, "  %-10s %4d %5d %10s %10s %10s\n", t.Kind, t.Rank, t.Stage, size,
			units.FormatSeconds(t.Alone), units.FormatSeconds(t.Beside))
	}
	b.WriteString("\ntogether is while all processes compute\n")
	if p.Disturbed {
		b.WriteString("warning: other programs took more than 2 % of the cores; measure again when nothing else runs\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteJSON prints everything as one object.
func (p *PyTorchTimes) WriteJSON(w io.Writer) error { return files.WriteJSON(w, p) }

// Fastest are the shortest of several times, in seconds. Cores whose speed changes from second to second reach
// them now and then, and medians of such cores say nothing about a prediction.
type Fastest struct {
	Predicted, Measured float64 // steps
	// Alone is the shortest time of a process's passes and update by itself, of the slowest process, and
	// Together the same while the other processes do theirs.
	Alone, Together float64
}

// predictFastest simulates the step with each process's fastest round, and each message and collective's.
func (r *Trial) predictFastest(times []pytorch.TaskTime, shared func(map[string]float64) *graph.Cores) error {
	alone := fastest(r.Experiment.Graph, times, func(t pytorch.TaskTime) time.Duration { return t.Time })
	together := fastest(r.Experiment.Graph, times, func(t pytorch.TaskTime) time.Duration { return t.Beside })
	r.Fastest.Alone, r.Fastest.Together = alone.slowest.Seconds(), together.slowest.Seconds()
	slower := map[string]float64{}
	for kind, sum := range alone.kinds {
		slower[kind] = float64(together.kinds[kind]) / float64(max(1, sum))
	}
	s, err := r.simulateRound(alone.times, shared(slower))
	r.Fastest.Predicted = graph.Summarize(s.Trace).StepTime.Seconds()
	return err
}

// fastestTimes are one time of every task.
type fastestTimes struct {
	times   []pytorch.TaskTime
	kinds   map[string]time.Duration // their sums
	slowest time.Duration            // the largest sum of passes and update that a process has
}

// fastest chooses times: what a process computes from the round in which all of it took the least time, and so
// its collectives: a step has many calls, each of which waits for another process to wake, and the luckiest of
// each would stand for all of them.
func fastest(g *graph.Graph, times []pytorch.TaskTime, of func(pytorch.TaskTime) time.Duration) fastestTimes {
	type owner struct { // of what is chosen together
		rank int32
		part measuredPart // of messages and collectives
	}
	type choice struct {
		sum  time.Duration
		list []pytorch.TaskTime
	}
	passes, calls := microbatchesOf(g), collectivesOf(g)
	rounds := map[int]map[owner]choice{}
	for _, t := range times {
		o, sum := owner{rank: t.Rank}, of(t)
		switch {
		case strings.HasPrefix(t.Kind, "SEND"):
			o.part = measuredPart{t.Kind, t.Stage, t.Bytes}
		case t.Bytes > 0:
			o.part.kind = "collectives"
			sum *= time.Duration(calls[measuredPart{t.Kind, 0, t.Bytes}])
		case t.Kind != graph.Optimizer.String():
			sum *= time.Duration(len(passes[measuredPart{t.Kind, t.Stage, 0}]))
		}
		if rounds[t.Round] == nil {
			rounds[t.Round] = map[owner]choice{}
		}
		c := rounds[t.Round][o]
		rounds[t.Round][o] = choice{c.sum + sum, append(c.list, t)}
	}
	best := map[owner]choice{}
	for _, n := range slices.Sorted(maps.Keys(rounds)) {
		for o, c := range rounds[n] {
			if have, known := best[o]; !known || c.sum < have.sum {
				best[o] = c
			}
		}
	}
	f := fastestTimes{kinds: map[string]time.Duration{}}
	for o, c := range best {
		if o.part.kind == "" {
			f.slowest = max(f.slowest, c.sum)
		}
		f.times = append(f.times, c.list...)
		for _, t := range c.list {
			f.kinds[t.Kind] += of(t)
		}
	}
	return f
}

// collectivesOf returns how many collectives of every kind and size a rank calls.
func collectivesOf(g *graph.Graph) map[measuredPart]int {
	calls := map[measuredPart]int{}
	for _, t := range g.Tasks() {
		if t.Kind.Collective() && t.Rank == 0 {
			calls[partOf(g, &t)]++
		}
	}
	return calls
}

// microbatchesOf returns the microbatches of every kind of pass and stage: the time of a pass is that of one.
func microbatchesOf(g *graph.Graph) map[measuredPart]map[int32]bool {
	list := map[measuredPart]map[int32]bool{}
	for _, t := range g.Tasks() {
		if p := partOf(g, &t); t.Kind.Pass() {
			if list[p] == nil {
				list[p] = map[int32]bool{}
			}
			list[p][t.Microbatch] = true
		}
	}
	return list
}
