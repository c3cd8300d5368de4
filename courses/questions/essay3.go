package questions

import (
	"fmt"
	"slices"

	"psim/internal/units"
	"psim/results"
)

func discussShardedThroughput(e *essay) error {
	fsdp, err := e.of("fsdp", 2)
	if err != nil {
		return err
	}
	ddp, err := e.of("ddp", 2)
	if err != nil {
		return err
	}
	e.graph = fsdpThroughput
	ours, theirs := fsdp.speedups(), ddp.speedups()
	proportion := float64(fsdp.last().Workers) / float64(fsdp[0].Workers)
	e.say(grows(ours) && slices.Max(ours) < proportion && ours[len(ours)-1] < theirs[len(theirs)-1],
		"FSDP's throughput grows with the workers, but farther from in proportion than DDP's",
		"%s samples per second %s, %s that of the fewest, where DDP has %s %s",
		written(fsdp.each(throughput), perSecond), fsdp.on(), written(ours, times), written(theirs, times), ddp.on())
	f, d, err := onAsMany(fsdp, ddp)
	if err != nil {
		return err
	}
	e.graph = ddpThroughput
	e.say(throughput(d) > throughput(f), "DDP is faster",
		"%s against %s samples per second on %d workers, %s as fast",
		perSecond(throughput(d)), perSecond(throughput(f)), d.Workers, times(throughput(d)/throughput(f)))
	e.graph = fsdpThroughput
	e.say(communicating(f) > communicating(d) && alike([]float64{computing(f), computing(d)}),
		"the difference is communication, since both compute the same within a tenth",
		"a worker computes for %s with FSDP and %s with DDP, and communicates for %s and %s",
		units.FormatSeconds(computing(f)), units.FormatSeconds(computing(d)),
		units.FormatSeconds(communicating(f)), units.FormatSeconds(communicating(d)))
	e.bytesOf(f, d)
	e.kept(fsdp, ddp)
	return e.compareSimplified(f.Workers)
}

// compareSimplified predicts the assignment's own form of FSDP.
func (e *essay) compareSimplified(workers int) error {
	simplified, err := predictMode(e.ctx, "fsdp", workers, "parallel.simplified=true")
	if err != nil {
		return err
	}
	full, err := predictMode(e.ctx, "fsdp", workers)
	if err != nil {
		return err
	}
	ddp, err := predictMode(e.ctx, "ddp", workers)
	if err == nil {
		e.saves(simplified, full, ddp)
	}
	return err
}

// saves says how much of DDP's memory each form of FSDP saves.
func (e *essay) saves(simplified, full, ddp ModeRun) {
	s, f, d := keeping(simplified), keeping(full), keeping(ddp)
	e.say(s >= d && f < d,
		"the simplified FSDP of the assignment, "+
			"which keeps the whole model in addition to the shares, saves nothing of it",
		"at the course's own size on %d workers, predicted, it keeps %s, FSDP %s and DDP %s",
		full.Workers, bytesText(s), bytesText(f), bytesText(d))
}

// onAsMany picks the runs of both modes with the largest number of workers that both have.
func onAsMany(a, b series) (x, y ModeRun, err error) {
	for _, x := range slices.Backward(a) {
		for _, y := range b {
			if x.Workers == y.Workers && x.Workers > 1 {
				return x, y, nil
			}
		}
	}
	return x, y, fmt.Errorf("no runs of %s and %s on as many workers, of at least two", a[0].Mode, b[0].Mode)
}

// bytesOf says how many bytes a worker sends under FSDP and under DDP.
func (e *essay) bytesOf(f, d ModeRun) {
	sums, ratio := "all-reduces its gradients whole, since the workers' library has no reduce-scatter, 4(W−1)/W", 2.0
	for _, g := range f.Result.Groups {
		if g.Collective == "reduce-scatter" {
			sums, ratio = "reduce-scatters its gradients, 3(W−1)/W", 1.5
		}
	}
	e.say(near(sending(f), ratio*sending(d)),
		"with FSDP a worker sends more, because DDP all-reduces gradients once, 2(W−1)/W of their bytes, while "+
			"FSDP gathers every layer's parameters for its forward and again for its backward and "+sums+" in all",
		"%s instead of %s, %s as much", bytesText(sending(f)), bytesText(sending(d)), times(sending(f)/sending(d)))
	var gather, all float64
	for _, g := range f.Result.Groups {
		if all += g.Time; g.Collective == "all-gather" {
			gather += g.Time
		}
	}
	e.say(gather > all/2, "most of the time that FSDP communicates is for gathers",
		"%s of %s%s", units.FormatSeconds(gather), units.FormatSeconds(all), gathersFitted(f))
}

// gathersFitted says of a prediction that the rate of its gathers was fitted to the course's
// own runs of FSDP, if its link is the one that was.
func gathersFitted(r ModeRun) string {
	const link = "gloo-cs1390"
	if machine, _ := r.Result.Config["machine"].(map[string]any); r.Result.Kind == results.Predicted &&
		machine["link"] == link {
		return ", at a rate that was not predicted but fitted to the course's own runs of FSDP (link " + link + ")"
	}
	return ""
}

// kept says what FSDP is useful for.
func (e *essay) kept(fsdp, ddp series) {
	f, d := fsdp.each(keeping), ddp.each(keeping)
	e.say(falls(f) && alike(d),
		"what FSDP buys is memory, because parameters, gradients and optimizer states are divided among the workers",
		"of these a worker keeps %s %s, and with DDP %s, however many there are",
		written(f, bytesText), fsdp.on(), bytesText(slices.Max(d)))
}
