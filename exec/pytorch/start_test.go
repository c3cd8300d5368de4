package pytorch

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
	"psim/exec/data"
	"psim/exec/kernels"
)

// A start has psim's first weights, and pictures channel by channel. Too many weights are refused.
func TestStart(t *testing.T) {
	c, err := configs.Load("vgg16-cpu-ddp", "model.preset=vgg-mini", "batch.global=4", "parallel.data=2")
	require.NoError(t, err)
	e, err := c.Build()
	require.NoError(t, err)
	s, err := NewStart(e.Network, e.Staged.PerReplica(), 7, data.Options{})
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, s.Write(&b))
	have, err := parseTensors(bytes.ReplaceAll(b.Bytes(), []byte("I64"), []byte("F32")))
	require.NoError(t, err)
	for _, p := range e.Network.ParameterTensors() {
		require.Equal(t, kernels.Initial[float32](7, p), have[p.Name], p.Name)
	}
	source, err := data.NewSource(data.Options{}, e.Network, []int64{2, 2}, 1)
	require.NoError(t, err)
	last := source.Batch(0).Numbers[3*3072:]
	for pixel := range 1024 {
		for channel := range 3 {
			require.Equal(t, last[pixel*3+channel], have["inputs"][3*3072+channel*1024+pixel])
		}
	}

	c, err = configs.Load("llama3-70b")
	require.NoError(t, err)
	e, err = c.Build()
	require.NoError(t, err)
	_, err = NewStart(e.Network, e.Staged.PerReplica(), 7, data.Options{})
	require.EqualError(t, err, "psim does not train llama3-70b itself, so there is nothing to begin with or compare with; "+
		"gpt, vgg and mlp have that")

	c, err = configs.Load("megatron-175b")
	require.NoError(t, err)
	e, err = c.Build()
	require.NoError(t, err)
	_, err = NewStart(e.Network, e.Staged.PerReplica(), 7, data.Options{})
	require.ErrorContains(t, err, "of weights in fp32 are more than the 4.00 GB that psim writes; without them, ")
}
