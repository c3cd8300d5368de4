package questions

import (
	"strings"
	"time"

	"psim/costmodel"
)

// walk holds a pipeline as a recursion sees it: stage s runs orders[s], actions such as
// F0, from left to right. It is a second, independent way to a pipeline's makespan.
type walk struct {
	orders            []string
	forward, backward costmodel.TimeTable
}

// longest returns when the last action of all stages ends.
func (w walk) longest() time.Duration {
	var last time.Duration
	for s, order := range w.orders {
		last = max(last, w.end(s, order[len(order)-2:]))
	}
	return last
}

// end returns when an action of a stage ends. It starts when the one before it on the
// stage has ended; a forward also after the forward of its microbatch on the stage before;
// a backward after its own forward, and after the backward of its microbatch on the next
// stage. Results are not kept, so that it is for small pipelines.
func (w walk) end(stage int, action string) time.Duration {
	var start time.Duration
	if before, _, found := strings.Cut(w.orders[stage], " "+action); found {
		start = w.end(stage, before[len(before)-2:])
	}
	microbatch := int32(action[1] - '0')
	if action[0] == 'F' {
		if stage > 0 {
			start = max(start, w.end(stage-1, action))
		}
		return start + w.forward.At(int32(stage), microbatch)
	}
	start = max(start, w.end(stage, "F"+action[1:]))
	if stage < len(w.orders)-1 {
		start = max(start, w.end(stage+1, action))
	}
	return start + w.backward.At(int32(stage), microbatch)
}
