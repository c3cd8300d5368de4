package hfconfig

import "strings"

// eagerForms says how transformers' code of a type differs from Llama's where kernels are PyTorch's own
// (models.Model.Eager), and with that what a block keeps for its backward: modeling_*.py of transformers 5.23. That
// nothing is missing, `make model-check` counts on the meta device.
func eagerForms() map[string]string {
	const (
		gains  = "fp32_gains"
		router = "fp32_router"
	)
	return map[string]string{
		"gemma": gains, "gemma2": gains, "gemma3": gains, "gemma3_text": gains, "gemma4": gains, "gemma4_text": gains,
		"olmo2": gains, "olmo3": gains, "helium": gains,
		"nemotron_h": joined(gains, router), "step3p5": joined(gains, "limited_gate"),
		"step3p7": joined(gains, "limited_gate"),
		"gpt_oss": joined(gains, "clamped_gate"), "ernie4_5": "rotary_angles",
		"kimi_linear": router, "deepseek_v2": router,
		"qwen3_next": gains, "qwen3_5": gains, "qwen3_5_text": gains, "qwen3_5_moe": gains, "qwen3_5_moe_text": gains,
		"cohere": "stepwise_layer_norm", "cohere2": "stepwise_layer_norm",
		"gpt_neox": "joint_qkv", "phi3": "joint_qkv", "bloom": "fp32_softmax",
		"deepseek_v3": router, "deepseek_v32": router, "kimi_k2": router, "kimi_k25": router, "glm4_moe": router,
		"glm4_moe_lite": router, "glm_moe_dsa": router, "dots1": router, "hunyuan_v1_moe": router,
		"mimo_v2_flash": router, "ernie4_5_moe": joined(router, "rotary_angles"),
	}
}

// joined joins words of model.eager.
func joined(words ...string) string {
	return strings.Trim(strings.Join(words, ","), ",")
}

// eagerFunction returns the word for an activation function that transformers computes by its formula.
func eagerFunction(name string) string {
	if name == "gelu_new" || name == "gelu_fast" {
		return "stepwise_gelu"
	}
	return ""
}
