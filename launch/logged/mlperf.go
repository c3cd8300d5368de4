package logged

import (
	"encoding/json"
	"math"
	"strings"
	"time"

	"psim/internal/units"
	"psim/launch/understood"
)

// eventMark begins what MLPerf's rules ask a training to print (mlcommons/logging, mllog).
const eventMark = ":::MLLOG "

// latest is later than any time of an event, in ms, and no more than a Duration holds.
const latest = float64(math.MaxInt64 / int64(time.Millisecond))

// An event is a line of MLPerf's log.
type event struct {
	Millis   float64         `json:"time_ms"`
	Key      string          `json:"key"`
	Value    json.RawMessage `json:"value"`
	Metadata struct {
		Samples float64         `json:"samples_count"`
		Step    json.RawMessage `json:"step"` // BERT's are lists
	} `json:"metadata"`
}

// stats hold the speed of some steps.
type stats struct {
	Step       float64 `json:"train_step_time"`
	Throughput float64 `json:"throughput"`
}

// An mlperf collects what a log of MLPerf's says.
type mlperf struct {
	steps, rates, stamps      []float64 // seconds of a step as printed, samples a second, seconds by time stamps
	batch, rounds, length     float64
	begun                     *event // the block that is open
	started, ended, inTheRuns time.Duration
}

// readMLPerf reads a log in the form of MLPerf's rules. Of several runs the last counts.
func readMLPerf(data []byte) *Log {
	m := &mlperf{}
	for line := range linesWith(data, eventMark) {
		var e event
		_, text, _ := strings.Cut(line, eventMark)
		if json.Unmarshal([]byte(text), &e) == nil && e.Millis >= 0 && e.Millis < latest {
			m.add(e)
		}
	}
	if len(m.steps)+len(m.rates)+len(m.stamps) == 0 {
		return nil
	}
	s := &understood.LoggedSteps{
		Program: "mlperf", Batch: int(m.batch), Tokens: int(m.length), Rounds: int(m.rounds), Stamped: median(m.stamps),
	}
	switch {
	case len(m.steps) > 0:
		s.StepTime, s.Lines = median(m.steps), len(m.steps)
		s.How = "train_step_time, the median of " + units.Plural(s.Lines, "line")
	case len(m.rates) > 0 && m.batch > 0 && m.near(m.batch/median(m.rates)):
		s.StepTime, s.Lines = m.batch/median(m.rates), len(m.rates)
		s.How = "the batch over throughput, the median of " + units.Plural(s.Lines, "line")
	case len(m.stamps) > 0:
		s.StepTime, s.Lines, s.Stamped = s.Stamped, len(m.stamps), 0
		s.How = "the time of a block over its steps, the median of " + units.Plural(s.Lines, "block")
	default:
		return nil // a throughput of something else than samples, and nothing to tell by what
	}
	if s.Stamped < s.StepTime { // which are apart by less than a log tells
		s.Stamped = 0
	}
	s.Lost = max(0, (m.ended - m.started - m.inTheRuns).Seconds())
	return &Log{Steps: s}
}

// near reports whether a step is what the blocks' times say, or they say nothing.
func (m *mlperf) near(step float64) bool {
	by := median(m.stamps)
	return by == 0 || math.Abs(step/by-1) < 0.25
}

// add notes an event.
func (m *mlperf) add(e event) {
	at := time.Duration(e.Millis * float64(time.Millisecond))
	switch e.Key {
	case "run_start":
		*m = mlperf{batch: m.batch, rounds: m.rounds, length: m.length, started: at, ended: at}
	case "run_stop":
		m.ended = at
	case "global_batch_size":
		m.batch = number(string(e.Value))
	case "gradient_accumulation_steps":
		m.rounds = number(string(e.Value))
	case "max_sequence_length":
		m.length = number(string(e.Value))
	case "block_start":
		m.begun = &e
	case "block_stop":
		m.block(e)
	case "tracked_stats":
		var s stats
		if json.Unmarshal(e.Value, &s) != nil {
			return
		}
		if s.Step > 0 && s.Step < understood.MostSize {
			m.steps = append(m.steps, s.Step)
		}
		if s.Throughput > leastRate && s.Throughput < understood.MostSize {
			m.rates = append(m.rates, s.Throughput)
		}
	}
}

// block notes how long a block of steps took. Its events count steps, or samples so far, or those of the block.
func (m *mlperf) block(end event) {
	begin := m.begun
	if m.begun = nil; begin == nil || end.Millis <= begin.Millis {
		return
	}
	took := (end.Millis - begin.Millis) / 1000
	m.inTheRuns += time.Duration(took * float64(time.Second))
	n := number(string(end.Metadata.Step)) - number(string(begin.Metadata.Step))
	if samples := end.Metadata.Samples - begin.Metadata.Samples; n <= 0 && samples > 0 && m.batch > 0 {
		n = samples / m.batch
	}
	if n >= 1 {
		m.stamps = append(m.stamps, took/n)
	}
}
