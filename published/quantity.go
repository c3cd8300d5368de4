package published

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"psim/configs"
	"psim/costmodel"
	"psim/costmodel/network"
	"psim/costmodel/training"
	"psim/internal/formula"
	"psim/results"
	"psim/schedules/graph"
)

// quantities lists the quantities of a prediction that expressions may use, in seconds and bytes.
var quantities = map[string]func(p *prediction) float64{
	"step":         func(p *prediction) float64 { return p.StepTime },
	"span":         func(p *prediction) float64 { return p.span },
	"bubble":       func(p *prediction) float64 { return p.Bubble.Span },
	"samples":      func(p *prediction) float64 { return p.samples },
	"devices":      func(p *prediction) float64 { return float64(p.Devices) },
	"tokens_per_s": func(p *prediction) float64 { return p.Throughput.Tokens },
	"model_flops":  func(p *prediction) float64 { return p.ModelFLOPs },
	// Of the first rank.
	"compute":   func(p *prediction) float64 { return p.Ranks[0].Compute },
	"exposed":   func(p *prediction) float64 { return p.Ranks[0].ExposedCommunication },
	"optimizer": func(p *prediction) float64 { return p.Ranks[0].Optimizer },
	// Means over the ranks.
	"mean_work":   meanOf(func(r results.RankResult) float64 { return r.Compute + r.ExposedCommunication }),
	"mean_idle":   meanOf(func(r results.RankResult) float64 { return r.Idle }),
	"mean_update": meanOf(func(r results.RankResult) float64 { return r.Optimizer }),
	// Of the rank with the highest peak: its whole memory, and the memory of its tensors.
	"peak_memory": func(p *prediction) float64 { return float64(p.highest().PeakMemory) },
	"peak_tensors": func(p *prediction) float64 {
		m := p.highest().Memory
		return float64(m.Parameters + m.Gradients + m.Optimizer + m.Activations)
	},
}

// meanOf averages over the ranks.
func meanOf(of func(results.RankResult) float64) func(p *prediction) float64 {
	return func(p *prediction) (mean float64) {
		for _, r := range p.Ranks {
			mean += of(r) / float64(len(p.Ranks))
		}
		return mean
	}
}

// highest returns the rank with the highest peak.
func (p *prediction) highest() results.RankResult {
	return slices.MaxFunc(p.Ranks, func(a, b results.RankResult) int { return cmp.Compare(a.PeakMemory, b.PeakMemory) })
}

// quantity returns a quantity of the row's prediction.
func (r row) quantity(name string) (any, error) {
	of, ok := quantities[name]
	if !ok {
		return nil, fmt.Errorf("no column and no quantity %s", name)
	}
	p, err := r.prediction(false)
	if err != nil {
		return nil, err
	}
	return of(p), nil
}

// prediction predicts the row's configuration.
func (r row) prediction(trace bool) (*prediction, error) {
	c, err := r.configuration()
	if err != nil {
		return nil, err
	}
	return r.runs.of(r.ctx, c, trace)
}

// build builds the row's configuration without simulating it.
func (r row) build() (*configs.Config, *configs.Experiment, error) {
	c, err := r.configuration()
	if err != nil {
		return nil, nil, err
	}
	config, err := c.load()
	if err != nil {
		return nil, nil, err
	}
	experiment, err := config.Build()
	return config, experiment, err
}

// measures lists functions of a row's prediction by name.
var measures = map[string]func(r row, arguments []any) (any, error){
	"forward":    func(r row, arguments []any) (any, error) { return r.passes(graph.Forward, arguments) },
	"backward":   func(r row, arguments []any) (any, error) { return r.passes(graph.Backward, arguments) },
	"all_to_all": row.allToAll,
	"collective": row.collective,
	"attention":  row.attention,
	"scan":       row.scan,
	"kept":       row.kept,
}

