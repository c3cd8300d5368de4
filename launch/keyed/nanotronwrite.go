package keyed

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// NanotronVersion is the state of nanotron whose configurations are written.
const NanotronVersion = "2411b022"

// tree puts values into sections within each other, by keys with dots.
type tree map[string]any

// put sets a value.
func (t tree) put(key string, value any) {
	for {
		section, rest, ok := strings.Cut(key, ".")
		if !ok {
			break
		}
		inner, ok := t[section].(tree)
		if !ok {
			inner = tree{}
			t[section] = inner
		}
		t, key = inner, rest
	}
	t[key] = value
}

// NanotronConfig returns the configuration with which nanotron trains by keys of an Import, resolved: on made-up
// tokens, for 50 steps. An error is an *understood.Unsayable.
func NanotronConfig(said map[string]any) (map[string]any, error) {
	w := &keyWriter{said: said}
	t := tree{}
	w.nanotronNetwork(t)
	w.nanotronGroups(t)
	w.nanotronTraining(t)
	nanotronYours(t)
	if w.refused != nil {
		return nil, w.refused
	}
	return t, nil
}

// word returns what a program calls psim's value: the first name in order, or "".
func word(names map[string]string, value string) (name string) {
	for n, means := range names {
		if means == value && (name == "" || n < name) {
			name = n
		}
	}
	return name
}

// nanotronNetwork writes the sizes of the network.
func (w *keyWriter) nanotronNetwork(t tree) {
	if family := w.text("model.family"); family != "llama" && family != "mixtral" {
		w.refuse("model", "nanotron trains transformers of the families llama and mixtral")
	}
	for _, pair := range [][2]string{
		{"model.layers", "num_hidden_layers"}, {"model.hidden", "hidden_size"}, {"model.heads", "num_attention_heads"},
		{"model.ffn_hidden", "intermediate_size"}, {"model.kv_heads", "num_key_value_heads"},
		{"model.vocab", "vocab_size"}, {"model.window", "sliding_window_size"},
	} {
		if n := w.number(pair[0], 0); n > 0 {
			t.put(section+pair[1], n)
		}
	}
	if w.number("model.kv_heads", 0) == 0 {
		t.put(section+"num_key_value_heads", w.number("model.heads", 0))
	}
	t.put("model.make_vocab_size_divisible_by", 1)
	t.put(section+"tie_word_embeddings", w.text("model.tied") == "true")
	t.put(section+"hidden_act", w.text("model.activation"))
	bias := w.text("model.qkv_bias") == "true"
	if bias || w.number("model.experts", 0)+w.number("model.window", 0) > 0 { // only in its network of Qwen
		t.put(section+"is_qwen2_config", true)
		t.put(section+"attention_bias", bias)
	} else {
		t.put(section+"is_llama_config", true)
	}
	t.put("tokens.sequence_length", w.number("model.sequence_length", 1))
	t.put(section+"max_position_embeddings", w.number("model.sequence_length", 1))
	w.nanotronExperts(t)
}

// nanotronExperts writes a mixture.
func (w *keyWriter) nanotronExperts(t tree) {
	const of = section + "moe_config."
	experts := w.number("model.experts", 0)
	if experts == 0 {
		return
	}
	width := w.number("model.expert_hidden", w.number("model.ffn_hidden", 1))
	t.put(of+"num_experts", experts)
	t.put(of+"top_k", w.number("model.experts_per_token", 1))
	t.put(of+"moe_intermediate_size", width)
	if n := w.number("model.shared_experts", 0); n > 0 {
		t.put(of+"enable_shared_expert", true)
		t.put(of+"shared_expert_intermediate_size", n*width)
	}
	layers := []any{-1} // all of them
	if dense := w.number("model.dense_layers", 0); dense > 0 {
		layers = nil
		for i := dense; i < w.number("model.layers", 0); i++ {
			layers = append(layers, i)
		}
	}
	t.put(of+"layers", layers)
}

// nanotronYours writes what nanotron does not start without, and what decides neither time nor memory.
func nanotronYours(t tree) {
	t.put("general.project", "psim")
	t.put("general.run", "psim")
	t.put("general.seed", 42)
	t.put("checkpoints.checkpoints_path", "checkpoints")
	t.put("checkpoints.checkpoint_interval", 1000)
	t.put("data_stages", []any{tree{
		"name": "made-up tokens", "start_training_step": 1, "data": tree{"dataset": nil, "seed": 42},
	}})
	t.put("model.init_method.std", 0.02)
	t.put("tokens.train_steps", 50)
	t.put("optimizer.weight_decay", 0.1)
	const schedule = "optimizer.learning_rate_scheduler."
	t.put(schedule+"learning_rate", 0.0003)
	t.put(schedule+"lr_warmup_style", "linear")
	t.put(schedule+"lr_decay_style", "cosine")
	t.put(schedule+"min_decay_lr", 0.0)
}

