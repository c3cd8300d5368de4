package keyed

import (
	_ "embed"
	"fmt"
	"slices"

	"psim/launch/understood"
)

//go:embed nanotron.csv
var nanotronCSV string

// nanotronVersion is the state of nanotron whose keys the table has.
const nanotronVersion = "2411b022 (src/nanotron/config)"

// What psim calls nanotron's values.
var (
	nanotronEngines  = map[string]string{"1f1b": "1f1b", "afab": "gpipe"}
	nanotronTypes    = map[string]string{"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
	nanotronContexts = map[string]string{
		"ring": "ring", "ring_flash_triton": "ring", "llama3_ring_attention": "all-gather",
	}
	nanotronOptimizer = map[string]string{"adamW": "adamw", "sgd": "sgd"}
)

// isNanotron reports whether data is a configuration of nanotron.
func isNanotron(data []byte) bool {
	if !has(data, []string{"parallelism"}) {
		return false
	}
	table, _ := decoded(data)
	model, _ := table["model"].(map[string]any)
	_, known := model["model_config"].(map[string]any)
	return known
}

// A nanotron is a run of nanotron.
type nanotron struct{ *file }

// readNanotron reads a configuration of nanotron.
func readNanotron(f understood.Input, _ []understood.Input, o understood.Options) (*understood.Import, error) {
	file, err := begin("nanotron", nanotronVersion).open(f, nanotronCSV)
	if err != nil {
		return nil, err
	}
	if err := file.decode(f); err != nil {
		return nil, err
	}
	file.sections()
	k := &nanotron{file}
	k.Set("train.stack", "nanotron")
	k.network()
	k.mixture()
	k.groups(o)
	k.training()
	if k.refused != nil {
		return nil, k.refused
	}
	k.rest()
	return k.Import, nil
}

// needed returns a size that the file must have.
func (k *nanotron) needed(key string) int {
	if k.keys[key] == nil {
		k.refuseKey(key, "is missing: write a whole number of at least 1")
	}
	return k.degree(key)
}

// section is where the network is.
const section = "model.model_config."

// network maps the sizes of the network: Llama's, and those of Qwen 2 with what that has in addition.
func (k *nanotron) network() {
	for _, other := range []string{"is_starcoder2_config", "is_mamba_config"} {
		if k.is(section + other) {
			k.refuseKey(section+other, "psim knows LlamaConfig and Qwen2Config")
		}
	}
	k.Set("model.family", "llama")
	for _, pair := range [][2]string{
		{"model.layers", "num_hidden_layers"}, {"model.hidden", "hidden_size"}, {"model.heads", "num_attention_heads"},
		{"model.ffn_hidden", "intermediate_size"},
	} {
		k.Set(pair[0], k.needed(section+pair[1]), section+pair[1])
	}
	if k.keys[section+"num_key_value_heads"] != nil {
		k.Set("model.kv_heads", k.degree(section+"num_key_value_heads"), section+"num_key_value_heads")
	}
	const tensor, unit = "parallelism.tp", "model.make_vocab_size_divisible_by"
	multiple := product(k.degree(tensor), k.degree(unit))
	words := k.needed(section + "vocab_size")
	if multiple < understood.MostSize {
		words = (words + multiple - 1) / multiple * multiple
	}
	k.Set("model.vocab", words, section+"vocab_size", unit, tensor)
	k.Set("model.tied", k.is(section+"tie_word_embeddings"), section+"tie_word_embeddings")
	if k.is(section+"is_qwen2_config") && k.is(section+"attention_bias") { // Llama's code has no bias
		k.Set("model.qkv_bias", true, section+"attention_bias")
	}
	if n := k.whole(section+"sliding_window_size", 0); n > 0 {
		k.Set("model.window", n, section+"sliding_window_size")
	}
	switch act := k.word(section+"hidden_act", "silu"); act {
	case "silu", "gelu", "relu":
		k.Set("model.activation", act, section+"hidden_act")
	default:
		k.refuseKey(section+"hidden_act", "psim knows silu, gelu and relu")
	}
	const length, stages = "tokens.sequence_length", "data_stages"
	k.Set("model.sequence_length", k.needed(length), length)
	list, _ := k.keys[stages].([]any)
	for _, stage := range list {
		table, _ := stage.(map[string]any)
		if n := table["sequence_length"]; n != nil && fmt.Sprint(n) != fmt.Sprint(k.keys[length]) {
			k.Leave(fmt.Sprintf("%s: sequence_length = %v", stages, n), "another stage of the training: --set "+
				"model.sequence_length=N predicts its step")
		}
	}
}

// mixture maps experts.
func (k *nanotron) mixture() {
	const of = section + "moe_config."
	if k.keys[of+"num_experts"] == nil {
		return
	}
	k.Set("model.family", "mixtral")
	k.Set("model.experts", k.degree(of+"num_experts"), of+"num_experts")
	k.Set("model.experts_per_token", k.degreeOr(of+"top_k", 2), of+"top_k")
	width := k.degreeOr(of+"moe_intermediate_size", 1408)
	k.Set("model.expert_hidden", width, of+"moe_intermediate_size")
	if k.is(of + "enable_shared_expert") {
		shared := k.degreeOr(of+"shared_expert_intermediate_size", 5632)
		if shared%width != 0 {
			k.refuseKey(of+"shared_expert_intermediate_size", fmt.Sprintf(
				"psim's shared experts are as wide as the others (%d)", width))
		}
		k.Set("model.shared_experts", shared/width, of+"enable_shared_expert", of+"shared_expert_intermediate_size")
	}
	list, _ := k.keys[of+"layers"].([]any)
	if len(list) == 0 || list[0] == -1 || list[0] == float64(-1) {
		return
	}
	layers := k.degree(section + "num_hidden_layers")
	for i, n := range list {
		if first := layers - len(list); first < 0 || n != first+i {
			k.refuseKey(of+"layers", "psim has experts after the first layers")
			return
		}
	}
	k.Set("model.dense_layers", layers-len(list), of+"layers")
}

// groups maps the groups of devices.
func (k *nanotron) groups(o understood.Options) {
	const name = "parallelism."
	data, stages, tensor := k.needed(name+"dp"), k.needed(name+"pp"), k.needed(name+"tp")
	context := k.degree(name + "context_parallel_size")
	if n := product(data, stages, tensor, context); n >= understood.MostSize || o.Devices > 0 && o.Devices != n {
		k.refuseKey(name+"dp", fmt.Sprintf("dp %d × pp %d × tp %d × context %d are %d devices, and --devices says %d; "+
			"leave --devices out", data, stages, tensor, context, n, o.Devices))
		return
	}
	if k.degree(name+"expert_parallel_size") > 1 {
		k.refuseKey(name+"expert_parallel_size", "nanotron starts only where tp × cp × dp × pp are all devices; "+
			"write 1")
	}
	k.Set("parallel.data", data, name+"dp")
	if tensor > 1 {
		k.Set("parallel.tensor", tensor, name+"tp")
		mode := k.word(name+"tp_mode", "ALL_REDUCE")
		if !slices.Contains([]string{"ALL_REDUCE", "REDUCE_SCATTER", "all_reduce", "reduce_scatter"}, mode) {
			k.refuseKey(name+"tp_mode", "must be ALL_REDUCE or REDUCE_SCATTER")
		}
		k.Set("parallel.sequence", mode == "REDUCE_SCATTER" || mode == "reduce_scatter", name+"tp_mode")
		async, again := name+"tp_linear_async_communication", name+"tp_recompute_allgather"
		k.Set("parallel.tensor_overlap", k.is(async), async)
		if k.keys[again] == false {
			k.aside(again, "what is gathered is kept for the backward: psim gathers it again")
		}
	}
	if context > 1 {
		method := nanotronContexts[k.word(section+"_attn_implementation", "")]
		if method == "" {
			k.refuseKey(section+"_attn_implementation", "a sequence in parts needs ring, ring_flash_triton or "+
				"llama3_ring_attention")
		}
		k.Set("parallel.context", context, name+"context_parallel_size")
		k.Set("parallel.context_method", method, section+"_attn_implementation")
	}
	k.order(stages)
	k.batch(data)
}

// order maps the order of the pipeline.
func (k *nanotron) order(stages int) {
	const name, engine = "parallelism.", "parallelism.pp_engine"
	order := nanotronEngines[k.word(engine, "afab")]
	switch {
	case order == "":
		k.refuseKey(engine, "must be 1f1b or afab")
	case stages > 1:
		k.Set("schedule.name", order, engine)
		k.Set("schedule.stages", stages, name+"pp")
	default:
		k.Set("schedule.name", "ddp", name+"pp")
	}
}

// batch maps the batch.
func (k *nanotron) batch(data int) {
	micro, rounds := k.needed("tokens.micro_batch_size"), k.needed("tokens.batch_accumulation_per_replica")
	if product(micro, rounds, data) >= understood.MostSize {
		k.refuseKey("tokens.micro_batch_size", "a step has too many samples")
		return
	}
	k.Set("batch.micro", micro, "tokens.micro_batch_size")
	k.Set("batch.global", micro*rounds*data, "tokens.micro_batch_size", "tokens.batch_accumulation_per_replica",
		"parallelism.dp")
}

// training maps precision, optimizer, sums of gradients and recomputation.
func (k *nanotron) training() {
	const wide, zero, bucket = "optimizer.accumulate_grad_in_fp32", "optimizer.zero_stage", "model.ddp_bucket_cap_mb"
	precision := nanotronTypes[k.word("model.dtype", "bfloat16")]
	if precision == "" {
		k.refuseKey("model.dtype", "psim knows bfloat16, float16 and float32")
	}
	k.Set("train.precision", precision, "model.dtype")
	if precision != "fp32" {
		if k.is(wide) {
			k.Set("train.gradients", "fp32", wide)
		} else { // its optimizer then updates weights of 16 bits
			k.Set("train.master_weights", "none", wide)
			k.Set("memory.gradient_copies", false, wide)
		}
	}
	stage := k.whole(zero, 0)
	if stage < 0 || stage > 1 {
		k.refuseKey(zero, "must be 0 or 1")
	}
	k.Set("parallel.zero", stage, zero)
	if stage == 0 || !k.is(wide) { // DDP sums gradients in buckets during the backward
		k.Set("parallel.overlap", true, zero, wide)
		k.Set("parallel.bucket", fmt.Sprintf("%dMiB", k.degreeOr(bucket, 25)), bucket)
	}
	optimizer := nanotronOptimizer[k.word("optimizer.optimizer_factory.name", "adamW")]
	if optimizer == "" {
		k.refuseKey("optimizer.optimizer_factory.name", "psim knows adamW and sgd")
	}
	k.Set("train.optimizer", optimizer, "optimizer.optimizer_factory.name")
	const clip = "optimizer.clip_grad"
	if _, number := k.number(clip); k.keys[clip] != nil && !number {
		k.refuseKey(clip, "must be a number, or null")
	}
	k.Set("train.clip", k.keys[clip] != nil, clip)
	if k.keys[clip] != nil && k.real(clip, 0) <= 0 {
		k.Leave(clip+" = "+shown(k.keys[clip]), "nanotron clips every gradient to this norm, and learns nothing: null "+
			"is without clipping")
	}
	recompute := "none"
	if k.is("parallelism.recompute_layer") {
		recompute = "full"
	}
	k.Set("train.recompute", recompute, "parallelism.recompute_layer")
}
