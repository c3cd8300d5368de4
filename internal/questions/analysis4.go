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
	e.say(pipelineTimeline, p.overlap > 0, "Workers compute beside each other, because a microbatch can be on the next worker while this one has another: for %s of a step of %s two or more do.",
		units.FormatDuration(p.overlap), units.FormatSeconds(stepTime(r)))
	held := ranks(r, inFlight)
	e.say(pipelineTimeline, p.forwardsFirst() && slices.Max(held) == m, "Every worker takes all %.0f microbatches forward and then all of them back, as GPipe does, and so holds the activations of up to %.0f.",
		m, slices.Max(held))
	compute := ranks(r, computes)
	e.shares(pipelineTimeline, compute)
	formula := (k - 1) / (m + k - 1)
	bubble := r.Result.Bubble.Makespan
	e.say(pipelineTimeline, bubble >= formula-rounding, "So the workers with less wait for that one: idle is %s of the time, where equal stages would leave (K−1)/(M+K−1) = %s.",
		percent(bubble), percent(formula))
	model, err := e.of("model", 1)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(model, func(x Run) bool { return x.Workers == r.Workers })
	if i < 0 {
		return fmt.Errorf("no run of model=%d, to which pipeline=%d is compared", r.Workers, r.Workers)
	}
	before := model[i].Result.Bubble.Makespan
	e.say(modelTimeline, bubble < before, "Model parallelism with as many workers leaves %s idle, so that pipelining %d microbatches takes away %.1f points.",
		percent(before), r.Result.Microbatches, 100*(before-bubble))
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
	e.say(pipelineThroughput, grows(speedups) && within, "Throughput grows with the workers, but less than in proportion: %s samples per second %s, %s that of the fewest, where equal stages would reach K·M/(M+K−1) times that of one, %s.",
		written(pipeline.each(throughput), perSecond), pipeline.on(), written(speedups, times), written(equal, times))
	last := pipeline.last()
	compute := ranks(last, computes)
	limit := sum(compute) / slices.Max(compute)
	e.say(pipelineThroughput, limit < float64(last.Workers) && sum(compute)/stepTime(last) <= limit,
		"It misses that because the stages are unequal: however many microbatches, the step cannot be shorter than the %s that the busiest of %d workers computes, of %s in all, so that the pipeline could never be more than %s as fast as one worker.",
		units.FormatSeconds(slices.Max(compute)), last.Workers, units.FormatSeconds(sum(compute)), times(limit))
	p, m, err := onAsMany(pipeline, model)
	if err != nil {
		return err
	}
	compareWithModel(e, p, m)
	talk := sum(ranks(p, passesOn))
	e.say(pipelineThroughput, near(sum(ranks(p, sends)), sum(ranks(m, sends))) && talk < 0.1*stepTime(p), "Communication is not what limits it: the same %s pass between the workers as in model parallelism, and are on their way for %s.",
		bytesText(sum(ranks(p, sends))), units.FormatSeconds(talk))
	return nil
}

// compareWithModel says whether pipelining is worth its smaller microbatches.
func compareWithModel(e *essay, p, m Run) {
	beside := fmt.Sprintf("With %d workers it is %s as fast as model parallelism, %s against %s samples per second",
		p.Workers, times(throughput(p)/throughput(m)), perSecond(throughput(p)), perSecond(throughput(m)))
	busy := fmt.Sprintf("they are busy for %s of it on average, and with model parallelism for %s", percent(utilization(p)), percent(utilization(m)))
	if throughput(p) > throughput(m) {
		e.say(pipelineThroughput, utilization(p) > utilization(m), "%s, because workers compute beside each other for part of the step: %s.", beside, busy)
	} else {
		alone, apart := sum(ranks(m, computes)), sum(ranks(p, computes))
		e.say(pipelineThroughput, utilization(p) > utilization(m) && apart > alone, "%s, although workers compute beside each other for part of the step: %s. A microbatch takes more of a batch's time than its share of the samples, because every kernel is started for each: all passes take %s together, and on whole batches %s.",
			beside, busy, units.FormatSeconds(apart), units.FormatSeconds(alone))
	}
}
