package session

import (
	"context"
	"fmt"
	"slices"

	"psim/configs"
	"psim/exec/cluster"
	"psim/exec/run"
	"psim/results"
	"psim/schedules/graph"
)

// runTogether runs a configuration in several processes, as often as the first one says.
func (s *Session) runTogether(ctx context.Context, c *configs.Config) (*Trial, error) {
	tell := func(again ...byte) ([]byte, error) {
		return s.world().Broadcast(ctx, s.world().Next("run"), again)
	}
	if s.world().Rank > 0 {
		for {
			again, err := tell()
			if err != nil || len(again) == 0 {
				return nil, err
			}
			if _, err := s.runOnce(ctx, c); err != nil {
				return nil, err
			}
		}
	}
	r, err := leastDisturbed(s.Tries, func() (*Trial, error) {
		if _, err := tell(1); err != nil {
			return nil, err
		}
		return s.runOnce(ctx, c)
	})
	if err == nil {
		_, err = tell()
	}
	return r, err
}

// checkAgreement refuses processes that were started with different configurations or options.
// They would run different graphs.
func (s *Session) checkAgreement(ctx context.Context, list []*configs.Config) error {
	if s.world() == nil {
		return nil
	}
	devices, data := s.Measure.Devices, s.Measure.Data
	devices.Backend, data.Source = "", "" // paths, which may differ between machines
	t := s.Measure.Train
	own := fmt.Sprint(s.Seed, s.LearningRate, s.Tries, s.Starts, t.Steps, t.Epochs, t.Warmup, s.Measure.Repeats,
		s.Measure.Checks, t.Gradients, devices, data)
	for _, c := range list {
		own += " " + c.Fingerprint()
	}
	err := checkSame(ctx, s.world(), own, otherFlags)
	if err == nil {
		err = checkSame(ctx, s.world(), s.Measure.Data.Fingerprint(), otherData)
	}
	if err != nil {
		s.world().Abort(err)
	}
	return err
}

// What is wrong with a process that was not started like the first.
const (
	otherFlags = "another configuration or other flags than the first; start all with the same"
	otherData  = "other data than the first; give all the same files"
)

// checkSame returns an error if the text of a process differs from that of the first one. What
// completes the message "was started with".
func checkSame(ctx context.Context, w *cluster.World, own, what string) error {
	all, err := w.Gather(ctx, w.Next("agree"), []byte(own))
	for k, other := range all {
		if string(other) != own {
			err = fmt.Errorf("%s was started with %s", w.Processes()[k], what)
		}
	}
	return err
}

// crossesProcesses returns a function that reports which tasks pass between processes; nil if
// there is only one process.
func crossesProcesses(g *graph.Graph, w *cluster.World) func(*graph.Task) bool {
	if w == nil {
		return nil
	}
	of := w.Owners(g.Ranks())
	return func(t *graph.Task) bool {
		switch {
		case t.Kind.Message():
			return of[t.Rank] != of[t.Peer]
		case t.Kind.Collective():
			return slices.ContainsFunc(g.Groups[t.Peer], func(rank int32) bool { return of[rank] != of[t.Rank] })
		}
		return false
	}
}

// ranksHere returns the ranks that run on this process's machine; nil for all.
func ranksHere(ranks int, w *cluster.World) (list []int) {
	if w == nil {
		return nil
	}
	all := w.Processes()
	for rank, k := range w.Owners(ranks) {
		if all[k].Host == all[w.Rank].Host {
			list = append(list, rank)
		}
	}
	return list
}

// participants lists the processes of a measurement.
func participants(list []run.Participant) (all []results.Process) {
	for _, p := range list {
		all = append(all, results.Process{
			Rank: p.Rank, Host: p.Host, Ranks: p.Ranks, ClockResidual: p.ClockResidual.Seconds(),
		})
	}
	return all
}