// adamFactory has the settings of AdamW that decide neither time nor memory.
func adamFactory(t tree) {
	const factory = "optimizer.optimizer_factory."
	t.put(factory+"adam_beta1", 0.9)
	t.put(factory+"adam_beta2", 0.95)
	// PyYAML takes 1e-08 for text.
	t.put(factory+"adam_eps", &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!float", Value: "1.0e-8"})
	t.put(factory+"torch_adam_is_fused", true)
}

// nanotronGroups writes the groups of devices, the order and the batch.
func (w *keyWriter) nanotronGroups(t tree) {
	const name = "parallelism."
	data, tensor := w.number("parallel.data", 1), w.number("parallel.tensor", 1)
	stages, context := w.number("schedule.stages", 1), w.number("parallel.context", 1)
	if w.number("parallel.expert", 1) > 1 {
		w.refuse("parallel.expert", "nanotron starts only where tensor × context × data × stages are all devices: 1")
	}
	if n := w.number("schedule.virtual_stages", 1); n > 1 {
		w.refuse("schedule.virtual_stages", "nanotron has one stage on a rank")
	}
	t.put(name+"dp", data)
	t.put(name+"pp", stages)
	t.put(name+"tp", tensor)
	t.put(name+"expert_parallel_size", 1)
	mode := "ALL_REDUCE"
	if w.text("parallel.sequence") == "true" {
		mode = "REDUCE_SCATTER"
	}
	t.put(name+"tp_mode", mode)
	async := w.text("parallel.tensor_overlap") == "true"
	t.put(name+"tp_linear_async_communication", async)
	t.put(name+"tp_recompute_allgather", true)
	if context > 1 {
		method := map[string]string{"ring": "ring_flash_triton", "all-gather": "llama3_ring_attention"}
		kernel := method[w.text("parallel.context_method")]
		if kernel == "" {
			w.refuse("parallel.context_method", "nanotron's are ring and all-gather")
		}
		t.put(name+"context_parallel_size", context)
		t.put(section+"_attn_implementation", kernel)
	}
	engine := "1f1b"
	if stages > 1 {
		if engine = word(nanotronEngines, w.text("schedule.name")); engine == "" {
			w.refuse("schedule.name", "nanotron has 1f1b and gpipe (afab)")
		}
	}
	t.put(name+"pp_engine", engine)
	micro := w.number("batch.micro", 1)
	t.put("tokens.micro_batch_size", micro)
	t.put("tokens.batch_accumulation_per_replica", w.number("batch.global", 1)/max(1, micro*data))
}

// nanotronTraining writes precision, optimizer, sums of gradients and recomputation.
func (w *keyWriter) nanotronTraining(t tree) {
	precision := word(nanotronTypes, w.text("train.precision"))
	if precision == "" {
		w.refuse("train.precision", "nanotron has bf16, fp16 and fp32")
	}
	t.put("model.dtype", precision)
	wide := w.text("train.master_weights") != "none"
	t.put("optimizer.accumulate_grad_in_fp32", wide)
	zero := w.number("parallel.zero", 0)
	if zero > 1 {
		w.refuse("parallel.zero", "nanotron has 0 and 1")
	}
	t.put("optimizer.zero_stage", zero)
	if size, ok := strings.CutSuffix(w.text("parallel.bucket"), "MiB"); ok {
		if n, err := strconv.Atoi(size); err == nil {
			t.put("model.ddp_bucket_cap_mb", n)
		}
	}
	name := word(nanotronOptimizer, w.text("train.optimizer"))
	if name == "" {
		w.refuse("train.optimizer", "nanotron has adamw and sgd")
	}
	if t.put("optimizer.optimizer_factory.name", name); name == "adamW" {
		adamFactory(t)
	}
	if t.put("optimizer.clip_grad", nil); w.text("train.clip") == "true" { // 0 would clip every gradient to 0
		t.put("optimizer.clip_grad", 1.0)
	}
	recompute := w.text("train.recompute")
	if recompute != "none" && recompute != "full" {
		w.refuse("train.recompute", "nanotron knows none and full")
	}
	t.put("parallelism.recompute_layer", recompute == "full")
}
