package psim_test

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim"
	"psim/configs"
	"psim/results"
	"psim/schedules"
)

// nanoseconds adds up seconds by class, each of which is whole nanoseconds.
func nanoseconds(by map[string]float64) (sum time.Duration) {
	for _, s := range by {
		sum += time.Duration(math.Round(s * 1e9))
	}
	return sum
}

// requireExplained requires that an explanation adds up to the step, to the nanosecond, and
// agrees with what the ranks of the result say.
func requireExplained(t require.TestingT, p *psim.Prediction) *results.Explanation {
	e, err := p.Explain()
	require.NoError(t, err)
	require.Equal(t, p.Summary.StepTime, nanoseconds(e.ByClass), "%v", e.ByClass)
	require.Equal(t, p.Summary.StepTime, nanoseconds(e.CriticalPath), "%v", e.CriticalPath)
	for class, s := range e.ByClass {
		require.GreaterOrEqual(t, s, 0.0, class)
	}
	var idle, optimizer, beside time.Duration
	n := time.Duration(len(p.Summary.Ranks))
	for _, r := range p.Summary.Ranks {
		idle += r.Waiting
		optimizer += r.Optimizer
		beside += r.Communication - r.ExposedCommunication
	}
	require.InDelta(t, (idle / n).Seconds(), e.ByClass["waiting"], 2e-9)
	require.InDelta(t, (optimizer / n).Seconds(), e.ByClass["optimizer"], 2e-9)
	hidden := nanoseconds(e.Beside) // at least: two collectives at a time count twice here
	require.GreaterOrEqual(t, hidden+time.Duration(len(e.Beside)+1), beside/n)
	return e
}

// Of every example, and of random settings over them, the classes add up to the step.
func TestExplainAddsUp(t *testing.T) {
	ctx := context.Background()
	for _, name := range configs.Examples() {
		if name == "auto" || name == "exec" || name == "exec-mlp" {
			continue
		}
		c, err := psim.Load(name)
		require.NoError(t, err)
		p, err := psim.Predict(ctx, c)
		require.NoError(t, err)
		requireExplained(t, p)
	}
	var stacks []string
	for _, s := range configs.Stacks() {
		stacks = append(stacks, s.Name)
	}
	explained := 0
	names := slices.DeleteFunc(schedules.Names(), configs.IsSearched)
	rapid.Check(t, func(t *rapid.T) {
		choose := func(key string, from ...string) string { return key + "=" + rapid.SampledFrom(from).Draw(t, key) }
		sets := []string{
			choose("schedule.name", names...), choose("parallel.data", "1", "2"), choose("parallel.tensor", "1", "2"),
			choose("parallel.sequence", "true", "false"), choose("parallel.overlap", "true", "false"), choose("parallel.tensor_overlap", "true", "false"),
			choose("train.recompute", "none", "selective", "full"), choose("train.stack", stacks...), choose("train.precision", "fp32", "bf16"),
			choose("machine.host.operation", "0us", "20us"), choose("machine.host.task", "0us", "1ms"), choose("machine.host.waits", "true", "false"),
			choose("machine.device", "a100-80gb-sxm", "h100-80gb-sxm"), choose("parallel.zero", "0", "1"), "model.layers=8", "batch.global=32",
			"machine.devices_per_node=2", "machine.network=ib-hdr", "model.vocab=50432",
		}
		c, err := psim.Load("gpipe", sets...)
		if err != nil {
			t.Skip(err)
		}
		p, err := psim.Predict(ctx, c)
		if err != nil {
			t.Skip(err)
		}
		explained++
		requireExplained(t, p)
	})
	require.Greater(t, explained, 60)
}

// What a constant prices changes with it, and what it does not price stays; the settings
// say which.
func TestExplainSettings(t *testing.T) {
	explain := func(sets ...string) *results.Explanation {
		c, err := psim.Load("gpipe", append([]string{"train.stack=megatron-deepspeed", "schedule.stages=1", "parallel.tensor=2", "train.precision=bf16", "model.vocab=50432", "parallel.tensor_overlap=false", "machine.link=nvlink3-a100"}, sets...)...)
		require.NoError(t, err)
		p, err := psim.Predict(context.Background(), c)
		require.NoError(t, err)
		return requireExplained(t, p)
	}
	base := explain()
	from := map[string]string{}
	for _, s := range base.Settings {
		from[s.Key] = s.From
	}
	require.Equal(t, "stack megatron-deepspeed", from["machine.host.operation"])
	require.Equal(t, "device a100-80gb-sxm", from["machine.compute.efficiency"])
	require.Equal(t, "link nvlink3-a100", from["machine.link.latency"])
	for _, set := range []string{
		"machine.compute.efficiency=0.1", "machine.compute.launch=99us", "machine.host.operation=999us",
		"machine.compute.half_rows=9", "machine.link.collective_call=1ms",
	} {
		key, value, _ := strings.Cut(set, "=")
		changed := explain(set)
		i := slices.IndexFunc(changed.Settings, func(s results.Pricing) bool { return s.Key == key })
		require.GreaterOrEqual(t, i, 0, key)
		require.Equal(t, results.Pricing{Key: key, Value: value, From: "given", Classes: changed.Settings[i].Classes}, changed.Settings[i])
		for _, class := range slices.Collect(maps.Keys(base.ByClass)) {
			if !slices.Contains(changed.Settings[i].Classes, class) && class != "launches" { // which the device hides while it computes
				require.InDelta(t, base.ByClass[class], changed.ByClass[class], 1e-12, "%s %s", set, class)
			}
		}
	}
}
