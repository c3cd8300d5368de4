package models

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"psim/costmodel/group"
	"psim/costmodel/network"
)

// divided builds one device's part of a small mixture.
func divided(t *testing.T, g group.Group, change func(*Model)) (whole, part network.Network) {
	m := Model{Family: "mixtral", Layers: 2, Hidden: 64, Heads: 8, FFNHidden: 96, Vocab: 256, SequenceLength: 32, Experts: 16, ExpertsPerToken: 4}
	if change != nil {
		change(&m)
	}
	whole, err := m.Network()
	require.NoError(t, err)
	part, err = m.On(g)
	require.NoError(t, err)
	return whole, part
}

// All devices of an expert group have as many parameters of experts as a layer has, and
// compute as much for them as one that has all experts.
func TestExpertsDivided(t *testing.T) {
	for _, g := range []group.Group{
		{Expert: 4}, {Expert: 16}, {Devices: 2, Sequence: true, Expert: 4}, {Devices: 4, Sequence: true, Expert: 2, ExpertTensor: 2},
		{Devices: 4, Sequence: true, ExpertTensor: 1}, {Devices: 4, Sequence: true, Expert: 8, ExpertTensor: 4}, {Devices: 4, Sequence: true},
	} {
		whole, part := divided(t, g, nil)
		experts := func(n network.Network) int64 {
			return total(n.Layers[1].Params, func(t network.Tensor) int64 {
				if !t.Expert {
					return 0
				}
				return t.Shape.Elements()
			})
		}
		flops := func(n network.Network, p network.Pass) int64 {
			return total(n.Layers[1].Ops, func(o network.Op) int64 {
				if o.Experts == 0 {
					return 0
				}
				return int64(o.FLOPs(p))
			})
		}
		assert.Equal(t, experts(whole), experts(part)*int64(g.ExpertDevices()), g)
		for _, p := range []network.Pass{network.Forward, network.InputGradient, network.WeightGradient} {
			assert.Equal(t, flops(whole, p), flops(part, p)*int64(g.TensorParts()), g)
			assert.Equal(t, int64(whole.FLOPs(p)), int64(part.FLOPs(p))*int64(g.TensorParts())-routerTwice(whole, g, p), g)
		}
	}
}

// routerTwice is what the devices of a tensor-parallel group that divides every expert
// compute beyond a whole router: each routes all tokens.
func routerTwice(whole network.Network, g group.Group, p network.Pass) int64 {
	if g.Dispatches() {
		return 0
	}
	router := total(whole.Layers[1].Ops, func(o network.Op) int64 {
		if o.Name != "block_sparse_moe.gate" {
			return 0
		}
		return int64(o.FLOPs(p))
	})
	return router * 2 * int64(g.TensorParts()-1)
}

// Dispatch and combine: a device's tokens, of which each goes to several experts, there and
// back, in the forward and in the gradients. What is dispatched in 8 bits is so in F alone.
func TestAllToAlls(t *testing.T) {
	const rows, hidden = 32 * 4, 64
	for _, c := range []struct {
		group    group.Group
		dispatch group.Transfer
	}{
		{group.Group{Expert: 8}, group.Transfer{Collective: group.AllToAll, Elements: rows * hidden}},
		{group.Group{Devices: 4, Sequence: true, Expert: 8}, group.Transfer{Collective: group.AllToAll, Elements: rows / 4 * hidden}},
		{group.Group{Devices: 4, Sequence: true, Expert: 8, ExpertTensor: 2}, group.Transfer{Collective: group.AllToAll, Elements: rows / 4 * hidden}},
		{group.Group{Expert: 8, EightBits: true}, group.Transfer{Collective: group.AllToAll, Elements: rows * (hidden + hidden/128.*4), ElementBytes: 1}},
	} {
		_, part := divided(t, c.group, nil)
		var names []string
		for _, o := range part.Layers[1].Ops {
			if o.Exchanges[network.Forward].Collective != group.AllToAll {
				continue
			}
			names = append(names, o.Name)
			want := [3]group.Transfer{network.Forward: c.dispatch, network.InputGradient: {Collective: group.AllToAll, Elements: rows * hidden / int64(c.group.TensorParts())}}
			if o.Name == "mlp.combine" {
				want[network.Forward] = want[network.InputGradient]
			}
			assert.Equal(t, want, o.Exchanges, c.group)
		}
		assert.Equal(t, []string{"mlp.dispatch", "mlp.combine"}, names)
	}
}

