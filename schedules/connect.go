package schedules

// connect adds the dependencies of a replica's tasks, whose indices are now
// all known. Messages and gradient sums follow the compute task before them on
// their rank; the average, the optimizer and the gathering of parameters each
// follow what ends the step before them.
func (w *wiring) connect(first int) {
	rank, computed, closing := int32(None), int32(None), int32(None)
	for i := first; i < len(w.graph.Tasks); i++ {
		t := &w.graph.Tasks[i]
		if t.Rank != rank {
			rank, computed, closing = t.Rank, None, None
		}
		switch {
		case t.Kind.Compute():
			first, second := w.needs(t)
			w.graph.connect(first, second, w.room(t, closing))
			computed = int32(i)
		case t.Kind.Message():
			w.graph.connect(computed)
		case t.Kind == AllGather:
			w.graph.connect(closing)
		case t.Kind.Collective():
			w.graph.connect(computed)
			closing = int32(i)
		default: // Average, Optimizer
			w.graph.connect(closing)
			closing = int32(i)
		}
	}
}

// room is the gradient sum that a compute task waits for under ZeRO 2, where
// only one microbatch's whole gradients have room: any task, or with overlap
// the next one that makes gradients, waits for the sums of those before.
func (w *wiring) room(t *Task, lastSum int32) int32 {
	makes := t.Kind == Backward || t.Kind == WeightGradient
	if !w.Sync.EveryMicrobatch || t.Part > 0 || w.Sync.Overlap && !makes {
		return None
	}
	return lastSum
}

// needs names the results that a compute task waits for, None where there are
// fewer.
func (w *wiring) needs(t *Task) (first, second int32) {
	first, second = None, None
	switch {
	case t.Part > 0:
	case t.Kind == Forward && t.Stage > 0:
		first = w.result(Action{Forward, t.Stage - 1, t.Microbatch})
	case t.Kind == Backward || t.Kind == InputGradient:
		first = w.forward[w.at(t.Stage, t.Microbatch)]
		if int(t.Stage) < len(w.StageRank)-1 {
			second = w.result(Action{Backward, t.Stage + 1, t.Microbatch})
		}
	case t.Kind == WeightGradient:
		first = w.backward[w.at(t.Stage, t.Microbatch)]
	}
	return first, second
}

// result is the task after which the result of an action is at hand on the
// rank of the stage that needs it: the message, if there is one.
func (w *wiring) result(a Action) int32 {
	ids := w.backward
	if a.Kind == Forward {
		ids = w.forward
	}
	id := ids[w.at(a.Stage, a.Microbatch)]
	if w.sends(a) {
		id++
	}
	return id
}
