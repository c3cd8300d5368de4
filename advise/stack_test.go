package advise_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim"
	"psim/advise"
	"psim/configs"
)

// advised predicts a small Llama on four devices whose memory does not suffice.
func advised(t *testing.T, sets ...string) *psim.Prediction {
	c, err := psim.Load("llama3-70b", append([]string{
		"model.preset=llama3-8b", "model.sequence_length=2048", "parallel.tensor=1", "parallel.sequence=false", "parallel.data=4", "schedule.name=ddp",
		"batch.global=4", "batch.micro=1", "machine.device=h100-80gb-sxm", "machine.devices_per_node=8", "train.precision=bf16",
	}, sets...)...)
	require.NoError(t, err)
	p, err := psim.Predict(context.Background(), c)
	require.NoError(t, err)
	advise.Fit(context.Background(), p)
	return p
}

// Nothing is advised that the stack does not offer, nor found by asking what if.
func TestOnlyWhatStacksOffer(t *testing.T) {
	for _, s := range append(configs.Stacks(), configs.Stack{Name: "none"}) {
		p := advised(t, "train.stack="+s.Name, "train.recompute=none", "parallel.zero=0")
		require.False(t, p.Result.Fits(), s.Name)
		list, _, err := advise.WhatIf(context.Background(), p, nil)
		require.NoError(t, err)
		var all [][]string
		for _, r := range p.Result.WouldFit {
			all = append(all, r.Set)
		}
		for _, w := range list {
			all = append(all, w.Set)
		}
		require.NotEmpty(t, all, s.Name)
		for _, set := range all {
			c, err := p.Config.With(set...)
			require.NoError(t, err)
			require.Empty(t, c.Unoffered(), "%s: %s", s.Name, set)
		}
		third := slices.ContainsFunc(all, func(set []string) bool { return slices.Contains(set, "parallel.zero=3") })
		require.Equal(t, s.Name == "none" || slices.Contains(s.Zero, 3), third, s.Name)
		if last := p.Result.Warnings[len(p.Result.Warnings)-1]; len(p.Result.WouldFit) == 0 {
			require.Contains(t, last, "and that stack "+s.Name+" has")
		}
	}
}

// With fused attention selective recomputation repeats nothing, and is not listed in
// addition to none.
func TestSelectiveOnce(t *testing.T) {
	for _, c := range []struct {
		sets []string
		want bool
	}{
		{[]string{"model.attention=flash"}, false},
		{[]string{"model.attention=unfused"}, true},
		{[]string{"model.attention=flash", "train.selective=operations"}, true},
	} {
		p := advised(t, append(c.sets, "train.stack=none", "train.recompute=full", "parallel.zero=3")...)
		list, _, err := advise.WhatIf(context.Background(), p, nil)
		require.NoError(t, err)
		found := map[string]bool{}
		for _, w := range list {
			found[strings.Join(w.Set, " ")] = true
		}
		require.True(t, found["train.recompute=none"], c.sets)
		require.Equal(t, c.want, found["train.recompute=selective"], c.sets)
	}
}
