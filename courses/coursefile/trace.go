package coursefile

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"psim/courses/modes"
	"psim/schedules/graph"
)

// batches divides the times of the workers by batches: times[b][w] are those of worker w in
// batch b. It also returns the number of microbatches.
func (s stats) batches(workers []worker) (times [][][]float64, microbatches int, err error) {
	n := len(workers[0].Times)
	for i, w := range workers {
		if len(w.Times) == 0 || len(w.Times)%(4*s.Batches) != 0 {
			return nil, 0, fmt.Errorf(`"%d": batches_times has %d times; it must have a start and an end for every `+
				`forward and backward, so a multiple of 4 for each of num_batches = %d`, i, len(w.Times), s.Batches)
		}
		if len(w.Times) != n {
			return nil, 0, fmt.Errorf(`"%d": batches_times has %d times and that of "0" %d; `+
				`all workers must have as many`, i, len(w.Times), n)
		}
	}
	times = make([][][]float64, s.Batches)
	for b := range times {
		for _, w := range workers {
			times[b] = append(times[b], w.Times[b*n/s.Batches:(b+1)*n/s.Batches])
		}
	}
	return times, n / s.Batches / 4, nil
}

// extent returns when a batch starts and ends on any worker.
func extent(batch [][]float64) (start, end float64) {
	start = math.Inf(1)
	for _, times := range batch {
		start, end = min(start, slices.Min(times)), max(end, slices.Max(times))
	}
	return start, end
}

// meanBusy returns the time that a worker computes in a batch.
func meanBusy(times [][][]float64, rank int) float64 {
	sum := 0.0
	for _, batch := range times {
		for i := 0; i < len(batch[rank]); i += 2 {
			sum += batch[rank][i+1] - batch[rank][i]
		}
	}
	return sum / float64(len(times))
}

// firstBatch makes a trace of the times of a batch.
func firstBatch(m modes.Mode, batch [][]float64, microbatches int) (*graph.Trace, error) {
	g := &graph.Graph{
		Name: m.Schedule, Placement: graph.InOrder(len(batch)),
		Shape: graph.Shape{Ranks: len(batch), Virtual: 1, Microbatches: microbatches, Replicas: 1},
	}
	t := &graph.Trace{Graph: g}
	origin, _ := extent(batch)
	for rank, times := range batch {
		stream := g.AddStream(int32(rank), "compute")
		order := make([]int, 2*microbatches)
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(times[2*a], times[2*b]) })
		before := 0.0
		for _, i := range order {
			start, end := times[2*i], times[2*i+1]
			if start < before {
				return nil, fmt.Errorf(`"%d": batches_times: a pass starts at %g s, `+
					`before the one before it ends at %g s; a worker does one at a time`, rank, start, before)
			}
			before = end
			kind := graph.Forward
			if i >= microbatches {
				kind = graph.Backward
			}
			g.Add(graph.Task{
				Kind: kind, Rank: int32(rank), Stream: stream, Stage: int32(rank),
				Microbatch: int32(i % microbatches), Peer: graph.None,
			})
			t.Spans = append(t.Spans, graph.Span{Start: seconds(start - origin), End: seconds(end - origin)})
		}
	}
	return t, nil
}

// seconds makes a duration.
func seconds(s float64) time.Duration { return time.Duration(math.Round(s * 1e9)) }

// known returns a number that may be missing, and 0 if it is.
func known(x *float64) float64 {
	if x == nil {
		return 0
	}
	return *x
}
