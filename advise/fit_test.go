package advise_test

import (
	"context"
	"slices"
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

// Remedies that need no more devices come first, and of the others those with fewer devices; of
// equally many devices, those with the most samples per second. With each of them the network fits, in
// as many samples, and is not close. One that is close comes last, if the devices allow no other.
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
		have, before, rate := p.Devices(), 0, 0.0
		for i, r := range found {
			needs := 0 // more devices
			if r.Devices > have {
				needs = r.Devices
			}
			if r.Close {
				require.Equal(t, len(found)-1, i, "%v: %v", c, found)
				require.True(t, i == 0 || needs == 0 && found[0].Devices > have, "%v: %v", c, found)
			} else {
				require.GreaterOrEqual(t, needs, before, "%v: %v", c, found)
				require.True(t, needs == 0 || needs > before || r.Samples <= rate, "%v: %v", c, found)
			}
			before, rate = needs, r.Samples
			after, err := p.Config.With(r.Set...)
			require.NoError(t, err)
			then, err := psim.Estimate(context.Background(), after)
			require.NoError(t, err)
			verdict := map[bool]string{false: results.Fits, true: results.Close}[r.Close]
			require.Equal(t, verdict, then.Result.MemoryVerdict, "%v: %v", c, r.Set)
			require.InEpsilon(t, then.Result.Throughput.Samples, r.Samples, 1e-9)
			require.Equal(t, p.Experiment.Samples, then.Experiment.Samples, "%v: %v", c, r.Set)
			require.Equal(t, r.Devices, then.Devices())
		}
		none := strings.Contains(p.Result.Warnings[len(p.Result.Warnings)-1], "no change makes it fit on ")
		require.Equal(t, found[0].Devices > have, none, c)
	}
}

// A remedy may be a narrower precision, another division of the same devices, or a division among more.
func TestRemediesOfOtherKinds(t *testing.T) {
	_, found := remedies(t, "tinyllama-1.1b", "rtx-4090", "train.precision=fp32")
	require.Equal(t, []string{"train.precision=bf16"}, found[0].Set)
	_, found = remedies(t, "llama3-8b", "tpu-v5e", "train.precision=bf16", "parallel.data=16", "parallel.zero=0", "batch.global=16")
	for _, r := range found {
		require.Equal(t, 16, r.Devices, "psim search finds plans for these 16 devices")
	}
	_, found = remedies(t, "llama3-8b", "rtx-4090", "train.precision=bf16")
	require.Subset(t, found[0].Set, []string{"parallel.tensor=2", "schedule.stages=4"}, "eight replicas under ZeRO 3 would be close")
}

// The batch of a network that was named without a plan was not asked for: it may grow with the
// replicas, and then a longer step may be the better one.
func TestRemediesWithoutPlan(t *testing.T) {
	c, err := psim.Load("mistral-7b", "machine.device=h100-80gb-sxm", "model.sequence_length=4096")
	require.NoError(t, err)
	p, err := psim.Estimate(context.Background(), c)
	require.NoError(t, err)
	advise.Fit(context.Background(), p)
	var all []string
	var rates, steps []float64
	for _, r := range p.Result.WouldFit {
		require.Equal(t, 2, r.Devices)
		all = append(all, strings.Join(r.Set, " "))
		rates, steps = append(rates, r.Samples), append(steps, r.StepTime)
	}
	require.Contains(t, all, "train.recompute=full parallel.data=2 parallel.zero=3")
	require.IsNonIncreasing(t, rates)
	require.False(t, slices.IsSorted(steps), "the order of the steps is another: %v", steps)
}

// A remedy copies tensors to the host where the host's link is known, the network is in one piece and nothing that
// was found before is as fast.
func TestRemediesInTheHost(t *testing.T) {
	sets := []string{
		"train.precision=bf16", "model.sequence_length=8192", "parallel.data=4", "parallel.zero=3", "schedule.name=ddp",
		"batch.micro=4", "batch.global=16",
	}
	hosted := func(found []results.Remedy) (list []results.Remedy) {
		for _, r := range found {
			if strings.Contains(strings.Join(r.Set, " "), "train.offload_activations=") {
				list = append(list, r)
			}
		}
		return list
	}
	p, found := remedies(t, "llama3-8b", "h100-80gb-sxm", sets...)
	require.NotEmpty(t, hosted(found), found)
	for _, r := range hosted(found) {
		for _, o := range found[:slices.IndexFunc(found, func(o results.Remedy) bool { return slices.Equal(o.Set, r.Set) })] {
			require.True(t, o.Devices > r.Devices || o.Samples > r.Samples || len(hosted([]results.Remedy{o})) > 0, found)
		}
	}
	require.Positive(t, p.Experiment.Machine.HostLink.Bandwidth)

	_, found = remedies(t, "llama3-8b", "h100-80gb-sxm", append(sets, "machine.host_link.bandwidth=1MB/s")...)
	require.Empty(t, hosted(found), "the link is so slow that whatever else fits is faster")
	_, found = remedies(t, "llama3-8b", "h100-80gb-sxm", append(sets, "parallel.zero=1", "schedule.name=1f1b",
		"schedule.stages=2")...)
	for _, r := range hosted(found) {
		require.Contains(t, strings.Join(r.Set, " "), "schedule.stages=1", "in one piece")
	}
}
