package costmodel

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"psim/internal/setting"
	"psim/internal/units"
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// Times is the [times] section: explicit task times, without a model or a machine.
type Times struct {
	Forward TimeTable `toml:"forward"`
	// Backward is the full backward. InputGradient and WeightGradient are its
	// halves; schedules that do not split it take their sum.
	Backward       TimeTable      `toml:"backward"`
	InputGradient  TimeTable      `toml:"backward_input"`
	WeightGradient TimeTable      `toml:"backward_weight"`
	PointToPoint   units.Duration `toml:"p2p"`
	Optimizer      units.Duration `toml:"optimizer"`
	Host           units.Duration `toml:"host"`
	HostMessage    units.Duration `toml:"host_message"`
	Pair           string         `toml:"pair"` // a wiring.Pairing
}

// Settings describes [times].
func (Times) Settings() []setting.Setting {
	return []setting.Setting{
		{
			Key: "forward", Prices: []string{"forward"}, Factor: 0.5,
			Required: true, Example: `"10ms"`,
			Text: `one time for all, one per stage ["9ms", "12ms", …] (of all stages × virtual_stages, in the ` +
				`network's order), or one per stage and microbatch [["9ms", "8ms"], …]`,
		},
		{
			Key: "backward", Prices: []string{"backward"}, Factor: 0.5,
			Example: `"20ms"`, Shown: true, Unset: "the sum of the halves",
			Text: "in the same forms; or both halves, which zero-bubble schedules need",
		},
		{
			Key: "backward_input", Prices: []string{"backward_input"}, Factor: 0.5,
			Example: `"10ms"`, Unset: "none",
			Text: "I, the half that makes the gradient of the input; \"0ms\" for the first stage where its W runs " +
				"the whole backward, as PyTorch's does (train.split)",
		},
		{
			Key: "backward_weight", Prices: []string{"backward_weight"}, Factor: 0.5,
			Example: `"10ms"`, Unset: "none",
			Text: "W, the half that makes the gradients of the weights",
		},
		{
			Key: "p2p", Prices: []string{"pipeline"}, Factor: 0.5, Assumed: true,
			Default: "0ms", Range: taskTime(),
			Text: "latency of a stage boundary; no device or link is busy meanwhile, so that the wait counts as idle",
		},
		{
			Key: "pair", Default: "fused", OneOf: wiring.Pairings(),
			Text: "how an overlapped pair of dualpipe and dualpipev runs: fused (F then B, from when both are " +
				"ready), serial (as two tasks), overlap (side by side, to the end of the longer)",
		},
		{
			Key: "host", Prices: []string{graph.Launches}, Factor: 0.5,
			Default: "0ms", Range: taskTime(),
			Text: "time of the host before every F, B, I and W, while the device waits: for synchronous messages, " +
				"the next batch, bookkeeping",
		},
		{
			Key: "host_message", Prices: []string{graph.Launches},
			Default: "0ms", Range: taskTime(),
			Text: "in addition, before an F, B or I whose input is a message, while the device waits: to launch " +
				"sends and receives and wait for them",
		},
		{
			Key: "optimizer", Prices: []string{graph.Updating}, Factor: 0.5, Assumed: true, Default: "0ms",
			Range: taskTime(),
			Text:  "the optimizer's step, after everything else",
		},
	}
}

// taskTime bounds how long a task may take.
func taskTime() setting.Range { return setting.Between(0, float64(units.Longest)) }

// A TimeTable holds one duration for all tasks, one per stage, or one per stage and microbatch.
type TimeTable struct {
	rows [][]time.Duration // empty, 1×1, stages×1 or stages×microbatches
	one  bool
}

// Set reports whether the table was given.
func (t TimeTable) Set() bool { return len(t.rows) > 0 }

// Uniform returns the table with one duration for all.
func Uniform(d time.Duration) TimeTable { return TimeTable{[][]time.Duration{{d}}, true} }

// Same returns the duration of all stages and microbatches, if the table has a single one.
func (t TimeTable) Same() (time.Duration, bool) {
	if !t.one {
		return 0, false
	}
	return t.rows[0][0], true
}

// At returns the duration for a stage and microbatch.
func (t TimeTable) At(stage, microbatch int32) time.Duration {
	if len(t.rows) == 0 {
		return 0
	}
	row := t.rows[0]
	if !t.one {
		row = t.rows[stage]
	}
	if len(row) == 1 {
		return row[0]
	}
	return row[microbatch]
}

// UnmarshalTOML reads "10ms", ["1s", "2s"] or [["1s", "2s"], ["3s", "4s"]].
func (t *TimeTable) UnmarshalTOML(value any) error {
	list, isList := value.([]any)
	if !isList {
		d, err := readDuration(value)
		*t = Uniform(d)
		return err
	}
	if len(list) == 0 {
		return errors.New(`the list is empty; it needs one duration per stage, such as ["10ms", "12ms"]`)
	}
	t.one, t.rows = false, nil
	for s, entry := range list {
		row, err := durations(entry)
		if err != nil {
			return fmt.Errorf("stage %d: %w", s, err)
		}
		t.rows = append(t.rows, row)
	}
	return nil
}

// TOML writes what UnmarshalTOML reads.
func (t TimeTable) TOML() any {
	one := func(d time.Duration) any { return units.Duration(d).String() }
	if d, same := t.Same(); same {
		return one(d)
	}
	var stages []any
	for _, row := range t.rows {
		var list []any
		for _, d := range row {
			list = append(list, one(d))
		}
		if len(list) == 1 {
			stages = append(stages, list[0])
		} else {
			stages = append(stages, list)
		}
	}
	return stages
}

