package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"psim/exec/backend"
	"psim/exec/data"
	"psim/exec/measure"
	"psim/exec/session"
	"psim/exec/train"
	"psim/reports/table"
	"psim/results"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/order"
)

// A homeworkTest is one of the homework's tests, by its name there.
type homeworkTest struct {
	name, compares string
	// run returns what was found. An error says what is wrong.
	run func(context.Context, runner) (string, error)
}

// A runner trains what a test compares.
type runner struct {
	devices backend.Options
	tell    func(string)
	network []string // settings of the network of a4_1_2
}

// homeworkTests lists the tests in the homework's order.
func homeworkTests() []homeworkTest {
	return []homeworkTest{
		{"a4_1_1", "shards share no sample, and leave none out", shardTest},
		{"a4_1_2", "averaged gradients, on both devices and of the whole batch", gradientTest},
		{"a4_2_1", "the clock cycles of a pipeline", cycleTest},
		{"a4_2_2", "outputs of the pipeline and of the whole model", forwardTest},
	}
}

// homework makes the tests and prints a table of what they found.
func homework(ctx context.Context, r runner, w io.Writer) (failed error) {
	type found struct {
		homeworkTest
		text   string
		passed bool
	}
	var rows []found
	for _, t := range homeworkTests() {
		text, err := t.run(ctx, r)
		if err != nil {
			failed, text = errors.Join(failed, fmt.Errorf("%s: %w", t.name, err)), err.Error()
		}
		rows = append(rows, found{t, text, err == nil})
		if ctx.Err() != nil {
			break
		}
	}
	table.Table[found]{Rows: rows, Columns: []table.Column[found]{
		{Head: "test", Left: true, Cell: func(f found) any { return f.name }},
		{Head: "compares", Left: true, Cell: func(f found) any { return f.compares }},
		{Head: "found", Left: true, Cell: func(f found) any { return f.text }},
		{Head: "passed", Left: true, Cell: func(f found) any { return f.passed }},
	}}.List(w)
	return failed
}

// shardTest deals samples out to devices.
func shardTest(context.Context, runner) (string, error) {
	splits := 0
	for _, samples := range []int{64, 128, 512} {
		for _, ways := range []int{2, 4, 8} {
			shards, err := data.Deal(samples, slices.Repeat([]int64{1}, ways), false)
			if err == nil {
				err = checkShards(samples, shards)
			}
			if err != nil {
				return "", fmt.Errorf("%d samples among %d devices: %w", samples, ways, err)
			}
			splits++
		}
	}
	return fmt.Sprintf("in %d ways every sample is in one shard, and shards are equal", splits), nil
}

// checkShards reports a sample that is in no shard or in two, and shards of different size.
func checkShards(samples int, shards [][]int) error {
	seen := make([]int, samples)
	for i, shard := range shards {
		if len(shard) != samples/len(shards) {
			return fmt.Errorf("shard %d has %d samples", i, len(shard))
		}
		for _, s := range shard {
			seen[s]++
		}
	}
	for s, n := range seen {
		if n != 1 {
			return fmt.Errorf("sample %d is in %d shards", s, n)
		}
	}
	return nil
}

// wholeGPT2 makes the homework's network with a batch that a machine without GPUs can take.
func wholeGPT2() []string { return []string{"batch.global=4"} }

// gradientTest averages the gradients of two devices. They have to be equal to the bit on both, and
// near those of the whole batch.
func gradientTest(ctx context.Context, r runner) (string, error) {
	found, err := r.train(ctx, "gpt2-4090d-data-parallel", measure.CheckGradients, r.network)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("equal to the bit on both; %.2g from the whole batch's (at most 1e-05)", *found.Gradients), nil
}

// cycleTest compares the forwards of every clock cycle with those that the homework's test lists:
// in cycle k all pairs (microbatch i, partition j) with i + j = k.
func cycleTest(context.Context, runner) (string, error) {
	want := map[graph.Shape]string{
		{Ranks: 2, Microbatches: 6}: "(0,0) | (1,0) (0,1) | (2,0) (1,1) | (3,0) (2,1) | " +
			"(4,0) (3,1) | (5,0) (4,1) | (5,1)",
		{Ranks: 3, Microbatches: 3}: "(0,0) | (1,0) (0,1) | (2,0) (1,1) (0,2) | (2,1) (1,2) | (2,2)",
	}
	for shape, want := range want {
		got, err := cyclesOf(shape)
		if err != nil {
			return "", err
		}
		if got != want {
			return "", fmt.Errorf("%d microbatches on %d partitions: %s, not %s",
				shape.Microbatches, shape.Ranks, got, want)
		}
	}
	return "as listed, for 6 microbatches on 2 partitions and 3 on 3", nil
}

// cyclesOf lists the forwards by clock cycle.
func cyclesOf(shape graph.Shape) (string, error) {
	gpipe, err := schedules.Find("torchgpipe")
	if err != nil {
		return "", err
	}
	actions, err := gpipe.Order(shape, graph.InOrder(shape.Ranks).First)
	if err != nil {
		return "", err
	}
	cycles, err := actions.Cycles()
	var texts []string
	for _, c := range cycles {
		c = slices.DeleteFunc(c, func(p order.Placed) bool { return p.Kind != graph.Forward })
		var pairs []string
		for _, p := range c {
			pairs = append(pairs, fmt.Sprintf("(%d,%d)", p.Microbatch, p.Stage))
		}
		if len(pairs) > 0 {
			texts = append(texts, strings.Join(pairs, " "))
		}
	}
	return strings.Join(texts, " | "), err
}

// outputsWithin bounds by how much outputs may differ: the relative tolerance of the homework's
// test, taken as an absolute one.
const outputsWithin = 1e-5

// forwardTest compares a pipeline with the whole model, for every batch and size of microbatches
// that the homework's test has.
func forwardTest(ctx context.Context, r runner) (string, error) {
	sizes, most := 0, 0.0
	for _, batch := range []int{1, 16, 32, 64} {
		for _, split := range []int{1, 2, 4, 8, 16} {
			found, err := r.train(ctx, "exec-mlp", measure.CheckOutput, []string{
				"schedule.name=torchgpipe", "model.layers=4", "model.hidden=16", fmt.Sprint("batch.global=", batch),
				fmt.Sprint("schedule.microbatches=", (batch+split-1)/split),
			})
			if err == nil && !(*found.Outputs <= outputsWithin) {
				err = fmt.Errorf("outputs differ by %.2g, and %g is allowed", *found.Outputs, outputsWithin)
			}
			if err != nil {
				return "", fmt.Errorf("batch %d in microbatches of %d: %w", batch, split, err)
			}
			sizes, most = sizes+1, max(most, *found.Outputs)
		}
	}
	return fmt.Sprintf("%d sizes; %.2g apart (at most %.0e)", sizes, most, outputsWithin), nil
}

// train trains a step of a configuration on two devices, and compares it with one device.
func (r runner) train(ctx context.Context, config, what string, sets []string) (results.Checks, error) {
	c, _, err := session.Load(config, 2, sets...)
	if err != nil {
		return results.Checks{}, err
	}
	s := session.Session{Options: session.Options{Seed: seed, LearningRate: 1e-3, Measure: measure.Options{
		Devices: r.devices, Train: train.Options{Steps: 1}, Repeats: 1, Checks: []string{what},
		Stage: func(text string) { r.tell(config + " " + strings.Join(sets, " ") + ": " + text) },
	}}}
	if err := s.Run(ctx, c); err != nil {
		return results.Checks{}, err
	}
	return *s.Main().Result.Checks, s.Err()
}
