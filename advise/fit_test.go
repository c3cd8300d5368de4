package advise_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim"
	"psim/advise"
	"psim/results"
)

// remedies predicts a network that does not fit, and returns what would.
func remedies(t *testing.T, model, device string, sets ...string) (*psim.Prediction, []results.Remedy) {
	t.Helper()
	c, err := psim.Load("model:"+model, append([]string{"machine.device=" + device, "batch.global=8"}, sets...)...)
	require.NoError(t, err)
	p, err := psim.Estimate(context.Background(), c)
	require.NoError(t, err)
	require.False(t, p.Result.Fits())
	advise.Fit(context.Background(), p)
	require.NotEmpty(t, p.Result.WouldFit)
	return p, p.Result.WouldFit
}

// Remedies that need no more devices come first, and of the others those with fewer devices. With
// each of them the network fits, in as many samples.
func TestRemediesInOrder(t *testing.T) {
	for _, c := range []struct{ model, device, sets string }{
		{"gpt2-xl", "rtx-4090", "train.precision=fp32"},
		{"gpt2-xl", "rtx-3090", "train.precision=bf16 batch.micro=8"},
		{"tinyllama-1.1b", "rtx-4090", "train.precision=fp32"},
		{"llama3-8b", "rtx-4090", "train.precision=bf16"},
		{"llama3-8b", "tpu-v5e", "train.precision=bf16"},
		{"gpt2-xl", "tpu-v5e", "train.precision=bf16"},
		{"llama3-8b", "rtx-4090", "train.precision=bf16 parallel.data=8"},
		{"llama3-8b", "tpu-v5e", "train.precision=bf16 parallel.data=16 batch.global=16"},
	} {
		p, found := remedies(t, c.model, c.device, strings.Fields(c.sets)...)
		have, before := p.Devices(), 0
		for _, r := range found {
			needs := 0 // more devices
			if r.Devices > have {
				needs = r.Devices
			}
			require.GreaterOrEqual(t, needs, before, "%v: %v", c, found)
			before = needs
			after, err := p.Config.With(r.Set...)
			require.NoError(t, err)
			then, err := psim.Estimate(context.Background(), after)
			require.NoError(t, err)
			require.True(t, then.Result.Fits(), "%v: %v", c, r.Set)
			require.Equal(t, p.Experiment.Samples, then.Experiment.Samples, "%v: %v", c, r.Set)
			require.Equal(t, r.Devices, then.Devices())
		}
		none := strings.Contains(p.Result.Warnings[len(p.Result.Warnings)-1], "no change makes it fit on ")
		require.Equal(t, found[0].Devices > have, none, c)
	}
}

// A remedy may be a narrower precision, another division of the same devices, or replicas that share
// what ZeRO divides.
func TestRemediesOfOtherKinds(t *testing.T) {
	_, found := remedies(t, "tinyllama-1.1b", "rtx-4090", "train.precision=fp32")
	require.Equal(t, []string{"train.precision=bf16"}, found[1].Set)
	_, found = remedies(t, "llama3-8b", "tpu-v5e", "train.precision=bf16", "parallel.data=16", "batch.global=16")
	for _, r := range found {
		require.Equal(t, 16, r.Devices, "psim search finds plans for these 16 devices")
	}
	_, found = remedies(t, "llama3-8b", "rtx-4090", "train.precision=bf16")
	require.Equal(t, []string{"train.recompute=full", "parallel.data=8", "parallel.zero=3"}, found[0].Set)
}

// The batch of a network that was named without a plan was not asked for: it may grow with the
// replicas.
func TestRemediesWithoutPlan(t *testing.T) {
	c, err := psim.Load("mistral-7b", "machine.device=h100-80gb-sxm", "model.sequence_length=4096")
	require.NoError(t, err)
	p, err := psim.Estimate(context.Background(), c)
	require.NoError(t, err)
	advise.Fit(context.Background(), p)
	var all []string
	for _, r := range p.Result.WouldFit {
		require.Equal(t, 2, r.Devices)
		all = append(all, strings.Join(r.Set, " "))
	}
	require.Contains(t, all, "parallel.data=2 parallel.zero=3")
}
