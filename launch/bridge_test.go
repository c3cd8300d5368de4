package launch_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim"
	"psim/configs"
	"psim/launch"
)

// bridgeNetworks are networks as the providers of Megatron-Bridge have them: key=value, with values of YAML.
var bridgeNetworks = map[string]string{
	"llama2-7b":   "num_layers=32 hidden_size=4096 ffn_hidden_size=11008 num_attention_heads=32 vocab_size=32000",
	"llama3-8b":   "num_layers=32 hidden_size=4096 ffn_hidden_size=14336 num_attention_heads=32 num_query_groups=8 vocab_size=128256",
	"llama3-70b":  "num_layers=80 hidden_size=8192 ffn_hidden_size=28672 num_attention_heads=64 num_query_groups=8 vocab_size=128256",
	"llama3.2-3b": "num_layers=28 hidden_size=3072 ffn_hidden_size=8192 num_attention_heads=24 num_query_groups=8 vocab_size=128256 share_embeddings_and_output_weights=true",
	"qwen2-0.5b":  "num_layers=24 hidden_size=896 ffn_hidden_size=4864 num_attention_heads=14 num_query_groups=2 vocab_size=151936 add_qkv_bias=true share_embeddings_and_output_weights=true",
	"qwen2-7b":    "num_layers=28 hidden_size=3584 ffn_hidden_size=18944 num_attention_heads=28 num_query_groups=4 vocab_size=152064 add_qkv_bias=true",
	"qwen2.5-32b": "num_layers=64 hidden_size=5120 ffn_hidden_size=27648 num_attention_heads=40 num_query_groups=8 vocab_size=152064 add_qkv_bias=true",
	"qwen3-0.6b":  "num_layers=28 hidden_size=1024 ffn_hidden_size=3072 num_attention_heads=16 num_query_groups=8 kv_channels=128 vocab_size=151936 qk_layernorm=true share_embeddings_and_output_weights=true",
	"qwen3-4b":    "num_layers=36 hidden_size=2560 ffn_hidden_size=9728 num_attention_heads=32 num_query_groups=8 kv_channels=128 vocab_size=151936 qk_layernorm=true share_embeddings_and_output_weights=true",
	"qwen3-14b":   "num_layers=40 hidden_size=5120 ffn_hidden_size=17408 num_attention_heads=40 num_query_groups=8 kv_channels=128 vocab_size=151936 qk_layernorm=true",
	"qwen3-30b":   "num_layers=48 hidden_size=2048 ffn_hidden_size=6144 num_attention_heads=32 num_query_groups=4 kv_channels=128 vocab_size=151936 qk_layernorm=true num_moe_experts=128 moe_router_topk=8 moe_ffn_hidden_size=768",
	"glm-4.5": "num_layers=92 hidden_size=5120 ffn_hidden_size=12288 num_attention_heads=96 num_query_groups=8 kv_channels=128 vocab_size=151552 qk_layernorm=true add_qkv_bias=true " +
		"num_moe_experts=160 moe_router_topk=8 moe_ffn_hidden_size=1536 moe_shared_expert_intermediate_size=1536 moe_layer_freq=[" + strings.Repeat("0,", 3) + strings.Repeat("1,", 88) + "1] moe_router_enable_expert_bias=true",
	"moonlight":  mla(27, 2048, 16, 11264, 163840, 64, 6, 1408, 2, 1),
	"v2-lite":    mla(27, 2048, 16, 10944, 102400, 64, 6, 1408, 2, 1),
	"v3":         mla(61, 7168, 128, 18432, 129280, 256, 8, 2048, 1, 3) + " q_lora_rank=1536 moe_router_num_groups=8 moe_router_group_topk=4",
	"gpt3-175b":  "should_pad_vocab=true num_layers=96 hidden_size=12288 ffn_hidden_size=49152 num_attention_heads=96 vocab_size=50257 normalization=LayerNorm activation_func=gelu gated_linear_unit=false position_embedding_type=learned_absolute add_bias_linear=true share_embeddings_and_output_weights=true",
	"gpt-oss":    "num_layers=36 hidden_size=2880 ffn_hidden_size=2880 num_attention_heads=64 num_query_groups=8 kv_channels=64 vocab_size=201088 activation_func=quick_gelu add_bias_linear=true num_moe_experts=128 moe_router_topk=4 moe_ffn_hidden_size=2880 softmax_type=learnable window_size=[127,0] window_attn_skip_freq=2",
	"gemma2":     "_target_=megatron.bridge.models.gemma.gemma2_provider.Gemma2ModelProvider num_layers=26 hidden_size=2304 ffn_hidden_size=9216 num_attention_heads=8 num_query_groups=4 kv_channels=256 vocab_size=256000",
	"nemotron-h": "_target_=megatron.bridge.models.mamba.mamba_provider.MambaModelProvider num_layers=52 hidden_size=4096 num_attention_heads=32",
	"qwen3-next": "_target_=megatron.bridge.models.qwen.qwen_provider.Qwen3NextModelProvider num_layers=48 hidden_size=2048 num_attention_heads=16 num_moe_experts=512",
}

