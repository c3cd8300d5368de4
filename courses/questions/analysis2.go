package questions

import (
	"slices"
	"time"

	"psim/costmodel/training"
	"psim/internal/units"
	"psim/schedules/graph"
)

func workOverTime() question {
	return question{
		id: "2.1", title: "timeline of model parallelism",
		text:    "What does the timeline of model parallelism show of how work is shared among the workers, and of how it is done?",
		modes:   []string{"model"},
		discuss: discussWorkOverTime,
	}
}

func discussWorkOverTime(e *essay) error {
	r, err := e.timeline("model")
	if err != nil {
		return err
	}
	p, n := passesOf(r.Trace), float64(r.Workers)
	compute := ranks(r, computes)
	e.say(modelTimeline, p.overlap == 0, "one worker computes at a time",
		"all %d compute for %s of a step of %s, and two at once for %s of it",
		r.Workers, units.FormatSeconds(sum(compute)), units.FormatSeconds(stepTime(r)), units.FormatSeconds(p.overlap.Seconds()))
	e.say(modelTimeline, p.ordered(), "the batch goes forward from the first worker to the last, and then its gradients go back from the last to the first",
		"the last forward ends at %s, and the first backward begins at %s", units.FormatDuration(p.forwardsEnd), units.FormatDuration(p.backwardsStart))
	e.shares(modelTimeline, compute)
	e.say(modelTimeline, r.Result.Bubble.Makespan >= 1-1/n-rounding, "the others wait, so that on average a worker is idle for no less than (W−1)/W of the time",
		"%s, where (W−1)/W is %s", percent(r.Result.Bubble.Makespan), percent(1-1/n))
	reason := "because each layer computes two gradients, of its input and of its weights"
	if train, _ := r.Result.Config["train"].(map[string]any); train["backward"] == training.BackwardTwoPass {
		reason += ", in a pass each, as in the course's code"
	}
	e.say(modelTimeline, p.backward > p.forward, "backwards take longer than forwards, "+reason,
		"%.1f times as long, %s against %s", p.backward.Seconds()/p.forward.Seconds(), units.FormatDuration(p.backward), units.FormatDuration(p.forward))
	talk := sum(ranks(r, passesOn))
	e.say(modelTimeline, talk < 0.1*stepTime(r), "all that passes between workers are activations and their gradients at the cuts, for little of the step",
		"%s in all, which are on their way for %s", bytesText(sum(ranks(r, sends))), units.FormatSeconds(talk))
	return nil
}

// shares says that the stages are of different size.
func (e *essay) shares(graph string, compute []float64) {
	all := sum(compute)
	var parts []float64
	for _, c := range compute {
		parts = append(parts, c/all)
	}
	most := slices.Index(compute, slices.Max(compute))
	e.say(graph, parts[most] > 1.1/float64(len(parts)), "work is not shared equally, because the network is cut between layers of different size",
		"the workers compute for %s, which is %s; worker %d has the most", written(compute, units.FormatSeconds), written(parts, percent), most)
}

// passes holds what a trace shows of forwards and backwards.
type passes struct {
	forward, backward time.Duration // of all
	// overlap is how long two or more ranks compute at once.
	overlap                     time.Duration
	forwardsEnd, backwardsStart time.Duration
	byRank                      [][]pass
}

type pass struct {
	kind  graph.Kind
	start time.Duration
	end   time.Duration
}

func passesOf(t *graph.Trace) passes {
	p := passes{byRank: make([][]pass, t.Graph.Ranks())}
	type edge struct {
		at   time.Duration
		more int
	}
	var edges []edge
	for i := range t.Graph.Tasks {
		task, span := &t.Graph.Tasks[i], t.Spans[i]
		if !task.Kind.Compute() {
			continue
		}
		if task.Kind == graph.Forward {
			p.forward += span.Duration()
			p.forwardsEnd = max(p.forwardsEnd, span.End)
		} else {
			if p.backward == 0 || span.Start < p.backwardsStart {
				p.backwardsStart = span.Start
			}
			p.backward += span.Duration()
		}
		p.byRank[task.Rank] = append(p.byRank[task.Rank], pass{task.Kind, span.Start, span.End})
		edges = append(edges, edge{span.Start, 1}, edge{span.End, -1})
	}
	slices.SortFunc(edges, func(a, b edge) int { // ends first, where something starts at once
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return a.more - b.more
	})
	running := 0
	for i, e := range edges {
		if running > 1 {
			p.overlap += e.at - edges[i-1].at
		}
		running += e.more
	}
	return p
}

// ordered says whether forwards go down the ranks and then backwards up again.
func (p passes) ordered() bool {
	var forward, backward time.Duration
	for _, rank := range p.byRank {
		for _, x := range rank {
			if x.kind == graph.Forward {
				if x.start < forward {
					return false
				}
				forward = x.end
			}
		}
	}
	backward = forward
	for _, rank := range slices.Backward(p.byRank) {
		for _, x := range rank {
			if x.kind != graph.Forward {
				if x.start < backward {
					return false
				}
				backward = x.end
			}
		}
	}
	return true
}

func modelScaling() question {
	return question{
		id: "2.2", title: "scaling of model parallelism",
		text:    "How does the throughput of model parallelism change with the workers, and is that what should be expected?",
		modes:   []string{"model"},
		discuss: discussModelScaling,
	}
}

func discussModelScaling(e *essay) error {
	model, err := e.of("model", 2)
	if err != nil {
		return err
	}
	rates, busy := model.each(throughput), model.each(utilization)
	e.say(modelThroughput, alike(rates), "throughput stays the same within a tenth, whatever the number of workers",
		"%s samples per second %s", written(rates, perSecond), model.on())
	alone := true
	for i, r := range model {
		alone = alone && busy[i] <= 1/float64(r.Workers)
	}
	e.say(modelThroughput, alone, "of W workers one computes at a time, so that each does so for at most 1/W of the step on average",
		"%s of it", written(busy, percent))
	memory := model.each(fullest)
	e.say(modelThroughput, falls(memory), "what more workers are for is memory, because nothing is held twice",
		"the fullest worker needs %s", written(memory, bytesText))
	return nil
}
