package graph

import "time"

// MeanTimes returns a summary whose times are the means over several runs of one
// graph, and whose bubbles are computed from these. Everything else is taken from the receiver.
func (s Summary) MeanTimes(runs []Summary) Summary {
	m := s
	m.Ranks = append([]RankSummary{}, s.Ranks...)
	var sum Summary
	sum.Ranks = make([]RankSummary, len(s.Ranks))
	total := sum.times()
	for i := range runs {
		for k, t := range runs[i].times() {
			*total[k] += *t
		}
	}
	n := time.Duration(len(runs))
	for k, t := range m.times() {
		*t = (*total[k] + n/2) / n
	}
	var busy time.Duration
	for r := range m.Ranks {
		rank := &m.Ranks[r]
		// Idle is the rest, so that the parts add up to the step time in spite of rounding.
		rank.Idle = max(0, m.StepTime-rank.Compute-rank.ExposedCommunication-rank.Optimizer)
		rank.Dispatch = min(rank.Dispatch, rank.Idle)
		rank.Waiting = rank.Idle - rank.Dispatch
		busy += rank.Compute
	}
	m.Bubble = Bubble{idleShare(busy, m.Makespan, len(m.Ranks)), idleShare(busy, m.LongestSpan, len(m.Ranks))}
	return m
}

// times lists all times of a summary that are not computed from others.
func (s *Summary) times() []*time.Duration {
	list := []*time.Duration{&s.StepTime, &s.Makespan, &s.LongestSpan, &s.SteadyMicrobatch, &s.Startup}
	for r := range s.Ranks {
		rank := &s.Ranks[r]
		list = append(list, &rank.Compute, &rank.Communication, &rank.ExposedCommunication)
		list = append(list, &rank.Optimizer, &rank.Dispatch)
	}
	return list
}
