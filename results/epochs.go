package results

import (
	"math"
	"time"

	"psim/schedules/graph"
)

// Epochs are passes over a data set, predicted from the step or measured. Deviations are over
// the epochs, divided by their number n, as numpy's std computes them.
type Epochs struct {
	Number int `json:"number"` // epochs that count; 0 if a log has their mean and not their number
	// Epochs that were trained before to warm up. They do not count in any other field.
	Dropped int   `json:"dropped,omitempty"`
	Samples int64 `json:"samples"`       // samples in the data set
	Steps   int64 `json:"steps"`         // steps in an epoch
	Batch   int64 `json:"batch_samples"` // samples in a step, over all replicas
	// Samples that are left for the last step of an epoch.
	LastBatch int64 `json:"last_batch_samples"`
	// Predicted time of the last step, if it is a step of the samples that are left. It is absent
	// if as many are left as the others have, or if it is filled up from the beginning of the data
	// set and takes as long as the others: psim exec does that, as do schedules that cannot run so
	// few microbatches.
	LastTime float64 `json:"last_step_time_s,omitempty"`
	// The time of all steps of an epoch, without evaluation. For a measured result it is the
	// mean over the epochs.
	Time    float64 `json:"time_s"`
	TimeStd float64 `json:"time_std_s,omitempty"` // deviation of the time
	Total   float64 `json:"total_s"`              // time of all epochs that count; 0 if their number is not known
	// Work over time. The throughput of a measured epoch is the sum over the replicas of the
	// work of each over its own time; this is the mean over the epochs.
	Throughput    Throughput  `json:"throughput"`
	ThroughputStd *Throughput `json:"throughput_std,omitempty"` // its deviation; absent from a prediction
	// The rate of an epoch by clocks that do not wait for all ranks, as the mean over the epochs.
	// It is absent if it was not measured.
	Unwaited    *Throughput `json:"unsynchronised_throughput,omitempty"`
	UnwaitedStd *Throughput `json:"unsynchronised_throughput_std,omitempty"` // its deviation
	// Time of every rank by itself; absent from a prediction.
	Ranks []RankEpoch `json:"ranks,omitempty"`
	Each  []Epoch     `json:"each,omitempty"` // the epochs in order; absent from a prediction
}

// A RankEpoch is the time of an epoch on one rank. Each step counts until the rank's own last
// task ends.
type RankEpoch struct {
	Rank    int     `json:"rank"`       // number of the rank, from 0, replica by replica
	Time    float64 `json:"time_s"`     // mean time over the epochs
	TimeStd float64 `json:"time_std_s"` // deviation of the time
}

// An Epoch is one of the epochs that count.
type Epoch struct {
	Time       float64    `json:"time_s"`       // time of all its steps
	RankTimes  []float64  `json:"rank_times_s"` // the same for every rank, until the end of its own last tasks
	Throughput Throughput `json:"throughput"`   // sum over the replicas
	// The rate by clocks that do not wait for all ranks; absent if it was not measured.
	Unwaited *Throughput `json:"unsynchronised_throughput,omitempty"`
}

// predictEpochs adds the time of an epoch, if the size of the data set is known.
func (r *Result) predictEpochs(info Info) {
	if info.DataSet == 0 {
		return
	}
	steps := (info.DataSet + info.Samples - 1) / info.Samples
	e := &Epochs{
		Samples: info.DataSet, Steps: steps, Batch: info.Samples, LastBatch: info.DataSet - (steps-1)*info.Samples,
		Time: float64(steps) * (r.StepTime - r.Startup), Throughput: r.Throughput,
	}
	if info.LastStep > 0 {
		e.LastTime = info.LastStep.Seconds()
		e.Time = float64(steps-1)*(r.StepTime-r.Startup) + e.LastTime
		e.Throughput.Samples = float64(info.DataSet) / e.Time
		e.Throughput.Tokens = e.Throughput.Samples * float64(info.Tokens) / float64(info.Samples)
	}
	r.Epochs = e
	r.RepeatEpochs(1)
}

