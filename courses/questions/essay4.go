package questions

import (
	"fmt"
	"slices"

	"psim/internal/units"
)

func discussPipelineOverTime(e *essay) error {
	r, err := e.timeline("pipeline")
	if err != nil {
		return err
	}
	e.graph, e.part = pipelineTimeline, "a"
	p := passesOf(r.Trace)
	k, m := float64(r.Workers), float64(r.Result.Microbatches)
	e.say(p.overlap > 0,
		"workers compute at the same time, because a microbatch can be on the next worker while this one has another",
		"two or more do for %s of a step of %s", units.FormatDuration(p.overlap), units.FormatSeconds(stepTime(r)))
	e.part = "b"
	held := ranks(r, inFlight)
	e.say(p.forwardsFirst() && slices.Max(held) == m,
		"every worker takes all microbatches forward and then all of them back, as GPipe does, and so keeps the "+
			"activations of all",
		"up to %.0f of %.0f", slices.Max(held), m)
	e.part = "a"
	e.shares(ranks(r, computes))
	formula := (k - 1) / (m + k - 1)
	bubble := r.Result.Bubble.Makespan
	e.say(bubble >= formula-rounding,
		"so the workers with less wait, and they are idle for more than the (K−1)/(M+K−1) of the time that equal "+
			"stages would leave",
		"%s instead of %s", percent(bubble), percent(formula))
	return e.lessIdle(r)
}

// lessIdle compares the bubble of a pipeline with that of model parallelism.
func (e *essay) lessIdle(r ModeRun) error {
	model, err := seriesOf(e.runs, "model", 1)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(model, func(x ModeRun) bool { return x.Workers == r.Workers })
	if i < 0 {
		return fmt.Errorf("no run of model=%d, to which pipeline=%d is compared", r.Workers, r.Workers)
	}
	e.read = append(e.read, model[i])
	bubble, before := r.Result.Bubble.Makespan, model[i].Result.Bubble.Makespan
	e.graph = modelTimeline
	e.say(bubble < before, "still they are idle for less than with model parallelism",
		"%s instead of %s on as many workers, with %d microbatches",
		percent(bubble), percent(before), r.Result.Microbatches)
	return nil
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
	e.graph, e.part = pipelineThroughput, "a"
	speedups := pipeline.speedups()
	var equal []float64
	within := true
	for i, r := range pipeline {
		k, m := float64(r.Workers), float64(r.Result.Microbatches)
		equal = append(equal, k*m/(m+k-1))
		within = within && speedups[i] <= equal[i]*1.01
	}
	e.say(grows(speedups) && within,
		"throughput grows with the workers, but to no more than the K·M/(M+K−1) times that of one that equal "+
			"stages would reach",
		"%s samples per second %s, %s that of the fewest, against %s",
		written(pipeline.each(throughput), perSecond), pipeline.on(), written(speedups, times), written(equal, times))
	e.part = "b"
	last := pipeline.last()
	compute := ranks(last, computes)
	limit := total(compute) / slices.Max(compute)
	e.say(limit < float64(last.Workers) && total(compute)/stepTime(last) <= limit,
		"unequal stages keep it from that, because the step cannot be shorter than what the busiest worker "+
			"computes, however many microbatches there are",
		"on %d workers %s of %s in all, which allows for no more than %s", last.Workers,
		units.FormatSeconds(slices.Max(compute)), units.FormatSeconds(total(compute)), times(limit))
	p, m, err := onAsMany(pipeline, model)
	if err != nil {
		return err
	}
	e.part = "c"
	e.compareWithModel(p, m)
	e.part = "b"
	talk := total(ranks(p, passesOn))
	e.say(near(total(ranks(p, sends)), total(ranks(m, sends))) && talk < 0.1*stepTime(p),
		"communication is not what limits it, because no more passes between the workers than in model parallelism",
		"%s, which are on their way for %s of a step of %s",
		bytesText(total(ranks(p, sends))), units.FormatSeconds(talk), units.FormatSeconds(stepTime(p)))
	return nil
}

// compareWithModel says whether pipelining is worth its smaller microbatches.
func (e *essay) compareWithModel(p, m ModeRun) {
	busy := utilization(p) > utilization(m)
	const numbers = "%s as fast on %d workers, %s against %s samples per second; they are busy for %s of the " +
		"step on average, and with model parallelism for %s"
	values := []any{
		times(throughput(p) / throughput(m)), p.Workers, perSecond(throughput(p)), perSecond(throughput(m)),
		percent(utilization(p)), percent(utilization(m)),
	}
	if throughput(p) > throughput(m) {
		e.say(busy,
			"it is faster than model parallelism, because workers compute at the same time for part of the step",
			numbers, values...)
		return
	}
	whole, parts := total(ranks(m, computes)), total(ranks(p, computes))
	e.say(busy && parts > whole,
		"it is slower than model parallelism although workers compute at the same time for part of the step, "+
			"because passes over microbatches take longer together than those over the batch: every kernel is "+
			"started for each of them",
		numbers+"; all passes take %s together, and over the whole batch %s",
		append(values, units.FormatSeconds(parts), units.FormatSeconds(whole))...)
}
