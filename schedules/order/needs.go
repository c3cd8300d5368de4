package order

import "psim/schedules/graph"

// Needs returns the results that an action uses, in a pipeline with a number of stages.
// This is the one rule that makes actions a pipeline:
//
//	F       needs  the F of the stage before
//	B or I  needs  the F of its own stage, and the B or I of the stage after
//	W       needs  the I of its own stage
//
// The B or I of another stage is returned as a B. An action that needs no such result
// gets one whose Stage is None.
func (a Action) Needs(stages int) (own, neighbour Action) {
	own, neighbour = noAction, noAction
	switch a.Kind {
	case graph.Forward:
		neighbour = a.on(a.Stage-1, graph.Forward)
	case graph.Backward, graph.InputGradient:
		own = a.on(a.Stage, graph.Forward)
		if int(a.Stage) < stages-1 {
			neighbour = a.on(a.Stage+1, graph.Backward)
		}
	case graph.WeightGradient:
		own = a.on(a.Stage, graph.InputGradient)
	}
	return own, neighbour
}

// Feeds returns the neighbouring stage that needs an action's result, or None. It is the
// inverse of Needs.
func (a Action) Feeds(stages int) int32 {
	switch {
	case a.Kind == graph.Forward && int(a.Stage) < stages-1:
		return a.Stage + 1
	case a.Kind == graph.Backward || a.Kind == graph.InputGradient:
		return a.Stage - 1
	}
	return graph.None
}

// noAction stands for a result that is not needed.
var noAction = Action{Stage: graph.None, Microbatch: graph.None}

// on returns another action on the same microbatch.
func (a Action) on(stage int32, k graph.Kind) Action {
	return Action{Kind: k, Stage: stage, Microbatch: a.Microbatch}
}

// result returns the name of an action's result: B and I make the same result for other
// stages.
func (a Action) result() Action {
	if a.Kind == graph.InputGradient {
		return a.on(a.Stage, graph.Backward)
	}
	return a.on(a.Stage, a.Kind)
}

// Send returns the message that takes an action's result to another rank, with the
// sender's stage; false if the result stays on its rank.
func (a Action) Send(p graph.Placement) (Action, bool) {
	to := a.Feeds(p.Stages())
	if to == graph.None || p.Rank(to, a.Microbatch) == p.Rank(a.Stage, a.Microbatch) {
		return Action{}, false
	}
	if a.Kind == graph.Forward {
		return a.on(a.Stage, graph.SendForward), true
	}
	return a.on(a.Stage, graph.SendBackward), true
}

// receive returns the message that brings an action's input from another rank, with the
// receiver's stage; false if the action needs none.
func (a Action) receive(p graph.Placement) (Action, bool) {
	_, need := a.Needs(p.Stages())
	if need.Stage == graph.None {
		return Action{}, false
	}
	send, leaves := need.Send(p)
	return send.otherEnd(), leaves
}

// otherEnd returns the other end of a message: the RECV of a SEND or its wait, and the
// SEND of a RECV.
func (a Action) otherEnd() Action {
	switch a.Kind {
	case graph.SendForward, graph.WaitForward:
		return a.on(a.Stage+1, graph.ReceiveForward)
	case graph.ReceiveForward:
		return a.on(a.Stage-1, graph.SendForward)
	case graph.SendBackward, graph.WaitBackward:
		return a.on(a.Stage-1, graph.ReceiveBackward)
	}
	return a.on(a.Stage+1, graph.SendBackward)
}