// mla writes the sizes of a network of DeepSeek's with latent attention.
func mla(layers, hidden, heads, ffn, vocab, experts, topk, width, shared, dense int) string {
	return fmt.Sprintf("num_layers=%d hidden_size=%d num_attention_heads=%d ffn_hidden_size=%d vocab_size=%d num_moe_experts=%d "+
		"moe_router_topk=%d moe_ffn_hidden_size=%d moe_shared_expert_intermediate_size=%d moe_layer_freq=[%s1] multi_latent_attention=true "+
		"q_lora_rank=null kv_lora_rank=512 qk_head_dim=128 qk_pos_emb_head_dim=64 v_head_dim=128", layers, hidden, heads, ffn, vocab,
		experts, topk, width, shared*width, strings.Repeat("0,", dense)+strings.Repeat("1,", layers-dense-1))
}

// bridgeRecipes are recipes of Megatron-Bridge 0.3.1 (src/megatron/bridge/recipes): the network, tp, pp, vp, cp, ep,
// sequence parallelism, both batches (2 and 32 are those of recipes/common.py), tokens, recomputation, and why psim refuses
// it. 175B has no sizes of groups in its recipe: those of NVIDIA's own runs are taken.
var bridgeRecipes = []struct {
	name, network      string
	tp, pp, vp, cp, ep int
	sp                 bool
	micro, global, seq int
	recompute, refused string
}{
	{"deepseek_v2_lite", "v2-lite", 1, 1, 0, 1, 8, false, 1, 512, 4096, "full", ""},
	{"deepseek_v3", "v3", 2, 16, 0, 1, 64, true, 1, 4096, 4096, "selective", ""},
	{"gemma2_2b", "gemma2", 2, 1, 0, 1, 0, false, 2, 32, 4096, "", "Gemma2ModelProvider: psim reads networks"},
	{"gemma2_27b", "gemma2", 8, 2, 0, 1, 0, false, 2, 32, 4096, "", "Gemma2ModelProvider: psim reads networks"},
	{"glm45_355b", "glm-4.5", 2, 8, 0, 1, 16, true, 1, 2048, 4096, "selective", "model.num_layers = 92: 8 stages do not divide them"},
	{"gpt3_175b", "gpt3-175b", 8, 8, 6, 1, 0, true, 2, 2048, 2048, "", ""},
	{"gpt_oss_120b", "gpt-oss", 2, 4, 0, 1, 16, true, 1, 512, 4096, "", ""},
	{"llama2_7b", "llama2-7b", 2, 1, 0, 1, 0, false, 1, 512, 4096, "", ""},
	{"llama32_3b", "llama3.2-3b", 1, 1, 0, 1, 0, false, 1, 512, 8192, "", ""},
	{"llama3_8b_16k", "llama3-8b", 4, 2, 0, 2, 0, true, 1, 512, 16384, "", ""},
	{"llama3_8b_128k", "llama3-8b", 4, 2, 0, 8, 0, true, 1, 512, 131072, "", ""},
	{"llama3_70b", "llama3-70b", 4, 4, 5, 2, 0, true, 1, 512, 8192, "", ""},
	{"llama31_70b", "llama3-70b", 4, 4, 5, 2, 0, true, 1, 512, 131072, "", ""},
	{"llama3_70b_64k", "llama3-70b", 8, 4, 0, 8, 0, true, 1, 512, 65536, "", ""},
	{"moonlight_16b", "moonlight", 2, 1, 0, 1, 8, true, 1, 2048, 4096, "selective", ""},
	{"nemotronh_8b", "nemotron-h", 2, 1, 0, 1, 0, true, 1, 768, 8192, "", "MambaModelProvider: psim reads networks"},
	{"nemotronh_56b", "nemotron-h", 8, 1, 0, 1, 0, true, 1, 768, 8192, "", "MambaModelProvider: psim reads networks"},
	{"nemotron_nano_12b_v2", "nemotron-h", 4, 1, 0, 1, 0, true, 1, 768, 8192, "", "MambaModelProvider: psim reads networks"},
	{"nemotron_3_nano", "nemotron-h", 4, 1, 0, 1, 8, true, 2, 3072, 8192, "", "MambaModelProvider: psim reads networks"},
	{"qwen25_500m", "qwen2-0.5b", 1, 1, 0, 1, 0, false, 2, 32, 4096, "", ""},
	{"qwen25_7b", "qwen2-7b", 2, 1, 0, 1, 0, false, 2, 32, 4096, "", ""},
	{"qwen2_500m", "qwen2-0.5b", 1, 1, 0, 1, 0, false, 2, 32, 4096, "", ""},
	{"qwen2_7b", "qwen2-7b", 2, 1, 0, 1, 0, false, 2, 32, 4096, "", ""},
	{"qwen25_32b", "qwen2.5-32b", 8, 2, 0, 1, 0, false, 2, 32, 4096, "", ""},
	{"qwen3_600m", "qwen3-0.6b", 1, 1, 0, 1, 0, false, 2, 32, 4096, "", ""},
	{"qwen3_4b", "qwen3-4b", 2, 1, 0, 1, 0, false, 2, 32, 4096, "", ""},
	{"qwen3_14b", "qwen3-14b", 8, 1, 0, 1, 0, false, 2, 32, 4096, "", ""},
	{"qwen3_30b_a3b", "qwen3-30b", 4, 2, 0, 1, 4, true, 2, 32, 4096, "full", ""},
	{"qwen3_next_80b_a3b", "qwen3-next", 1, 4, 0, 1, 8, false, 2, 32, 4096, "selective", "Qwen3NextModelProvider: psim reads networks"},
}