// A busiest device has more rows, sends and keeps more; a capacity is the same for all.
func TestImbalanceAndCapacity(t *testing.T) {
	rows := func(change func(*Model)) int64 {
		_, part := divided(t, group.Group{Expert: 4}, change)
		for _, o := range part.Layers[1].Ops {
			if o.Experts > 0 {
				return o.Rows
			}
		}
		return 0
	}
	even := rows(nil)
	assert.Equal(t, even*3/2, rows(func(m *Model) { m.Imbalance = 1.5 }))
	assert.Equal(t, even*4, rows(func(m *Model) { m.Imbalance = 100 }), "one device has all rows")
	assert.Equal(t, even*5/4, rows(func(m *Model) { m.Capacity = 1.25 }))
	_, busiest := divided(t, group.Group{Expert: 4}, func(m *Model) { m.Imbalance = 1.5 })
	_, mean := divided(t, group.Group{Expert: 4}, nil)
	for i, l := range busiest.Layers {
		assert.InDelta(t, float64(mean.Layers[i].FLOPs(network.Forward)), float64(l.FLOPs(network.Forward))-busiest.Surplus(l.Ops, network.Forward), 1e-6)
	}
}

// What a token reaches: by counting, and DeepSeek-V3's four of eight nodes, of which it
// reaches nearly all.
func TestReached(t *testing.T) {
	assert.InDelta(t, 1, group.Routing{Experts: 8, PerToken: 2, Groups: 1, GroupsPerToken: 1}.Reached(1), 1e-12)
	assert.InDelta(t, 2, group.Routing{Experts: 8, PerToken: 2, Groups: 1, GroupsPerToken: 1}.Reached(8), 1e-12)
	assert.InDelta(t, 2-2./14*3, group.Routing{Experts: 8, PerToken: 2, Groups: 1, GroupsPerToken: 1}.Reached(2), 1e-12)
	limited := group.Routing{Experts: 256, PerToken: 8, Groups: 8, GroupsPerToken: 4}
	assert.InDelta(t, 3.65, limited.Reached(8), 0.05)
	free := group.Routing{Experts: 256, PerToken: 8, Groups: 1, GroupsPerToken: 1}
	assert.InDelta(t, 5.32, free.Reached(8), 0.05)
	assert.Less(t, limited.Reached(64), free.Reached(64))
	assert.InDelta(t, 2, group.Routing{Experts: 8, PerToken: 2, Groups: 4, GroupsPerToken: 1}.Reached(8), 1e-12)
}

func TestExpertsRefused(t *testing.T) {
	m := Model{Family: "mixtral", Layers: 2, Hidden: 64, Heads: 8, FFNHidden: 96, Vocab: 256, SequenceLength: 32, Experts: 16, ExpertsPerToken: 4}
	for _, c := range []struct {
		change func(*Model)
		group  group.Group
		want   string
	}{
		{nil, group.Group{Expert: 3}, "experts = 16: parallel.expert = 3 must divide it"},
		{nil, group.Group{Devices: 2, Expert: 2}, "set parallel.sequence = true"},
		{nil, group.Group{Devices: 64, Sequence: true, ExpertTensor: 64}, "heads = 8"},
		{func(m *Model) { m.Family, m.Experts, m.ExpertsPerToken = "llama", 0, 0 }, group.Group{Expert: 2}, "parallel.expert = 2 divides those of a mixture"},
		{func(m *Model) { m.ExpertGroups = 3 }, group.Group{}, "expert_groups = 3: must divide experts = 16"},
		{func(m *Model) { m.ExpertGroups, m.GroupsPerToken = 2, 4 }, group.Group{}, "groups_per_token = 4: must be at most expert_groups = 2"},
		{func(m *Model) { m.ExpertGroups, m.GroupsPerToken = 8, 1 }, group.Group{}, "fewer than experts_per_token = 4"},
		{func(m *Model) { m.Capacity = 5 }, group.Group{}, "capacity = 5: must be at most experts / experts_per_token = 4"},
		{func(m *Model) { m.Capacity, m.Imbalance = 2, 2 }, group.Group{}, "imbalance = 2: with capacity = 2"},
	} {
		changed := m
		if c.change != nil {
			c.change(&changed)
		}
		_, err := changed.On(c.group)
		assert.ErrorContains(t, err, c.want)
	}
}

// Mixtral's eight experts on as many devices: each has one, and sends seven of eight rows.
func ExampleModel_On_experts() {
	net, err := Model{Preset: "mixtral-8x7b", SequenceLength: 4096}.On(group.Group{Expert: 8})
	if err != nil {
		panic(err)
	}
	for _, op := range net.Layers[1].Ops {
		if transfer := op.Exchanges[network.Forward]; transfer.Collective == group.AllToAll {
			rows := transfer.Bytes(2, 1)
			fmt.Println(op.Name, rows, "bytes,", net.SentToExperts(rows), "to others")
		}
	}
	fmt.Println(net.Parameters(), "parameters of a device")
	// Output:
	// mlp.dispatch 67108864 bytes, 58720256 to others
	// mlp.combine 67108864 bytes, 58720256 to others
	// 7242780672 parameters of a device
}
