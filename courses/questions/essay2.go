package questions

import (
	"slices"

	"psim/costmodel/training"
	"psim/internal/units"
)

func discussWorkOverTime(e *essay) error {
	r, err := e.timeline("model")
	if err != nil {
		return err
	}
	e.graph, e.part = modelTimeline, "a"
	p, n := passesOf(r.Trace), float64(r.Workers)
	compute := ranks(r, computes)
	e.say(p.overlap == 0, "one worker computes at a time",
		"all %d compute for %s of a step of %s, and two at once for %s of it", r.Workers,
		units.FormatSeconds(total(compute)), units.FormatSeconds(stepTime(r)), units.FormatSeconds(p.overlap.Seconds()))
	e.part = "b"
	e.say(p.ordered(),
		"the batch goes forward from the first worker to the last, and then its gradients go back from "+
			"the last to the first",
		"the last forward ends at %s, and the first backward begins at %s",
		units.FormatDuration(p.forwardsEnd), units.FormatDuration(p.backwardsStart))
	e.part = "a"
	e.shares(compute)
	e.say(r.Result.Bubble.Makespan >= 1-1/n-rounding,
		"the others wait, so that on average a worker is idle for no less than (W−1)/W of the time",
		"%s, where (W−1)/W is %s", percent(r.Result.Bubble.Makespan), percent(1-1/n))
	e.part = "b"
	reason := "because each layer computes two gradients, of its input and of its weights"
	if train, _ := r.Result.Config["train"].(map[string]any); train["backward"] == training.BackwardTwoPass {
		reason += ", in a pass each, as in the course's code"
	}
	e.say(p.backward > p.forward, "backwards take longer than forwards, "+reason,
		"%.1f times as long, %s against %s", p.backward.Seconds()/p.forward.Seconds(),
		units.FormatDuration(p.backward), units.FormatDuration(p.forward))
	talk := total(ranks(r, passesOn))
	e.say(talk < 0.1*stepTime(r),
		"all that passes between workers are activations and their gradients at the cuts, for little of the step",
		"%s in all, which are on their way for %s", bytesText(total(ranks(r, sends))), units.FormatSeconds(talk))
	return nil
}

// shares says that the stages differ in size.
func (e *essay) shares(compute []float64) {
	all := total(compute)
	var parts []float64
	for _, c := range compute {
		parts = append(parts, c/all)
	}
	most := slices.Index(compute, slices.Max(compute))
	e.say(parts[most] > 1.1/float64(len(parts)),
		"work is not shared equally, because the network is cut between layers of different size",
		"the workers compute for %s, which is %s; worker %d has the most",
		written(compute, units.FormatSeconds), written(parts, percent), most)
}

func discussModelScaling(e *essay) error {
	model, err := e.of("model", 2)
	if err != nil {
		return err
	}
	e.graph, e.part = modelThroughput, "a"
	rates, busy := model.each(throughput), model.each(utilization)
	e.say(alike(rates), "throughput stays the same within a tenth, whatever the number of workers",
		"%s samples per second %s", written(rates, perSecond), model.on())
	e.part = "b"
	alone := true
	for i, r := range model {
		alone = alone && busy[i] <= 1/float64(r.Workers)
	}
	e.say(alone, "of W workers one computes at a time, so that each does so for at most 1/W of the step on average",
		"%s of it", written(busy, percent))
	memory := model.each(fullest)
	e.say(falls(memory), "what more workers are for is memory, because nothing is held twice",
		"the fullest worker needs %s", written(memory, bytesText))
	return nil
}