// durations reads one stage's entry: a duration or a list of them.
func durations(entry any) ([]time.Duration, error) {
	list, isList := entry.([]any)
	if !isList {
		d, err := readDuration(entry)
		return []time.Duration{d}, err
	}
	if len(list) == 0 {
		return nil, errors.New("the list is empty; it needs one duration per microbatch")
	}
	var row []time.Duration
	for m, e := range list {
		d, err := readDuration(e)
		if err != nil {
			return nil, fmt.Errorf("microbatch %d: %w", m, err)
		}
		row = append(row, d)
	}
	return row, nil
}

func readDuration(value any) (time.Duration, error) {
	switch value.(type) {
	case string, int64, float64: // ParseDuration refuses numbers, which have no unit
		d, err := units.ParseDuration(fmt.Sprint(value))
		return time.Duration(d), err
	}
	return 0, errors.New(`must be a duration in quotes, such as "10ms"`)
}

// check compares the table's size with the schedule's, and its entries with the longest duration.
func (t TimeTable) check(key string, stages, microbatches int) error {
	for _, row := range t.rows {
		if d := slices.Max(row); d > units.Longest {
			return fmt.Errorf("%s = %q: must be at most %s", key, units.Duration(d), units.Duration(units.Longest))
		}
	}
	if t.one || !t.Set() {
		return nil
	}
	if len(t.rows) != stages {
		return fmt.Errorf("%s = […]: %d entries for %d stages; give one duration for all, or one per stage",
			key, len(t.rows), stages)
	}
	for s, row := range t.rows {
		if len(row) != 1 && len(row) != microbatches {
			return fmt.Errorf("%s = […]: stage %d has %d entries for %d microbatches",
				key, s, len(row), microbatches)
		}
	}
	return nil
}

// ByMicrobatch reports whether the times of some task depend on the microbatch.
func (t Times) ByMicrobatch() bool {
	perMicrobatch := func(row []time.Duration) bool { return len(row) > 1 }
	return slices.ContainsFunc(PassTimes(t), func(p PassTime) bool {
		return slices.ContainsFunc(p.Table.rows, perMicrobatch)
	})
}

// Validate checks the tables' sizes against those of a compute order, and that every kind of task
// in it has a time.
func (t Times) Validate(stages, microbatches int, split bool) error {
	for _, p := range PassTimes(t) {
		if err := p.Table.check(p.Key, stages, microbatches); err != nil {
			return err
		}
	}
	if err := setting.Validate(t); err != nil {
		return err
	}
	halves := t.InputGradient.Set() && t.WeightGradient.Set()
	switch {
	case t.Backward.Set() && (t.InputGradient.Set() || t.WeightGradient.Set()):
		return errors.New("backward is given together with backward_input or backward_weight: " +
			"give either the whole or both halves")
	case t.InputGradient.Set() && !halves:
		return errors.New("backward_weight is missing: it goes with backward_input")
	case t.WeightGradient.Set() && !halves:
		return errors.New("backward_input is missing: it goes with backward_weight")
	case split && !halves:
		return errors.New(`backward_input is missing: the schedule splits the backward; ` +
			`write its two halves instead of backward: backward_input = "10ms" and backward_weight = "10ms"`)
	case !t.Backward.Set() && !halves:
		return errors.New(`backward is missing; write for example backward = "20ms"`)
	}
	return nil
}

// Costs prices the tasks of stages with this placement by the tables. Activations are allocated
// when F starts. A part of them is freed when I ends, and the rest when B or W ends.
func (t Times) Costs(m MemoryOptions, p graph.Placement) graph.Costs {
	whole, early := int64(m.Activation), int64(m.FreedByInputGradient)
	price := func(task *graph.Task) graph.Cost {
		switch s, mb := task.Stage, task.Microbatch; task.Kind {
		case graph.Forward:
			return graph.Cost{Busy: t.Forward.At(s, mb), BytesAtStart: whole}
		case graph.Backward:
			busy := t.Backward.At(s, mb) + t.InputGradient.At(s, mb) + t.WeightGradient.At(s, mb)
			return graph.Cost{Busy: busy, BytesAtEnd: -whole}
		case graph.InputGradient:
			return graph.Cost{Busy: t.InputGradient.At(s, mb), BytesAtEnd: -early}
		case graph.WeightGradient:
			return graph.Cost{Busy: t.WeightGradient.At(s, mb), BytesAtEnd: early - whole}
		case graph.SendForward, graph.SendBackward:
			return graph.Cost{Delay: time.Duration(t.PointToPoint)}
		case graph.Optimizer:
			return graph.Cost{Busy: time.Duration(t.Optimizer)}
		}
		return graph.Cost{}
	}
	if t.Host == 0 && t.HostMessage == 0 {
		return graph.Costs{ByMicrobatch: t.ByMicrobatch(), Task: price}
	}
	launched := func(task *graph.Task) graph.Cost {
		cost := price(task)
		if task.Kind.Compute() {
			cost.LaunchLead = time.Duration(t.Host)
		}
		if p.Receives(task) {
			cost.LaunchLead += time.Duration(t.HostMessage)
		}
		cost.Launch = cost.LaunchLead
		return cost
	}
	return graph.Costs{ByMicrobatch: t.ByMicrobatch(), Host: &graph.Host{Waits: true}, Task: launched}
}

// PassTimes lists the times of the passes by their keys.
func PassTimes(t Times) []PassTime {
	return []PassTime{
		{"forward", t.Forward}, {"backward", t.Backward},
		{"backward_input", t.InputGradient}, {"backward_weight", t.WeightGradient},
	}
}

// A PassTime is the time of a pass with its key in [times].
type PassTime struct {
	Key   string
	Table TimeTable
}
