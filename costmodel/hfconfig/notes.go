package hfconfig

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// otherHeads matches the classes of transformers whose head does not predict tokens.
var otherHeads = regexp.MustCompile(`\w+For((Sequence|Token)Classification|QuestionAnswering|MultipleChoice)\b`)

// unread returns a sentence for each key of a file that has no effect: keys whose effect is not
// priced, and unknown keys.
func (k configKeys) unread(modelType string) (notes []string) {
	known := k.known(modelType)
	for _, key := range slices.Sorted(maps.Keys(k)) {
		if heads := otherHeads.Find(k[key]); key == "architectures" && heads != nil {
			notes = append(notes, fmt.Sprintf("architectures has %s: the head that predicts tokens is priced", heads))
			continue
		}
		if slices.Contains(known, key) || neutral(key) || k.off(key) {
			continue
		}
		notes = append(notes, fmt.Sprintf("%s = %s: %s", key, shortened(k[key]), unpriced(key)))
	}
	t, ok := llamaTypes()[modelType]
	taken := sizes("num_key_value_heads")
	if t.mixersAlone || k.given("block_configs") {
		taken = nil // all that it has is required
	}
	if t.more.LinearHeads > 0 && !k.given("layer_types") {
		taken = append(taken, "linear_attn_config")
	}
	for _, key := range taken {
		if t.patterned && key == "num_hidden_layers" || t.aliased(key) {
			continue
		}
		if ok && t.needs != nil && !k.given(key) && !slices.Contains(t.needs, key) {
			notes = append(notes, fmt.Sprintf("%s is not given: it is taken to be the default of model_type %q "+
				"in transformers", key, modelType))
		}
	}
	return notes
}

// predictors is the key of modules that predict further tokens.
const predictors = "num_nextn_predict_layers"

// known lists the keys that are read for a type.
func (k configKeys) known(modelType string) (tags []string) {
	t := llamaTypes()[modelType]
	from := []any{llamaConfig{}}
	switch {
	case modelType == "gpt2":
		from = []any{gpt2Config{}}
	case textTypes()[modelType] != "":
		return []string{"text_config"}
	case t.block != nil:
		tags = slices.Collect(maps.Keys(t.aliases))
		from = append(from, blockConfig{})
	}
	for _, part := range from {
		for _, field := range tagged(reflect.TypeOf(part)) {
			tag := field.Tag.Get("json")
			if tag != predictors && !strings.HasPrefix(tag, "mtp_") { // they have a note, whatever reads them
				tags = append(tags, tag)
			}
		}
	}
	return tags
}

// aliased reports whether a type has another key in place of one.
func (t llamaType) aliased(key string) bool {
	return slices.Contains(slices.Collect(maps.Values(t.aliases)), key)
}

// off reports whether the value of a key turns it off.
func (k configKeys) off(key string) bool {
	return slices.Contains([]string{"null", "false", "0", "0.0", "[]", "{}", `""`}, string(k[key]))
}

// shortened prints a value for a message.
func shortened(value []byte) string {
	switch {
	case value[0] == '{':
		return "{…}"
	case len(value) > 40:
		return string(value[:40]) + "…"
	}
	return string(value)
}

// unpriced says what is left out of a key's effect.
func unpriced(key string) string {
	switch key {
	case "attn_logit_softcapping":
		return "a tanh over the scores of attention is not priced"
	case "final_logit_softcapping":
		return "a tanh over the logits is not priced"
	case predictors, "mtp_num_hidden_layers":
		return "modules that predict further tokens are left out, as in transformers; " +
			"set model.mtp_layers to train them"
	case "quantization_config", "quantization", "compression_config":
		return "weights have the precision of [train]"
	case "dropout", "hidden_dropout", "layerdrop", "attention_dropout", "resid_pdrop", "embd_pdrop", "attn_pdrop":
		return "dropout is left out"
	case "residual_dropout", "embedding_dropout":
		return "dropout is left out"
	case "no_rope_layer_interval", "no_rope_layers":
		return "rotary positions are priced in all blocks"
	case "num_mtp_modules", "mtp_hybrid_override_pattern", "mtp_layers_block_type":
		return "modules that predict further tokens are left out"
	case "output_router_logits":
		return "the auxiliary loss of routers is not priced"
	case "vision_config":
		return "the network for text alone is read"
	case "use_bidirectional_attention":
		return "attention is priced as causal"
	}
	return "psim does not know this key, and leaves it out"
}

// neutral reports whether a key changes neither sizes nor costs.
func neutral(key string) bool {
	for _, part := range []string{"image", "video", "projector", "media_", "vision_start", "vision_end",
		"vision_feature", "rope", "token_id", "token_index", "summary_", "id2label", "label2id"} {
		if strings.Contains(key, part) {
			return true
		}
	}
	return slices.Contains(strings.Fields(`model_type architectures auto_map torch_dtype dtype transformers_version
		initializer_range rms_norm_eps layer_norm_eps layer_norm_epsilon norm_eps use_cache
		pretraining_tp init_std classifier_dropout apply_residual_connection_post_layernorm slow_but_exact
		_name_or_path cache_implementation query_pre_attn_scalar norm_topk_prob routed_scaling_factor
		scoring_func topk_method aux_loss_alpha seq_aux router_aux_loss_coef router_jitter_noise ep_size
		swiglu_alpha swiglu_limit initial_context_length experts_per_token partial_rotary_factor
		original_max_position_embeddings attn_temperature_tuning floor_scale attn_scale
		length_penalty repetition_penalty diversity_penalty encoder_no_repeat_ngram_size no_repeat_ngram_size
		num_beams num_beam_groups num_return_sequences temperature top_k top_p typical_p max_length min_length
		early_stopping do_sample output_scores output_attentions output_hidden_states chunk_size_feed_forward
		is_encoder_decoder tie_encoder_decoder pruned_heads problem_type remove_invalid_values torchscript
		embedding_multiplier logits_scaling residual_multiplier attention_multiplier qk_norm_type use_qk_norm
		rotary_dim qk_head_dim index_share_for_mtp_iteration moe_router_dtype
		mtp_transformer_layers use_mtp mtp_use_dedicated_embeddings mamba_ssm_dtype
		expand time_step_min time_step_max time_step_floor time_step_limit time_step_rank residual_in_fp32
		rescale_prenorm_residual num_logits_to_keep use_mamba_kernels mamba_ssm_cache_dtype moe_shared_expert_overlap
		rms_norm norm_before_gate mamba_norm_before_gate mamba_use_mlp attention_in_multiplier attention_out_multiplier
		key_multiplier lm_head_multiplier mlp_multipliers ssm_in_multiplier ssm_multipliers ssm_out_multiplier
		vocab_size_per_layer_input attention_value_scale swiglu_limits swiglu_limits_shared partial_rotary_factors
		moe_router_scaling_factor use_moe_router_bias use_swa_head_dim sliding_window_size layernorm_epsilon
		moe_renormalize moe_router_activation_func use_grouped_topk attn_rotary_emb
		return_dict ignore_index spatial_merge_size
		for_llm_compressor logit_scale n_ctx task_specific_params scale_attn_weights scale_attn_by_inverse_layer_idx
		reorder_and_upcast_attn n_special predict_special_tokens mm_tokens_per_image is_decoder tie_word_embeddings
		sliding_window max_window_layers num_key_value_heads gradient_checkpointing _attn_implementation_autoset`), key)
}