// passes sums the seconds of a kind of task: forward(), of all stages, or forward(stage).
func (r row) passes(kind graph.Kind, arguments []any) (any, error) {
	stages, err := formula.Numbers("a pass", arguments, min(1, len(arguments)))
	if err != nil {
		return nil, err
	}
	p, err := r.prediction(true)
	if err != nil {
		return nil, err
	}
	var took time.Duration
	for i, t := range p.trace.Graph.Tasks() {
		if t.Kind == kind && (len(stages) == 0 || float64(t.Stage) == stages[0]) {
			took += p.trace.Span(i).Duration()
		}
	}
	return took.Seconds(), nil
}

// allToAll returns the seconds of the last all-to-all of the first rank after a part of a pass:
// all_to_all(part).
func (r row) allToAll(arguments []any) (any, error) {
	part, err := formula.Numbers("all_to_all", arguments, 1)
	if err != nil {
		return nil, err
	}
	p, err := r.prediction(true)
	if err != nil {
		return nil, err
	}
	var took time.Duration
	for i, t := range p.trace.Graph.Tasks() {
		if t.Kind == graph.AllToAll && t.Rank == 0 && float64(t.Part) == part[0] {
			took = p.trace.Span(i).Duration()
		}
	}
	return took.Seconds(), nil
}

// attention returns the seconds of the attention of a number of heads over one sample:
// attention(heads, masked, backward).
func (r row) attention(arguments []any) (any, error) {
	if len(arguments) != 3 {
		return nil, fmt.Errorf("attention takes 3 arguments, not %d", len(arguments))
	}
	heads, isNumber := formula.AsNumber(arguments[0])
	masked, isTruth := formula.AsTruth(arguments[1])
	backward, areTruths := formula.AsTruth(arguments[2])
	if !isNumber || !isTruth || !areTruths {
		return nil, fmt.Errorf("attention(%v) takes a number, and whether there are a mask and a backward", arguments)
	}
	attention, err := r.attentionOn()
	if err != nil {
		return nil, err
	}
	return attention.seconds(int64(heads), masked, backward)
}

// A fusedAttention is the attention of a block on a device.
type fusedAttention struct {
	op       network.Op
	device   costmodel.Device
	training training.Options
}

// attentionOn returns the attention of a row's network, on its device.
func (r row) attentionOn() (fusedAttention, error) { return r.first(network.Attention) }

// first returns the first operation of a class in a row's network, on its device.
func (r row) first(class network.OpClass) (fusedAttention, error) {
	_, experiment, err := r.build()
	if err != nil {
		return fusedAttention{}, err
	}
	for _, l := range experiment.Staged.Network.Layers {
		for _, o := range l.Ops {
			if o.Class == class {
				return fusedAttention{o, experiment.Machine.Device, experiment.Staged.Training}, nil
			}
		}
	}
	return fusedAttention{}, fmt.Errorf("no layer has an operation of class %v", class)
}

// scan returns the seconds of the forward of a scan over a number of samples: scan(samples).
func (r row) scan(arguments []any) (any, error) {
	samples, err := formula.Numbers("scan", arguments, 1)
	if err != nil {
		return nil, err
	}
	scan, err := r.first(network.Scan)
	if err != nil {
		return nil, err
	}
	return scan.seconds(int64(samples[0]), true, false)
}

// seconds returns its time for a number of heads over one sample.
func (a fusedAttention) seconds(heads int64, masked, backward bool) (float64, error) {
	c, err := costmodel.NewCompute(a.device, a.training)
	if err != nil {
		return 0, err
	}
	if !masked {
		a.op.Pairs = a.op.Rows * a.op.Cols
	}
	took := c.Op(a.op, network.Forward, heads)
	if backward {
		took += c.Op(a.op, network.InputGradient, heads)
	}
	return took.Seconds(), nil
}

// kept returns the bytes that a device keeps for the backward of the first block, for one sample:
// kept().
func (r row) kept([]any) (any, error) {
	_, experiment, err := r.build()
	if err != nil {
		return nil, err
	}
	const element = 2
	var bytes int64
	for _, b := range experiment.Staged.Training.Kept(experiment.Staged.Network.Layers[1]) {
		bytes += b.Bytes(element)
	}
	return float64(bytes), nil
}
