package reports_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"psim"
	"psim/reports"
)

// TestHosted: tensors in the memory of hosts are named, and only there.
func TestHosted(t *testing.T) {
	for _, blocks := range []string{"0", "4"} {
		c, err := psim.Load("model:llama3-8b", "machine.device=gb200-nvl72", "train.precision=bf16", "batch.global=1", "train.offload_activations="+blocks)
		require.NoError(t, err)
		p, err := psim.Predict(t.Context(), c)
		require.NoError(t, err)
		var page bytes.Buffer
		require.NoError(t, reports.WriteResult(&page, p.Result))
		want := "  in the host    the tensors that the first blocks keep for their backward: train.offload_activations = 4\n"
		require.Equal(t, blocks == "4", bytes.Contains(page.Bytes(), []byte(want)), page.String())
	}
}
