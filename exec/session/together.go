package session

import (
	"context"
	"fmt"
	"slices"

	"psim/configs"
	"psim/exec"
	"psim/exec/processes"
	"psim/results"
	"psim/schedules/graph"
)

// runTogether runs a configuration in several processes, as often as the first says.
func (s *Session) runTogether(ctx context.Context, c *configs.Config) (*Run, error) {
	tell := func(again ...byte) ([]byte, error) { return s.World.Broadcast(ctx, s.World.Next("run"), again) }
	if s.World.Rank > 0 {
		for {
			again, err := tell()
			if err != nil || len(again) == 0 {
				return nil, err
			}
			if _, err := s.once(ctx, c); err != nil {
				return nil, err
			}
		}
	}
	r, err := leastDisturbed(s.Tries, func() (*Run, error) {
		if _, err := tell(1); err != nil {
			return nil, err
		}
		return s.once(ctx, c)
	})
	if err == nil {
		_, err = tell()
	}
	return r, err
}

// agree refuses processes that were started with different configurations or options:
// they would run different graphs.
func (s *Session) agree(ctx context.Context, list []*configs.Config) error {
	if s.World == nil {
		return nil
	}
	devices, data := s.Devices, s.Data
	devices.Backend, data.Source = "", "" // files, which may be elsewhere on another machine
	own := fmt.Sprint(s.Seed, s.LearningRate, s.Tries, s.Steps, s.Epochs, s.Warmup, s.Repeats, s.Checks, s.MeasureOptions.Gradients, devices, data)
	for _, c := range list {
		own += " " + c.Fingerprint()
	}
	err := agreed(ctx, s.World, own, otherFlags)
	if err == nil {
		err = agreed(ctx, s.World, s.Data.Fingerprint(), "other data than the first; give all the same files")
	}
	if err != nil {
		s.World.Abort(err)
	}
	return err
}

const otherFlags = "another configuration or other flags than the first; start all with the same"

// agreed refuses processes that have something else of their own than the first, as what
// says.
func agreed(ctx context.Context, w *processes.World, own, what string) error {
	all, err := w.Gather(ctx, w.Next("agree"), []byte(own))
	for k, other := range all {
		if string(other) != own {
			err = fmt.Errorf("%s was started with %s", w.Processes()[k], what)
		}
	}
	return err
}

// apart returns what tells which tasks pass between processes; nil where there is one.
func apart(g *graph.Graph, w *processes.World) func(*graph.Task) bool {
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

// here returns the ranks that run on this process's machine; nil for all.
func here(ranks int, w *processes.World) (list []int) {
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

// placement lists the processes of a measurement.
func placement(list []exec.Member) (all []results.Process) {
	for _, p := range list {
		all = append(all, results.Process{Rank: p.Rank, Host: p.Host, Ranks: p.Ranks, ClockResidual: p.ClockResidual.Seconds()})
	}
	return all
}
