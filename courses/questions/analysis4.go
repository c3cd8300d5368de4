package questions

import (
	"fmt"
	"slices"

	"psim/internal/units"
	"psim/schedules/graph"
)

func pipelineOverTime() question {
	return question{
		id: "4.1", title: "timeline of pipeline parallelism",
		text:    "What does the timeline of pipeline parallelism show of how work is shared among the workers, and of how it is done?",
		modes:   []string{"model", "pipeline"},
		discuss: discussPipelineOverTime,
	}
}

func discussPipelineOverTime(e *essay) error {
	r, err := e.timeline("pipeline")
	if err != nil {
		return err
	}
	p := passesOf(r.Trace)
	k, m := float64(r.Workers), float64(r.Result.Microbatches)
	e.say(pipelineTimeline, p.overlap > 0, "workers compute at the same time, because a microbatch can be on the next worker while this one has another",
		"two or more do for %s of a step of %s", units.FormatDuration(p.overlap), units.FormatSeconds(stepTime(r)))
	held := ranks(r, inFlight)
	e.say(pipelineTimeline, p.forwardsFirst() && slices.Max(held) == m, "every worker takes all microbatches forward and then all of them back, as GPipe does, and so keeps the activations of all",
		"up to %.0f of %.0f", slices.Max(held), m)
	compute := ranks(r, computes)
	e.shares(pipelineTimeline, compute)
	formula := (k - 1) / (m + k - 1)
	bubble := r.Result.Bubble.Makespan
	e.say(pipelineTimeline, bubble >= formula-rounding, "so the workers with less wait, and they are idle for more than the (K−1)/(M+K−1) of the time that equal stages would leave",
		"%s instead of %s", percent(bubble), percent(formula))
	model, err := seriesOf(e.runs, "model", 1)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(model, func(x Run) bool { return x.Workers == r.Workers })
	if i < 0 {
		return fmt.Errorf("no run of model=%d, to which pipeline=%d is compared", r.Workers, r.Workers)
	}
	e.read = append(e.read, model[i])
	before := model[i].Result.Bubble.Makespan
	e.say(modelTimeline, bubble < before, "still they are idle for less than with model parallelism",
		"%s instead of %s on as many workers, with %d microbatches", percent(bubble), percent(before), r.Result.Microbatches)
	return nil
}

// forwardsFirst says whether every rank does all forwards before its first backward.
func (p passes) forwardsFirst() bool {
	for _, rank := range p.byRank {
		first := slices.IndexFunc(rank, func(x pass) bool { return x.kind != graph.Forward })
		if first < 0 || slices.ContainsFunc(rank[first:], func(x pass) bool { return x.kind == graph.Forward }) {
			return false
		}
	}
	return true
}

func pipelineScaling() question {
	return question{
		id: "4.2", title: "scaling of pipeline parallelism",
		text:    "How does the throughput of pipeline parallelism grow with the workers, is that what should be expected, and how does it compare with model parallelism?",
		modes:   []string{"model", "pipeline"},
		discuss: discussPipelineScaling,
	}
}

func discussPipelineScaling(e *essay) error {
	pipeline, err := e.of("pipeline", 2)
	if err != nil {
		return err
	}
	model, err := e.of("model", 2)
	if err != nil {
		return err
	}
	speedups := pipeline.speedups()
	var equal []float64
	within := true
	for i, r := range pipeline {
		k, m := float64(r.Workers), float64(r.Result.Microbatches)
		equal = append(equal, k*m/(m+k-1))
		within = within && speedups[i] <= equal[i]*1.01
	}
	e.say(pipelineThroughput, grows(speedups) && within, "throughput grows with the workers, but to no more than the K·M/(M+K−1) times that of one that equal stages would reach",
		"%s samples per second %s, %s that of the fewest, against %s", written(pipeline.each(throughput), perSecond), pipeline.on(), written(speedups, times), written(equal, times))
	last := pipeline.last()
	compute := ranks(last, computes)
	limit := sum(compute) / slices.Max(compute)
	e.say(pipelineThroughput, limit < float64(last.Workers) && sum(compute)/stepTime(last) <= limit,
		"unequal stages keep it from that, because the step cannot be shorter than what the busiest worker computes, however many microbatches there are",
		"on %d workers %s of %s in all, which allows for no more than %s", last.Workers, units.FormatSeconds(slices.Max(compute)), units.FormatSeconds(sum(compute)), times(limit))
	p, m, err := onAsMany(pipeline, model)
	if err != nil {
		return err
	}
	compareWithModel(e, p, m)
	talk := sum(ranks(p, passesOn))
	e.say(pipelineThroughput, near(sum(ranks(p, sends)), sum(ranks(m, sends))) && talk < 0.1*stepTime(p), "communication is not what limits it, because no more passes between the workers than in model parallelism",
		"%s, which are on their way for %s of a step of %s", bytesText(sum(ranks(p, sends))), units.FormatSeconds(talk), units.FormatSeconds(stepTime(p)))
	return nil
}

// compareWithModel says whether pipelining is worth its smaller microbatches.
func compareWithModel(e *essay, p, m Run) {
	busy := utilization(p) > utilization(m)
	const numbers = "%s as fast on %d workers, %s against %s samples per second; they are busy for %s of the step on average, and with model parallelism for %s"
	values := []any{times(throughput(p) / throughput(m)), p.Workers, perSecond(throughput(p)), perSecond(throughput(m)), percent(utilization(p)), percent(utilization(m))}
	if throughput(p) > throughput(m) {
		e.say(pipelineThroughput, busy, "it is faster than model parallelism, because workers compute at the same time for part of the step", numbers, values...)
		return
	}
	alone, apart := sum(ranks(m, computes)), sum(ranks(p, computes))
	e.say(pipelineThroughput, busy && apart > alone, "it is slower than model parallelism although workers compute at the same time for part of the step, because passes over microbatches take longer together than those over the batch: every kernel is started for each of them",
		numbers+"; all passes take %s together, and over the whole batch %s", append(values, units.FormatSeconds(apart), units.FormatSeconds(alone))...)
}
