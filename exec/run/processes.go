package run

import (
	"context"
	"slices"
	"time"

	"psim/exec/cluster"
)

// Timed does something in all processes at the same time and returns how long it took: at the
// first process the time of the slowest one, elsewhere its own.
func (o Options) Timed(ctx context.Context, what func() error) (time.Duration, error) {
	if o.World != nil {
		if err := o.World.Barrier(ctx, o.World.Next("timed")); err != nil {
			return 0, err
		}
	}
	start := time.Now()
	if err := what(); err != nil {
		return 0, err
	}
	all, err := o.Collect(ctx, int64(time.Since(start)))
	return time.Duration(slices.Max(all)), err
}

// Collect returns a number from every process at the first process, and elsewhere only its own.
func (o Options) Collect(ctx context.Context, own int64) ([]int64, error) {
	if o.World == nil {
		return []int64{own}, nil
	}
	all, err := cluster.GatherValues(ctx, o.World, o.World.Next("number"), own)
	if err != nil || o.World.Rank > 0 {
		all = []int64{own}
	}
	return all, err
}

// Follows reports whether this process is not the first one, and so knows only its own ranks.
func (o Options) Follows() bool { return o.World != nil && o.World.Rank > 0 }

// Participants lists the processes of a run, with the uncertainties of their clocks. It is
// empty before a run begins, and where it has one process only.
func Participants(w *cluster.World, residual []time.Duration) (list []Participant) {
	for k, by := range residual {
		list = append(list, Participant{w.Processes()[k], by})
	}
	return list
}

// A Participant is a process that took part in a run.
type Participant struct {
	cluster.Member
	ClockResidual time.Duration // how far its times may be off from the first process's
}
