package hfconfig

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"psim/costmodel/network"
)

// With eager kernels every block keeps for its backward what autograd keeps of transformers' own, within 0.5 %:
// transformers.json has bytes of 4,096 tokens in bf16. psim leaves out the root of each row of a norm, indices of
// experts, and what all samples share. That norms, gates and routers matter is seen without the words of model.eager.
func TestKeptByTransformers(t *testing.T) {
	blocks, types, otherwise := 0, map[string]bool{}, 0
	for _, c := range countedConfigs(t) {
		if c.Kept == nil {
			continue
		}
		m, _, err := Parse(c.Config, 1024)
		require.NoError(t, err, c.Name)
		m.SequenceLength, m.Kernels, m.Attention, m.Dropout = 4096, "eager", "flash", 0
		if m.Positions > 0 {
			m.Positions = 4096
		}
		if !c.Flash {
			m.Attention = "unfused"
		}
		far := func(eager string) (worst float64) {
			m.Eager = eager
			var kept []int64
			for _, l := range networkOf(t, m).Layers {
				if l.Repeatable {
					sum := network.BufferBytes(l.Buffers, 2, 1)
					kept = append(kept, sum[network.ForwardToInput]+sum[network.ForwardToWeight])
				}
			}
			next := 0
			for _, run := range c.Kept {
				for range run[1] {
					if run[0] > 0 {
						worst = max(worst, math.Abs(float64(kept[next])/float64(run[0])-1))
						blocks++
					}
					next++
				}
			}
			assert.Len(t, kept, next, c.Name)
			return worst
		}
		eager := m.Eager
		assert.LessOrEqual(t, far(eager), 0.005, "%s, %s", c.Name, eager)
		types[c.modelType(t)] = true
		if eager != "" && far("") > 0.005 {
			otherwise++
		}
	}
	assert.Greater(t, blocks, 2000)
	assert.Greater(t, len(types), 45)
	assert.Greater(t, otherwise, 20)
}