// MeasureUnwaited adds the rates of the epochs by clocks that do not wait for all ranks, given
// that of some steps.
func (r *Result) MeasureUnwaited(traces []*graph.Trace, rate func(steps []*graph.Trace) Throughput) {
	if r.Epochs == nil {
		return
	}
	steps := int(r.Epochs.Steps)
	var rates []Throughput
	for i := range r.Epochs.Each {
		rates = append(rates, rate(traces[i*steps:(i+1)*steps]))
	}
	r.Epochs.SetUnwaited(rates)
}

// SetUnwaited sets the rates of the epochs by clocks that do not wait for all ranks.
func (e *Epochs) SetUnwaited(rates []Throughput) {
	for i := range e.Each {
		e.Each[i].Unwaited = &rates[i]
	}
	e.Unwaited, e.UnwaitedStd = &Throughput{}, &Throughput{}
	e.Unwaited.Samples, e.UnwaitedStd.Samples = e.mean(func(e Epoch) float64 { return e.Unwaited.Samples })
	e.Unwaited.Tokens, e.UnwaitedStd.Tokens = e.mean(func(e Epoch) float64 { return e.Unwaited.Tokens })
}

// RepeatEpochs sets the number of predicted epochs.
func (r *Result) RepeatEpochs(n int) {
	r.Epochs.Number, r.Epochs.Total = n, float64(n)*r.Epochs.Time
}

// MeasureEpochs adds the times of measured epochs, given the traces of their steps and the
// number of epochs that were dropped before them. It leaves out the steps after the last
// whole epoch.
func (r *Result) MeasureEpochs(traces []*graph.Trace, dropped int, info Info) {
	r.predictEpochs(info)
	e := r.Epochs
	for n := int(e.Steps); len(traces) >= n; traces = traces[n:] {
		e.Each = append(e.Each, newEpoch(traces[:n], info))
	}
	e.Number, e.Dropped = len(e.Each), dropped
	if e.Number == 0 { // the run was interrupted
		r.Epochs = nil
		return
	}
	e.Time, e.TimeStd = e.mean(func(e Epoch) float64 { return e.Time })
	e.Total = float64(e.Number) * e.Time
	e.ThroughputStd = &Throughput{}
	e.Throughput.Samples, e.ThroughputStd.Samples = e.mean(func(e Epoch) float64 { return e.Throughput.Samples })
	e.Throughput.Tokens, e.ThroughputStd.Tokens = e.mean(func(e Epoch) float64 { return e.Throughput.Tokens })
	for rank := range e.Each[0].RankTimes {
		time, std := e.mean(func(e Epoch) float64 { return e.RankTimes[rank] })
		e.Ranks = append(e.Ranks, RankEpoch{rank, time, std})
	}
}

// newEpoch adds up the steps of one epoch.
func newEpoch(traces []*graph.Trace, info Info) Epoch {
	var whole time.Duration
	byRank := make([]time.Duration, traces[0].Graph.Ranks())
	for _, t := range traces {
		startup := t.Startup()
		ends := make([]time.Duration, len(byRank))
		for i := range int32(t.Graph.Len()) {
			rank := t.Graph.Class(i).Rank
			ends[rank] = max(ends[rank], t.Span(i).End)
		}
		whole += t.End() - startup
		for rank, end := range ends {
			byRank[rank] += max(0, end-startup)
		}
	}
	e := Epoch{Time: whole.Seconds()}
	replicas := make([]float64, info.DataParallel) // their times
	for rank, t := range byRank {
		e.RankTimes = append(e.RankTimes, t.Seconds())
		replica := rank / traces[0].Graph.Shape.Ranks
		replicas[replica] = max(replicas[replica], t.Seconds())
	}
	for replica, t := range replicas {
		steps := float64(len(traces)) / float64(info.DataParallel) // in units of the whole batch
		if info.Shards != nil {
			steps = float64(len(traces)) * float64(info.Shards[replica]) / float64(info.Samples)
		}
		e.Throughput.Samples += steps * float64(info.Samples) / t
		e.Throughput.Tokens += steps * float64(info.Tokens) / t
	}
	return e
}

// mean returns the mean of a number over the epochs, and its deviation.
func (e *Epochs) mean(of func(Epoch) float64) (mean, deviation float64) {
	n := float64(len(e.Each))
	for _, epoch := range e.Each {
		mean += of(epoch) / n
	}
	for _, epoch := range e.Each {
		deviation += (of(epoch) - mean) * (of(epoch) - mean) / n
	}
	return mean, math.Sqrt(deviation)
}
