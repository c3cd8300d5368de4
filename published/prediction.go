package published

import (
	"context"
	"sync"

	"psim"
	"psim/configs"
	"psim/intervals"
	"psim/results"
	"psim/schedules/graph"
)

// A prediction holds the results of a simulated step that rows compare.
type prediction struct {
	results.Result
	span    float64 // the longest span of a rank, in seconds
	samples float64 // of a step
	trace   *graph.Trace
	under   intervals.Conditions
}

// predictions remembers predictions, since several rows may have the same configuration. It may be used
// by several goroutines.
type predictions struct {
	mutex sync.Mutex
	known map[string]func() (*prediction, error)
}

// of predicts a configuration, with the trace of all tasks if trace is set.
func (p *predictions) of(ctx context.Context, c configuration, trace bool) (*prediction, error) {
	predict, id := psim.Estimate, "estimated\n"
	if trace {
		predict, id = psim.Predict, "traced\n"
	}
	p.mutex.Lock()
	if p.known == nil {
		p.known = map[string]func() (*prediction, error){}
	}
	id += c.id()
	one, ok := p.known[id]
	if !ok {
		one = sync.OnceValues(func() (*prediction, error) { return predictOnce(ctx, c, predict) })
		p.known[id] = one
	}
	p.mutex.Unlock()
	return one()
}

// A predictor is psim.Predict or psim.Estimate.
type predictor func(context.Context, *configs.Config) (*psim.Prediction, error)

// predictOnce predicts a configuration, and keeps only the results that rows compare.
func predictOnce(ctx context.Context, c configuration, predict predictor) (*prediction, error) {
	config, err := c.load()
	if err != nil {
		return nil, err
	}
	p, err := predict(ctx, config)
	if err != nil {
		return nil, err
	}
	span, samples := p.Summary.LongestSpan.Seconds(), float64(p.Experiment.Samples)
	return &prediction{p.Result, span, samples, p.Trace, p.Conditions()}, nil
}
