package launch

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/launch/understood"
)

// TestMapped: every argument that the table calls mapped is looked at, so that none is dropped in silence, and
// the table has an effect for each.
func TestMapped(t *testing.T) {
	asked := map[string]bool{}
	for _, latent := range []string{"True", "False"} {
		a := &arguments{label: "log", values: map[string]string{}}
		for name, p := range megatron().byName {
			a.values[name] = p.value
		}
		for name, value := range map[string]string{
			"num_layers": "4", "hidden_size": "256", "num_attention_heads": "4", "seq_length": "128", "num_experts": "8",
			"micro_batch_size": "1", "global_batch_size": "8", "moe_router_topk": "2", "fp8": map[string]string{"True": "hybrid", "False": "None"}[latent],
			"pipeline_model_parallel_size": "2", "context_parallel_size": "2", "tensor_model_parallel_size": "2", "world_size": "32", "multi_latent_attention": latent,
			"group_query_attention": "True", "window_size": "127,0", "first_last_layers_bf16": "True",
			"num_layers_at_start_in_bf16": "1", "use_megatron_fsdp": latent, "use_distributed_optimizer": "True", "moe_token_dispatcher_type": "flex",
			"recompute_granularity":            map[string]string{"True": "full", "False": "selective"}[latent],
			"overlap_moe_expert_parallel_comm": "True", "vocab_size": "1000",
		} {
			a.values[name] = value
		}
		_, err := mapped(a, Options{})
		require.NoError(t, err)
		for name := range a.asked {
			asked[name] = true
		}
	}
	for name, p := range megatron().byName {
		require.NotEmpty(t, p.effect, name)
		require.NotEmpty(t, p.flags, name)
		require.False(t, p.effect == understood.EffectMapped && !asked[name], "%s is called mapped, and nothing reads it", name)
	}
}