// bridgeYAML writes a run as Megatron-Bridge does, with changes of keys in any section.
func bridgeYAML(network string, changes ...string) []byte {
	sections := map[string]map[string]string{}
	set := func(key, value string) {
		section, name, _ := strings.Cut(key, ".")
		if sections[section] == nil {
			sections[section] = map[string]string{}
		}
		sections[section][name] = value
	}
	for key, value := range map[string]string{
		"model.normalization": "RMSNorm", "model.activation_func": "{_target_: torch.nn.functional.silu, _call_: false}",
		"model.gated_linear_unit": "true", "model.position_embedding_type": "rope", "model.add_bias_linear": "false",
		"model.share_embeddings_and_output_weights": "false", "model.hidden_dropout": "0.0", "model.attention_dropout": "0.0",
		"model.attention_backend": "{_target_: megatron.core.transformer.enums.AttnBackend, _args_: [5], _call_: true}",
		"model.bf16":              "true", "model.params_dtype": "{_target_: torch.bfloat16, _call_: false}", "model.timers": "null",
		"model._target_": "megatron.bridge.models.llama.llama_provider.LlamaModelProvider", "train.train_iters": "100",
		"ddp.use_distributed_optimizer": "true", "ddp.overlap_grad_reduce": "true", "ddp.overlap_param_gather": "true",
		"ddp.grad_reduce_in_fp32": "true", "optimizer.optimizer": "adam", "optimizer.clip_grad": "1.0",
		"optimizer.use_distributed_optimizer": "true", "logger.log_interval": "10", "checkpoint.save": "/there",
	} {
		set(key, value)
	}
	for word := range strings.FieldsSeq(network) {
		key, value, _ := strings.Cut(word, "=")
		if key == "activation_func" {
			value = "{_target_: megatron.core.fusions." + value + ", _call_: false}"
		}
		set("model."+key, value)
	}
	for _, change := range changes {
		key, value, _ := strings.Cut(change, "=")
		set(key, value)
	}
	var b bytes.Buffer
	fmt.Fprintln(&b, "_target_: megatron.bridge.training.config.ConfigContainer")
	for section, keys := range sections {
		if value, ok := keys[""]; ok { // a key at the top
			fmt.Fprintf(&b, "%s: %s\n", section, value)
			continue
		}
		fmt.Fprintf(&b, "%s:\n", section)
		for key, value := range keys {
			fmt.Fprintf(&b, "  %s: %s\n", key, value)
		}
	}
	return b.Bytes()
}

func readBridge(data []byte, devices int) (*launch.Import, error) {
	return launch.Read([]launch.Input{{Label: "run_config.yaml", Data: data}}, launch.Options{Devices: devices})
}

