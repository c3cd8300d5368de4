package questions

import (
	"slices"
	"time"

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
	e.say(modelTimeline, p.overlap == 0, "One worker computes at a time: the computation of all %d takes %s of a step of %s, and for %s of it two compute at once.",
		r.Workers, units.FormatSeconds(sum(compute)), units.FormatSeconds(stepTime(r)), units.FormatSeconds(p.overlap.Seconds()))
	e.say(modelTimeline, p.ordered(), "The batch goes forward from the first worker to the last, which takes until %s, and then its gradients go back from the last to the first.",
		units.FormatDuration(p.forwardsEnd))
	e.shares(modelTimeline, compute)
	e.say(modelTimeline, r.Result.Bubble.Makespan >= 1-1/n-rounding, "The others wait: on average a worker is idle for %s of the time, no less than (W−1)/W = %s.",
		percent(r.Result.Bubble.Makespan), percent(1-1/n))
	ratio, more := p.backward.Seconds()/p.forward.Seconds(), ""
	if ratio > 2.5 {
		more = "; that they take more than twice as long is due to a program that walks every block once for each, and may look through both for NaN"
	}
	e.say(modelTimeline, p.backward > p.forward, "Backwards take %.1f times as long as forwards, %s against %s, because each layer computes two gradients, of its input and of its weights%s.",
		ratio, units.FormatDuration(p.backward), units.FormatDuration(p.forward), more)
	talk := sum(ranks(r, passesOn))
	e.say(modelTimeline, talk < 0.1*stepTime(r), "Workers pass on activations and their gradients at the cuts alone, %s in all, which is on its way for %s.",
		bytesText(sum(ranks(r, sends))), units.FormatSeconds(talk))
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
	e.say(graph, parts[most] > 1.1/float64(len(parts)), "Work is not shared equally, because the network is cut between layers of different size: the workers compute for %s, which is %s; worker %d has the most.",
		written(compute, units.FormatSeconds), written(parts, percent), most)
}

// passes holds what a trace shows of forwards and backwards.
type passes struct {
	forward, backward time.Duration // of all
	// overlap is how long two or more ranks compute at once.
	overlap     time.Duration
	forwardsEnd time.Duration
	byRank      [][]pass
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
	e.say(modelThroughput, alike(rates), "Throughput does not grow with the workers: %s samples per second %s.", written(rates, perSecond), model.on())
	alone := true
	for i, r := range model {
		alone = alone && busy[i] <= 1/float64(r.Workers)
	}
	e.say(modelThroughput, alone, "That is what to expect: of W workers one computes at a time, so that each does so for at most 1/W of the step on average, here %s.", written(busy, percent))
	memory := model.each(fullest)
	e.say(modelThroughput, falls(memory), "What more workers are for is memory, because nothing is held twice: the fullest worker needs %s.", written(memory, bytesText))
	return nil
}
