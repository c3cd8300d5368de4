package questions

import (
	"fmt"
	"strings"
	"time"

	"psim/costmodel"
)

func equalStages(schedule string, v values) pipeline {
	return pipeline{
		schedule: schedule, stages: v["K"], microbatches: v["M"],
		times: uniform(time.Duration(v["tf"])*time.Millisecond, time.Duration(v["tb"])*time.Millisecond),
	}
}

const bubbleFormula = "(K-1) / (M + K-1)"

// onEqualStages adds to a question on the bubble what both have in common.
func onEqualStages(schedule string, q question) question {
	q.given = []Symbol{
		{"K", "partitions", "partitions", 4, 1, 64, 1}, {"M", "microbatches", "microbatches", 8, 1, 1024, 1},
		{"tf", "ms of one forward; does not enter", "ms", 10, 1, 1e6, 1}, {"tb", "ms of one backward; does not enter", "ms", 20, 1, 1e6, 1},
	}
	q.formula, q.unit = bubbleFormula, "fraction"
	q.run = func(v values) (run, error) { return equalStages(schedule, v).run() }
	q.read = run.bubble
	q.gridName, q.grid = "K = 1…8, M = 1…12 and 16, 32, 64, tf:tb = 1:1, 1:2, 2:3", bubbleGrid()
	return q
}

func bubbleSize() question {
	return onEqualStages("gpipe", question{
		id: "4.3", title: "bubble of GPipe",
		text:       "What share of the devices' time is idle when GPipe sends M microbatches through K partitions?",
		simulation: "gpipe with equal stages and free communication; one minus busy time over ranks times makespan.",
		steps: []Step{
			step("The last device can begin its M forwards when the K-1 before it have each done one, so that the forwards fill", "M + K-1", "slots"),
			step("On K devices these are", "K * (M + K-1)", "slots"),
			step("Every device works in M of its own, and all together", "K * M", "slots"),
			step("The rest is idle", "K * (K-1)", "slots"),
			step("The backwards mirror that in slots of another length, so that the share stays the same", bubbleFormula, "fraction"),
		},
		note: "The schedule is drawn in the paper's Figure 2c; the assignment points to 2a. Equal stages and free communication are assumed.",
		cases: []values{
			{"K": 3, "M": 2}, {"K": 2, "M": 4}, {"K": 8, "M": 32}, {"K": 1}, {"M": 1}, {"tb": 10}, {"tf": 20, "tb": 30},
		},
		further: bubbleChecks,
		readings: []Reading{
			reading("idle time over the ideal time, as Megatron-LM counts it", "(K-1) / M", "fraction"),
			reading("idle slots of the forward, of K*(M + K-1)", "K * (K-1)", "slots"),
			reading("idle slots of forward and backward, of 2*K*(M + K-1)", "2 * K * (K-1)", "slots"),
		},
	})
}

// bubbleChecks adds the makespan and the reading of Megatron-LM.
func bubbleChecks(q question, r run) ([]Check, error) {
	v := q.sample()
	makespan, ideal := r.Summary.Makespan, r.Summary.Ranks[0].Compute
	return []Check{
		check("makespan, (M + K-1) * (tf + tb)", float64((v["M"]+v["K"]-1)*(v["tf"]+v["tb"]))/1e3, r.makespan(), "s"),
		check("idle time over the ideal time", float64(v["K"]-1)/float64(v["M"]), float64(makespan-ideal)/float64(ideal), "fraction"),
	}, nil
}

func bubbleGrid() []values {
	var grid []values
	for k := int64(1); k <= 8; k++ {
		for _, m := range []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 16, 32, 64} {
			for _, t := range [][2]int64{{1, 1}, {1, 2}, {2, 3}} {
				grid = append(grid, values{"K": k, "M": m, "tf": t[0], "tb": t[1]})
			}
		}
	}
	return grid
}

func oneForwardOneBackward() question {
	return onEqualStages("1f1b", question{
		id: "4.4", title: "bubble of 1F1B",
		text:       "Is the bubble of 1F1B smaller than GPipe's, and if it is not, what does 1F1B save in activations held at a time?",
		simulation: "1f1b and gpipe with equal stages and free communication; bubble and the most microbatches in flight on each rank. Unequal stages are those of the course's pipeline timeline, against a recursion over both orders.",
		verdict: func(v values) string {
			same := "No: the bubble is the same, " + figure(evaluate(bubbleFormula, v), "fraction")
			if v["M"] <= v["K"] {
				return same + ", and the first stage holds all microbatches, since they are no more than the partitions."
			}
			return fmt.Sprintf("%s, but at most %s in flight on a stage instead of %d.", same, are(v["K"], "microbatch"), v["M"])
		},
		steps: []Step{
			step("On a device, K-1 forwards pass before the pipeline is full and K-1 backwards while it empties, in which it waits", "(K-1) * (tf + tb)", "ms"),
			step("It works for M of each, in whatever order", "M * (tf + tb)", "ms"),
			step("A step takes both", "(M + K-1) * (tf + tb)", "ms"),
			step("The share in which it waits is that of GPipe", bubbleFormula, "fraction"),
		},
		note:    "With a flush every step and equal stages both wait equally long. GPipe holds the activations of all M microbatches on every stage, and 1F1B those of min(M, K-s) on stage s, at most K.",
		further: oneForwardOneBackwardChecks,
		readings: []Reading{
			valued("PipeDream as published, which never flushes: the bubble once it is full", 0, "fraction"),
			reading("PipeDream's price, K-s versions of the weights on stage s: those on the first", "K", "versions"),
			valued("unequal stages, flushed (the course's timeline, K = 3, M = 2): makespan of GPipe", 43.71, "s"),
			valued("unequal stages, flushed (the same): makespan of 1F1B, which is faster there", 40.88, "s"),
			{Reading: "an earlier wording asked how 1F1B makes the bubble smaller and what it stores in return: then PipeDream is meant"},
		},
	})
}

