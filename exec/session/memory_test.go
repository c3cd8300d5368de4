package session

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/exec/exectest"
	"psim/exec/measure"
	"psim/exec/train"
	"psim/internal/ordertest"
	"psim/schedules/graph"
)

// The memory that psim exec predicts is what the devices hold, to the byte, on every rank: the
// peak of the experiment's graph. Balanced stages that run at the same time may send a message
// just before or just after a buffer is freed, so tasks run one by one here, and the prediction
// is replayed in their order.
func TestPredictedPeakIsTheLedgersPeak(t *testing.T) {
	const replicas = "schedule.name=ddp schedule.stages=1 parallel.data=2"
	for _, model := range []string{
		"exec model.layers=4 model.hidden=32 model.vocab=64 model.sequence_length=16",
		"exec-mlp model.hidden=24 batch.global=16",
	} {
		if testing.Short() && !strings.HasPrefix(model, "exec-mlp") {
			continue // only one network goes through all of it
		}
		for _, sets := range []string{
			"schedule.name=model-parallel", "schedule.name=gpipe", "schedule.name=1f1b",
			"schedule.name=1f1b train.recompute=full",
			"schedule.name=zb-h1", "schedule.name=interleaved-1f1b schedule.virtual_stages=2", "schedule.name=zbv",
			"schedule.name=dualpipev",
			replicas, replicas + " parallel.bucket=10KB", replicas + " parallel.overlap=false",
			replicas + " train.recompute=full",
			replicas + " parallel.zero=3", replicas + " parallel.zero=3 parallel.collectives=gloo",
			replicas + " parallel.zero=3 parallel.gather=tensor parallel.simplified=true",
			replicas + " parallel.zero=3 parallel.gather_unit=stage",
			replicas + " parallel.zero=3 parallel.gather_unit=stage parallel.gather=tensor parallel.collectives=gloo",
			replicas + " schedule.microbatches=1 batch.shards=[0.75,0.25]",
		} {
			settings := strings.Fields(model + " " + sets)
			t.Run(strings.Join(settings, " "), func(t *testing.T) {
				c, _, err := Load(settings[0], 2, settings[1:]...)
				require.NoError(t, err)
				r := &Trial{Config: c}
				r.Experiment, err = c.Build()
				require.NoError(t, err)
				var alone *graph.Trace
				enough := errors.New("enough")
				_, err = measure.Job(context.Background(), r.job(Options{}), measure.Options{
					Devices: exectest.Options(), Train: train.Options{Steps: 1}, Repeats: 1,
					Profiled: func(p measure.Profile) error { alone = p.Alone[0]; return enough },
				})
				require.ErrorIs(t, err, enough)
				require.Equal(t, peaks(replay(r, alone)), peaks(alone))
			})
		}
	}
}

// replay returns the predicted memory of a step, at the times at which its tasks ran.
func replay(r *Trial, measured *graph.Trace) *graph.Trace {
	trace := &graph.Trace{Graph: r.Experiment.Graph, Spans: measured.Spans, Persistent: r.Experiment.Costs.Persistent}
	change := func(at time.Duration, rank int32, bytes int64, task int32) {
		trace.Memory = append(trace.Memory, graph.MemoryEvent{At: at, Rank: rank, Bytes: bytes, Task: task})
	}
	for i := range int32(trace.Graph.Len()) {
		task := new(trace.Graph.Task(i))
		cost, at := r.Experiment.Costs.Task(task), task.Rank
		if task.Kind.Message() {
			at = task.Peer
		}
		change(trace.Span(i).Start, at, cost.BytesAtStart, i)
		change(trace.Span(i).End, task.Rank, cost.BytesAtEnd, i)
	}
	ordertest.SortMemory(trace, trace.Memory)
	return trace
}

// peaks returns the largest memory of every rank.
func peaks(trace *graph.Trace) (list []int64) {
	for _, r := range graph.Summarize(trace).Ranks {
		list = append(list, r.PeakMemory)
	}
	return list
}
