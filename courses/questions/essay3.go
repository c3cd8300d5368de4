package questions

import (
	"cmp"
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
	e.graph, e.part = fsdpThroughput, "a"
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
	e.graph, e.part = ddpThroughput, "b"
	e.say(throughput(d) > throughput(f), "DDP is faster",
		"%s against %s samples per second on %d workers, %s as fast",
		perSecond(throughput(d)), perSecond(throughput(f)), d.Workers, times(throughput(d)/throughput(f)))
	e.graph = fsdpThroughput
	e.say(communicating(f) > communicating(d) && alike([]float64{computing(f), computing(d)}),
		"the difference is communication, since both compute the same within a tenth",
		"a worker computes for %s with FSDP and %s with DDP, and communicates for %s and %s",
		units.FormatSeconds(computing(f)), units.FormatSeconds(computing(d)),
		units.FormatSeconds(communicating(f)), units.FormatSeconds(communicating(d)))
	e.part = "c"
	e.bytesOf(f, d)
	e.part = "d"
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
		e.peaks(full, ddp)
		e.saves(simplified, full, ddp)
	}
	return err
}

// peaks says why FSDP saves less at its peak than of what is kept.
func (e *essay) peaks(f, d ModeRun) {
	whole, compared := gradients(f), "is higher than DDP's all the same"
	if fullest(f) <= fullest(d) {
		compared = "is lower than DDP's by less than that"
	}
	e.say(gathered(f) > 0 && fullest(f)*keeping(d) > fullest(d)*keeping(f),
		"FSDP's peak of memory "+compared+", because the largest layer is gathered whole at "+
			"it, and its gradient is whole, in addition to the shares of all layers",
		"%s with FSDP and %s with DDP%s; of parameters and of gradients a worker then has a share of %s, which is "+
			"larger on fewer workers, and %s more, %s of the network, where DDP has %s of each",
		bytesText(fullest(f)), bytesText(fullest(d)), e.predicted(", "), bytesText(whole/float64(f.Workers)),
		bytesText(gathered(f)), percent(gathered(f)/whole), bytesText(whole))
}

// saves says how much of DDP's memory each form of FSDP saves.
func (e *essay) saves(simplified, full, ddp ModeRun) {
	s, f, d := keeping(simplified), keeping(full), keeping(ddp)
	e.say(s >= d && f < d,
		"the simplified FSDP of the assignment, "+
			"which keeps the whole model in addition to the shares, saves nothing of it",
		"at the course's own size on %d workers%s, it keeps %s, FSDP %s and DDP %s",
		full.Workers, e.predicted(", "), bytesText(s), bytesText(f), bytesText(d))
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
	gather, all := 0.0, perWorker(f, passesOn) // with the averaging of sums
	for _, g := range f.Result.Groups {
		if g.Collective == "all-gather" {
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

// commandOfUnits draws the peaks of FSDP with a unit for each layer and with one of all.
const commandOfUnits = "psim run vgg16-cpu-fsdp --out results/fsdp-4 && " +
	"psim run vgg16-cpu-fsdp --set parallel.gather_unit=stage --out results/fsdp-4-one-unit && " +
	"psim plot memory results/fsdp-4 results/fsdp-4-one-unit --out " + fsdpUnits

// discussOneCall says what a constant number of calls of autograd costs. A call needs the
// parameters of all the layers that it goes through, so that one call is one unit of all layers.
func discussOneCall(e *essay) error {
	const workers = 4 // as in the figure
	each, err := predictMode(e.ctx, "fsdp", workers)
	if err != nil {
		return err
	}
	one, err := predictMode(e.ctx, "fsdp", workers, "parallel.gather_unit=stage")
	if err != nil {
		return err
	}
	one.Note = "a unit of all layers"
	e.read, e.graph = []ModeRun{each, one}, fsdpUnits
	e.weighUnits(each, one)
	return nil
}

// weighUnits compares FSDP with a unit for each layer and with one of all.
func (e *essay) weighUnits(each, one ModeRun) {
	whole := gradients(one)
	e.say(near(gathered(one), whole) && gathered(each) < 0.9*whole,
		"FSDP whose communication does not overlap, as in the course, promises that a worker has no more than a "+
			"layer whole at a time, and one call breaks that, because autograd needs the parameters of all layers "+
			"that a call goes through, so that none can be freed before the call ends",
		"at the peak of memory a worker has gathered %s with a call for each layer and %s with one call, and the "+
			"whole network is %s", bytesText(gathered(each)), bytesText(gathered(one)), bytesText(whole))
	e.say(keeping(one) == keeping(each) && fullest(one) >= keeping(one)+2*whole && fullest(one) > fullest(each),
		"memory then peaks at the whole network, because its gradients come at once, too, before any of them can "+
			"be summed and freed",
		"the fullest of %d workers peaks at %s instead of %s; in both cases it keeps %s, and with one call all "+
			"parameters and all gradients come on top, %s",
		one.Workers, bytesText(fullest(one)), bytesText(fullest(each)), bytesText(keeping(one)), bytesText(2*whole))
	again := (1 - 1/float64(one.Workers)) * whole
	e.say(near(sending(one), sending(each)) && again < sending(one)/3,
		"all that could be won is the second gather, because layers that stay need not be gathered again for the "+
			"backward",
		"that is %s of the %s that a worker sends, if it gathers twice in both cases, as simulated here",
		bytesText(again), bytesText(sending(one)))
	e.say(gathered(each) > whole/2,
		"a network of equal layers would lose more, because in VGG16 one layer has most of the parameters and is "+
			"gathered whole in any case",
		"that layer has %s of them", percent(gathered(each)/whole))
}

// gathered returns the bytes of parameters that the fullest worker has at its peak in addition to
// its share.
func gathered(r ModeRun) float64 {
	rank := slices.MaxFunc(r.Result.Ranks, func(a, b results.RankResult) int {
		return cmp.Compare(a.PeakMemory, b.PeakMemory)
	})
	if rank.Memory == nil {
		return 0
	}
	return float64(rank.Memory.Parameters) - gradients(r)/float64(r.Workers)
}