// TestBridgeRecipes prices every recipe on the fewest devices that it runs on, or refuses it for a reason that holds.
func TestBridgeRecipes(t *testing.T) {
	for _, r := range bridgeRecipes {
		changes := []string{
			fmt.Sprintf("model.tensor_model_parallel_size=%d", r.tp), fmt.Sprintf("model.pipeline_model_parallel_size=%d", r.pp),
			fmt.Sprintf("model.context_parallel_size=%d", r.cp), fmt.Sprintf("model.sequence_parallel=%v", r.sp),
			fmt.Sprintf("model.seq_length=%d", r.seq), fmt.Sprintf("train.micro_batch_size=%d", r.micro),
			fmt.Sprintf("train.global_batch_size=%d", r.global), "mixed_precision.=bf16_mixed",
		}
		if r.vp > 0 {
			changes = append(changes, fmt.Sprintf("model.virtual_pipeline_model_parallel_size=%d", r.vp))
		}
		if r.ep > 0 {
			changes = append(changes, fmt.Sprintf("model.expert_model_parallel_size=%d", r.ep), "model.expert_tensor_parallel_size=1",
				"model.moe_token_dispatcher_type=alltoall")
		}
		switch r.recompute {
		case "full":
			changes = append(changes, "model.recompute_granularity=full", "model.recompute_method=uniform", "model.recompute_num_layers=1")
		case "selective":
			changes = append(changes, "model.recompute_granularity=selective", "model.recompute_modules=[core_attn]")
		}
		if r.name == "deepseek_v3" { // whose layers stages do not divide
			stage := "[decoder, decoder, decoder, decoder]"
			changes = append(changes, "model.pipeline_model_parallel_layout=[[embedding, decoder, decoder, decoder, decoder], "+
				strings.Repeat(stage+", ", 14)+"[decoder, mtp, loss]]", "model.mtp_num_layers=1")
		}
		i, err := readBridge(bridgeYAML(bridgeNetworks[r.network], changes...), 0)
		if r.refused != "" {
			require.ErrorContains(t, err, r.refused, r.name)
			continue
		}
		require.NoError(t, err, r.name)
		require.Zero(t, i.Unknown, "%s: %v", r.name, i.Ignored)
		var text bytes.Buffer
		require.NoError(t, configs.WriteObject(&text, nil, i.Config))
		c, err := configs.ParseOn(r.name, text.Bytes(), configs.Target{Device: "h100-80gb-sxm", DevicesPerNode: 8, Network: "ib-ndr"})
		require.NoError(t, err, "%s\n%s", r.name, text.String())
		p, err := psim.Predict(t.Context(), c)
		require.NoError(t, err, r.name)
		require.Positive(t, p.Result.StepTime, r.name)
	}
}

// TestBridgeStored: inputs of SwiGLU wait in 8 bits where it is one kernel with the bias, of experts not in psim.
func TestBridgeStored(t *testing.T) {
	for _, c := range []struct {
		network, change string
		kept            any
		said            string
	}{
		{"llama3-8b", "model.bias_activation_fusion=true", []string{"activation"}, ""},
		{"llama3-8b", "model.bias_activation_fusion=false", nil, "no effect without model.bias_activation_fusion"},
		{"qwen3-30b", "model.bias_activation_fusion=true", []string{"activation"}, "kept in 16 bits"},
	} {
		i, err := readBridge(bridgeYAML(bridgeNetworks[c.network], "model.activation_func_fp8_input_store=true", c.change,
			"model.seq_length=4096", "train.micro_batch_size=1", "train.global_batch_size=16"), 8)
		require.NoError(t, err)
		require.Equal(t, c.kept, i.Config["train"].(map[string]any)["keep_8bit"])
		require.Equal(t, c.said != "", strings.Contains(fmt.Sprint(i.Ignored), "activation_func_fp8_input_store"))
		require.Contains(t, fmt.Sprint(i.Ignored), c.said)
		var text bytes.Buffer
		require.NoError(t, configs.WriteObject(&text, nil, i.Config))
		_, err = configs.ParseOn("stored", text.Bytes(), configs.Target{Device: "h100-80gb-sxm", DevicesPerNode: 8, Network: "ib-ndr"})
		require.NoError(t, err)
	}
	_, err := readBridge(bridgeYAML(bridgeNetworks["llama3-8b"], "model.cpu_offloading=true", "model.cpu_offloading_num_layers=12",
		"model.recompute_granularity=selective", "model.seq_length=4096", "train.micro_batch_size=1", "train.global_batch_size=16"), 8)
	require.ErrorContains(t, err, "cpu_offloading_num_layers = 12: Megatron-LM does not start with it")
	_, err = readBridge(bridgeYAML(bridgeNetworks["gpt3-175b"], "model.activation_func_fp8_input_store=true",
		"model.seq_length=2048", "train.micro_batch_size=1", "train.global_batch_size=16"), 8)
	require.ErrorContains(t, err, "model.activation_func_fp8_input_store = True: it needs model.activation_func = silu")
}

