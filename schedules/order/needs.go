package order

import "psim/schedules/graph"

// Needs names the results that an action uses, in a pipeline of so many stages.
// This is the one rule that makes actions a pipeline:
//
//	F       needs  the F of the stage before
//	B or I  needs  the F of its own stage, and the B or I of the stage after
//	W       needs  the I of its own stage
//
// The B or I of another stage is named as a B. What is not needed has no stage:
// its Stage is None.
func (a Action) Needs(stages int) (own, neighbour Action) {
	own, neighbour = nothing, nothing
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

// Feeds names the stage that needs an action's result as its neighbour's; None where
// there is none. It is Needs, read the other way.
func (a Action) Feeds(stages int) int32 {
	switch {
	case a.Kind == graph.Forward && int(a.Stage) < stages-1:
		return a.Stage + 1
	case a.Kind == graph.Backward || a.Kind == graph.InputGradient:
		return a.Stage - 1
	}
	return graph.None
}

// nothing stands for what is not needed.
var nothing = Action{Stage: graph.None, Microbatch: graph.None}

// on names another action on the same microbatch.
func (a Action) on(stage int32, k graph.Kind) Action {
	return Action{Kind: k, Stage: stage, Microbatch: a.Microbatch}
}

// result names what an action makes: B and I make the same for other stages.
func (a Action) result() Action {
	if a.Kind == graph.InputGradient {
		return a.on(a.Stage, graph.Backward)
	}
	return a.on(a.Stage, a.Kind)
}

// Send names the message with which an action's result leaves for another rank, as
// its sender numbers it; false if it stays.
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

// receive names the message that brings what an action needs from another rank, as
// its receiver numbers it; false if it needs none.
func (a Action) receive(p graph.Placement) (Action, bool) {
	_, need := a.Needs(p.Stages())
	if need.Stage == graph.None {
		return Action{}, false
	}
	send, leaves := need.Send(p)
	return send.otherEnd(), leaves
}

// otherEnd names the same message as the rank at its other end numbers it.
func (a Action) otherEnd() Action {
	switch a.Kind {
	case graph.SendForward:
		return a.on(a.Stage+1, graph.ReceiveForward)
	case graph.ReceiveForward:
		return a.on(a.Stage-1, graph.SendForward)
	case graph.SendBackward:
		return a.on(a.Stage-1, graph.ReceiveBackward)
	}
	return a.on(a.Stage+1, graph.SendBackward)
}
