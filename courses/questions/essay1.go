package questions

import (
	"slices"

	"psim/internal/units"
)

// The devices that question 1.1 compares the course's workers with.
const (
	gpu     = "a100-80gb-sxm"
	gpuLink = "nvlink3-a100"
)

func discussSplitTime(e *essay) error {
	ddp, err := e.of("ddp", 2)
	if err != nil {
		return err
	}
	e.graph, e.part = ddpSplit, "a"
	compute, update, talk := ddp.each(computing), ddp.each(updating), ddp.each(communicating)
	batch := throughput(ddp[0]) * stepTime(ddp[0]) / float64(ddp[0].Workers)
	e.say(alike(compute), "computation stays the same within a tenth, because every worker keeps as many samples",
		"each has %.0f and computes for %s %s", batch, written(compute, units.FormatSeconds), ddp.on())
	e.say(alike(update), "the update stays the same too, because every worker updates all parameters",
		"%s of them in %s", units.FormatCount(ddp[0].Result.Parameters), written(update, units.FormatSeconds))
	e.say(grows(talk) && ringBytes(ddp),
		"communication grows, but less and less, because in a ring all-reduce every worker sends "+
			"2(W−1)/W of its gradients",
		"of %s it sends %s, in %s", bytesText(gradients(ddp[0])),
		written(ddp.each(sending), bytesText), written(talk, units.FormatSeconds))
	e.part = "b"
	var works, talks []float64
	for i, r := range ddp {
		works, talks = append(works, compute[i]/stepTime(r)), append(talks, talk[i]/stepTime(r))
	}
	e.say(slices.Min(works) > 0.5, "computation is most of the step everywhere",
		"it is %s of it, and communication %s", written(works, percent), written(talks, percent))
	e.perByte(ddp)
	e.part = "c"
	return e.compareWithGPUs(ddp.last().Workers)
}

// perByte says whether communication takes as long for every byte, if several runs send any.
func (e *essay) perByte(ddp series) {
	ddp = slices.DeleteFunc(slices.Clone(ddp), func(r ModeRun) bool { return sending(r) == 0 })
	if len(ddp) < 2 {
		return
	}
	first, last := ddp[0], ddp.last()
	longer, more := communicating(last)/communicating(first), sending(last)/sending(first)
	e.say(alike([]float64{longer, more}),
		"communication takes as long as its bytes say, within a tenth, so that nothing else slows it down",
		"%s as long on %d workers as on %d, for %s the bytes",
		times(longer), last.Workers, first.Workers, times(more))
}

// ringBytes reports whether every worker sends what it does in a ring.
func ringBytes(s series) bool {
	for _, r := range s {
		w := float64(r.Workers)
		if !near(sending(r), 2*(w-1)/w*gradients(r)) {
			return false
		}
	}
	return true
}

// compareWithGPUs predicts the course's own step on CPU cores, and on GPUs that a fast link
// joins.
func (e *essay) compareWithGPUs(workers int) error {
	slow, err := predictMode(e.ctx, "ddp", workers)
	if err != nil {
		return err
	}
	fast, err := predictMode(e.ctx, "ddp", workers, "machine.device="+gpu, "machine.link="+gpuLink)
	if err != nil {
		return err
	}
	e.weigh(slow, fast)
	return nil
}

// weigh says what a faster device with a faster link does to a step.
func (e *essay) weigh(slow, fast ModeRun) {
	slowCompute, slowTalk := computing(slow), communicating(slow)
	fastCompute, fastTalk := computing(fast), communicating(fast)
	e.say(fastTalk < slowTalk && fastCompute < slowCompute, "on GPUs that NVLink joins both shrink",
		"on %d GPUs (device %s, link %s%s), a step of the course's size computes for %s instead of "+
			"%s on CPU cores, %s times less, and communicates for %s instead of %s, %s times less",
		fast.Workers, gpu, gpuLink, e.predicted("; "),
		units.FormatSeconds(fastCompute), units.FormatSeconds(slowCompute), wholeText(slowCompute/fastCompute),
		units.FormatSeconds(fastTalk), units.FormatSeconds(slowTalk), wholeText(slowTalk/fastTalk))
	e.say(fastTalk/fastCompute > slowTalk/slowCompute,
		"computation shrinks more than communication, which therefore weighs more there",
		"it takes %s of the time of computation instead of %s; over the link of the CPUs it would take "+
			"%s times that time",
		percent(fastTalk/fastCompute), percent(slowTalk/slowCompute), wholeText(slowTalk/fastCompute))
}

func discussDataThroughput(e *essay) error {
	ddp, err := e.of("ddp", 2)
	if err != nil {
		return err
	}
	e.graph, e.part = ddpThroughput, "a"
	first, last := ddp[0], ddp.last()
	speedups := ddp.speedups()
	var efficiency []float64
	for i, r := range ddp {
		efficiency = append(efficiency, speedups[i]*float64(first.Workers)/float64(r.Workers))
	}
	e.say(grows(speedups) && slices.Max(efficiency[1:]) <= 1,
		"throughput grows with the workers, somewhat less than in proportion, which would be ideal",
		"%s samples per second %s, %s that of the fewest, which is %s of ideal",
		written(ddp.each(throughput), perSecond), ddp.on(), written(speedups, times), written(efficiency, percent))
	e.part = "b"
	change := func(of func(ModeRun) float64) float64 { return of(last) - of(first) }
	compute, update, talk, wait := change(computing), change(updating), change(communicating), change(waiting)
	e.say(talk > max(compute, update, wait),
		"what is lost is above all communication, which one worker does not need and which nothing hides",
		"a step takes %s instead of %s, with %s more of communication, %s of computation, %s of the update "+
			"and %s of waiting",
		units.FormatSeconds(stepTime(last)), units.FormatSeconds(stepTime(first)),
		seconds(talk), seconds(compute), seconds(update), seconds(wait))
	e.say(ringBytes(ddp) && sending(last) < 2*gradients(last),
		"more workers would cost little more, because what each sends in a ring never exceeds twice its gradients",
		"%s at most, and %s on %d workers", bytesText(2*gradients(last)), bytesText(sending(last)), last.Workers)
	return nil
}

// seconds writes a difference of times.
func seconds(x float64) string {
	if x < 0 {
		return "−" + units.FormatSeconds(-x)
	}
	return units.FormatSeconds(x)
}