// TestBridge: keys that have other names than Megatron-LM's arguments decide what they should.
func TestBridge(t *testing.T) {
	for _, c := range []struct {
		change, section, key string
		want                 any
	}{
		{"model.share_embeddings_and_output_weights=true", "model", "tied", true}, {"model.should_pad_vocab=true", "model", "vocab", 128256},
		{"model.vocab_size=128001", "model", "vocab", 128001}, {"model.num_layers_in_first_pipeline_stage=null", "schedule", "first_blocks", nil},
		{"ddp.grad_reduce_in_fp32=false", "train", "gradients", "bf16"}, {"ddp.bucket_size=1000", "parallel", "bucket", "1000 gradients"},
		{"mixed_precision.=bf16_with_mxfp8_mixed", "train", "precision", "mxfp8"},
		{"mixed_precision.=bf16_with_fp8_current_scaling_mixed", "train", "bf16_last", 1},
		{"comm_overlap.overlap_grad_reduce=false", "parallel", "overlap", false}, {"optimizer.clip_grad=0.0", "train", "clip", false},
		{"model.attention_backend={_target_: a.AttnBackend, _args_: [3], _call_: true}", "model", "attention", "unfused"},
		{"ddp.use_distributed_optimizer=false", "parallel", "zero", 0}, {"train.micro_batch_size=2", "batch", "micro", 2},
		{"model.activation_func={_target_: megatron.core.activations.squared_relu, _call_: false}", "model", "activation", "relu2"},
		{"dataset.sequence_length=512", "model", "sequence_length", 512},
		{"model.activation_func_fp8_input_store=true", "train", "keep_8bit", []string{"activation"}},
		{"model.activation_func_fp8_input_store=false", "train", "keep_8bit", nil},
		{"model.fp8_dot_product_attention=true", "train", "keep_8bit", nil},
		{"mixed_precision={fp8: hybrid, fp8_recipe: delayed, bf16: true, fp8_dot_product_attention: true}", "train", "keep_8bit", []string{"attention"}},
		{"model.cpu_offloading=true", "train", "offload_activations", 12},
		{"model.cpu_offloading=false", "train", "offload_activations", nil},
		{"model.cpu_offloading_activations=false", "train", "offload_activations", nil},
	} {
		changes := []string{"model.seq_length=4096", "train.micro_batch_size=1", "train.global_batch_size=16",
			"model.cpu_offloading_num_layers=12", "model.cpu_offloading_weights=false", c.change}
		if c.key == "activation" {
			changes = append(changes, "model.gated_linear_unit=false")
		}
		i, err := readBridge(bridgeYAML(bridgeNetworks["llama3-8b"], changes...), 8)
		require.NoError(t, err, c.change)
		require.Equal(t, c.want, i.Config[c.section].(map[string]any)[c.key], c.change)
		require.Equal(t, "megatron-bridge", i.Format)
		require.Zero(t, i.Unknown, "%s: %v", c.change, i.Ignored)
	}
	sized := []string{"model.pipeline_model_parallel_size=2", "model.seq_length=4096", "train.micro_batch_size=1", "train.global_batch_size=16"}
	i, err := readBridge(bridgeYAML(bridgeNetworks["llama3-8b"], append(sized, "model.mine=3", "model.deterministic_mode=true")...), 8)
	require.NoError(t, err)
	require.Equal(t, 1, i.Unknown)
	require.Contains(t, fmt.Sprint(i.Ignored), "deterministic_mode = True")
	for change, want := range map[string]string{
		"model.activation_func={_target_: a.tanh, _call_: false}": "model.activation_func = tanh: psim knows gelu",
		"model.vocab_size=x": "model.vocab_size = x: must be a whole number", "mixed_precision.=best": "mixed_precision = best: psim knows bf16_mixed",
		"peft.=lora": "peft = lora: psim trains a whole network", "model.num_layers=0": "num_layers = 0",
		"model.pipeline_model_parallel_size=3":                                      "model.num_layers = 32: 3 stages do not divide them",
		"model.pipeline_model_parallel_layout=[[embedding, best], [decoder, loss]]": `not "?"`,
	} {
		_, err := readBridge(bridgeYAML(bridgeNetworks["llama3-8b"], append(sized, change)...), 8)
		require.ErrorContains(t, err, want, change)
		require.True(t, strings.HasPrefix(err.Error(), "run_config.yaml: "), err)
		require.NotContains(t, err.Error(), "\n")
	}
}