func oneForwardOneBackwardChecks(q question, _ run) ([]Check, error) {
	var checks []Check
	v := q.sample()
	for _, schedule := range []string{"gpipe", "1f1b"} {
		r, err := equalStages(schedule, v).run()
		if err != nil {
			return nil, err
		}
		checks = append(checks, check("bubble, "+schedule, q.closedForm(v), r.bubble(), "fraction"))
		for s, rank := range r.Summary.Ranks {
			held := v["M"]
			if schedule == "1f1b" {
				held = min(v["M"], v["K"]-int64(s))
			}
			what := fmt.Sprintf("in flight on rank %d, %s", s, schedule)
			checks = append(checks, check(what, float64(held), float64(rank.PeakInFlight), "microbatches"))
		}
	}
	course, err := unequalChecks(courseTimes())
	return append(checks, course...), err
}

// courseOrders lists what each of three workers does with two microbatches.
func courseOrders() map[string][]string {
	return map[string][]string{
		"gpipe": {"F0 F1 B0 B1", "F0 F1 B0 B1", "F0 F1 B0 B1"},
		"1f1b":  {"F0 F1 B0 B1", "F0 F1 B0 B1", "F0 B0 F1 B1"},
	}
}

// courseTimes returns the measured VGG16 pipeline of the course's reference
// timeline, by stage and microbatch.
func courseTimes() (forward, backward [][]time.Duration) {
	const ms = time.Millisecond
	forward = [][]time.Duration{{1580 * ms, 1380 * ms}, {3130 * ms, 2920 * ms}, {580 * ms, 490 * ms}}
	backward = [][]time.Duration{{5800 * ms, 7410 * ms}, {12580 * ms, 13070 * ms}, {2530 * ms, 2680 * ms}}
	return forward, backward
}

// unequalChecks compares the makespans of both schedules on three unequal
// stages with two microbatches.
func unequalChecks(forward, backward [][]time.Duration) ([]Check, error) {
	var times costmodel.Times
	if err := times.Forward.UnmarshalTOML(table(forward)); err != nil {
		return nil, err
	}
	if err := times.Backward.UnmarshalTOML(table(backward)); err != nil {
		return nil, err
	}
	var checks []Check
	for _, schedule := range []string{"gpipe", "1f1b"} {
		r, err := pipeline{schedule: schedule, stages: 3, microbatches: 2, times: times}.run()
		if err != nil {
			return nil, err
		}
		longest := walk{courseOrders()[schedule], forward, backward}.longest()
		checks = append(checks, check("makespan on unequal stages, "+schedule, inSeconds(longest), r.makespan(), "s"))
	}
	return checks, nil
}

// table writes durations as a configuration file has them.
func table(rows [][]time.Duration) []any {
	var list []any
	for _, row := range rows {
		var entries []any
		for _, d := range row {
			entries = append(entries, fmt.Sprintf("%dms", d.Milliseconds()))
		}
		list = append(list, entries)
	}
	return list
}

// walk holds a pipeline as the recursion sees it: stage s runs orders[s], actions
// such as F0, from left to right.
type walk struct {
	orders            []string
	forward, backward [][]time.Duration
}

func (w walk) longest() time.Duration {
	var last time.Duration
	for s, order := range w.orders {
		last = max(last, w.end(s, order[len(order)-2:]))
	}
	return last
}

// end returns when an action of a stage ends. It starts when the one before it on
// the stage has ended; a forward also after the same microbatch's on the stage
// before, a backward after its own forward and after the same microbatch's
// backward on the next stage. Nothing is remembered: it is for small pipelines.
func (w walk) end(stage int, action string) time.Duration {
	var start time.Duration
	if before, _, found := strings.Cut(w.orders[stage], " "+action); found {
		start = w.end(stage, before[len(before)-2:])
	}
	microbatch := int(action[1] - '0')
	if action[0] == 'F' {
		if stage > 0 {
			start = max(start, w.end(stage-1, action))
		}
		return start + w.forward[stage][microbatch]
	}
	start = max(start, w.end(stage, "F"+action[1:]))
	if stage < len(w.orders)-1 {
		start = max(start, w.end(stage+1, action))
	}
	return start + w.backward[stage][microbatch]
}
