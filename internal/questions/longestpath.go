package questions

import (
	"slices"
	"strings"
	"time"
)

// fields splits every stage's order into actions.
func fields(orders []string) [][]string {
	var rows [][]string
	for _, order := range orders {
		rows = append(rows, strings.Fields(order))
	}
	return rows
}

// walk is a pipeline as the recursion sees it: stage s runs orders[s], actions
// such as F0, from left to right.
type walk struct {
	orders            [][]string
	forward, backward [][]time.Duration
}

// longest returns when the last action of any stage ends.
func (w walk) longest() time.Duration {
	var last time.Duration
	for s, order := range w.orders {
		last = max(last, w.end(s, order[len(order)-1]))
	}
	return last
}

// end returns when an action of a stage ends. It starts when the one before it on
// the stage has ended; a forward also after the same microbatch's on the stage
// before, a backward after its own forward and after the same microbatch's
// backward on the next stage. Nothing is remembered: it is for small pipelines.
func (w walk) end(stage int, action string) time.Duration {
	var start time.Duration
	if i := slices.Index(w.orders[stage], action); i > 0 {
		start = w.end(stage, w.orders[stage][i-1])
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
