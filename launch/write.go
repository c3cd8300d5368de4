package launch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// An Argument is one of Megatron's, with its value as Python prints it.
type Argument struct{ Name, Value string }

// A Command is what starts a training by Megatron-LM.
type Command struct {
	// The arguments: of the network, of the groups of devices and the batch, and of how it is trained.
	Model, Plan, Training []Argument
}

// NewCommand returns the command that trains by a configuration, which has the keys of an Import's, resolved: a network
// by its sizes, not by a name. An error is an *Unsayable.
func NewCommand(config map[string]any) (*Command, error) {
	w := &writer{config: config}
	c := &Command{}
	c.Model = w.part(w.network, w.heads, w.form, w.experts)
	c.Plan = w.part(w.groups, w.pipeline, w.shards, w.samples)
	c.Training = w.part(w.training, w.numbersOfBits, w.stored, w.repeated)
	if w.refused != nil {
		return nil, w.refused
	}
	return c, nil
}

// All returns all arguments.
func (c *Command) All() []Argument { return slices.Concat(c.Model, c.Plan, c.Training) }

// A writer turns keys into arguments: a mapper, the other way round.
type writer struct {
	config  map[string]any
	list    []Argument
	refused *Unsayable // the first key that Megatron has no argument for
}

// part returns what some methods put.
func (w *writer) part(methods ...func()) []Argument {
	w.list = nil
	for _, method := range methods {
		method()
	}
	return w.list
}

// value returns what the configuration gives a key; nil if nothing.
func (w *writer) value(key string) any {
	section, name, _ := strings.Cut(key, ".")
	table, _ := w.config[section].(map[string]any)
	return table[name]
}

// number returns a key's number, and 0 for a key without one.
func (w *writer) number(key string) int {
	switch n := w.value(key).(type) {
	case int:
		return n
	case int64:
		return int(n)
	case float64:
		return int(n)
	}
	return 0
}

// size does what number does, and returns 1 for a key that is not given.
func (w *writer) size(key string) int { return max(1, w.number(key)) }

// text returns a key's word, and "" for a key without one.
func (w *writer) text(key string) string { s, _ := w.value(key).(string); return s }

// on reports whether a key is true.
func (w *writer) on(key string) bool { b, _ := w.value(key).(bool); return b }

// put writes an argument.
func (w *writer) put(name string, value any) {
	text := fmt.Sprint(value)
	if b, ok := value.(bool); ok {
		text = map[bool]string{true: "True", false: "False"}[b]
	}
	w.list = append(w.list, Argument{name, text})
}

// counts writes the arguments of keys that have numbers.
func (w *writer) counts(keys ...string) {
	for _, key := range keys {
		if n := w.number(key); n > 0 {
			w.put(numbers[key], n)
		}
	}
}

// turns writes the arguments of keys that are true or false.
func (w *writer) turns(keys ...string) {
	for _, key := range keys {
		if _, given := w.value(key).(bool); given {
			w.put(switches[key], w.on(key))
		}
	}
}

// refuse says what Megatron has no argument for.
func (w *writer) refuse(key, format string, values ...any) {
	if w.refused == nil {
		w.refused = &Unsayable{Key: key, Problem: fmt.Sprintf(format, values...)}
	}
}

// network writes the sizes of the network.
func (w *writer) network() {
	if !slices.Contains([]string{"gpt", "llama", "mixtral"}, w.text("model.family")) {
		w.refuse("model", "Megatron-LM's pretrain_gpt.py trains transformers of the families gpt, llama and mixtral")
	}
	w.counts("model.layers", "model.hidden", "model.ffn_hidden", "model.heads", "model.sequence_length")
	positions := w.number("model.sequence_length")
	if w.text("model.position_embedding") == "learned" {
		positions = max(positions, w.number("model.positions"))
	}
	w.put("max_position_embeddings", positions)
	words, tensor := w.number("model.vocab"), w.size("parallel.tensor")
	w.put("vocab_size", words)
	if words%(128*tensor) != 0 { // Megatron pads the table of words to a multiple of this
		w.put("make_vocab_size_divisible_by", 1)
	}
	w.put("untie_embeddings_and_output_weights", !w.on("model.tied"))
	w.counts("model.mtp_layers")
}

// heads writes what attention is made of.
func (w *writer) heads() {
	switch {
	case w.number("model.kv_lora_rank") > 0:
		w.put("multi_latent_attention", true)
		w.counts(latentSizes...)
	default:
		if w.number("model.heads")*w.number("model.head_dim") != w.number("model.hidden") {
			w.counts("model.head_dim")
		}
		if w.number("model.kv_heads") != w.number("model.heads") {
			w.put("group_query_attention", true)
			w.counts("model.kv_heads")
		}
		if w.on("model.qk_norm") {
			w.turns("model.qk_norm")
		}
	}
	flash := w.text("model.attention") == "flash"
	switch local := w.local(); {
	case local && flash:
		w.put("use_flash_attn", true)
	case !local && !flash:
		w.put("attention_backend", "unfused")
	}
	if n := w.number("model.window"); n > 0 {
		w.put("window_size", fmt.Sprintf("%d,0", n-1))
		w.counts("model.full_attention_every")
	}
	if w.on("model.sinks") {
		w.put("softmax_type", "learnable")
	}
}

// local reports whether Megatron's own layers are used, not Transformer Engine's.
func (w *writer) local() bool { return w.text("train.stack") != "megatron-te" }

// form writes the form of a block.
func (w *writer) form() {
	w.put("normalization", saying(norms, w.text("model.norm")))
	switch activation, gated := w.text("model.activation"), w.on("model.gated"); {
	case activation == "silu" && gated:
		w.put("swiglu", true)
	case activation == "relu2" && !gated:
		w.put("squared_relu", true)
	case activation != "gelu" || gated:
		w.refuse("model.activation", "Megatron-LM has silu with a gate, and gelu and relu2 without; "+
			"not %s with gated = %t", activation, gated)
	}
	biases := w.on("model.linear_bias") || w.on("model.attention_bias") && w.on("model.mlp_bias")
	w.put(switches["model.linear_bias"], biases)
	if w.on("model.qkv_bias") && !biases {
		w.turns("model.qkv_bias")
	}
	position := map[string]string{"learned": "learned_absolute", "rotary": "rope", "none": "none"}
	word := position[w.text("model.position_embedding")]
	if word == "" {
		w.refuse("model.position_embedding", "Megatron-LM has learned and rotary positions, or none")
	}
	w.put("position_embedding_type", word)
	dropout := w.value("model.dropout")
	if dropout == nil {
		dropout = 0
	}
	w.put("hidden_dropout", dropout)
	w.put("attention_dropout", dropout)
}

// experts writes a mixture.
func (w *writer) experts() {
	if w.number("model.experts") == 0 {
		return
	}
	w.counts("model.experts", "model.experts_per_token", "model.expert_hidden")
	if n := w.number("model.shared_experts"); n > 0 {
		wide := w.number("model.expert_hidden")
		if wide == 0 {
			wide = w.number("model.ffn_hidden")
		}
		w.put("moe_shared_expert_intermediate_size", n*wide)
	}
	dense, every, layers := w.number("model.dense_layers"), w.number("model.moe_every"), w.number("model.layers")
	switch {
	case dense > 0 && every > 1:
		w.refuse("model.moe_every", "goes with dense_layers = %d, and the script says only one of them", dense)
	case dense > 0:
		w.put("moe_layer_freq", fmt.Sprintf("([0]*%d+[1]*%d)", dense, layers-dense))
	case every > 1:
		w.put("moe_layer_freq", every)
	}
	if f, ok := w.value("model.capacity").(float64); ok && f > 0 {
		w.put("moe_expert_capacity_factor", strconv.FormatFloat(f, 'g', -1, 64))
	}
	if w.on("model.router_bias") {
		w.turns("model.router_bias")
		w.put("moe_router_score_function", "sigmoid") // which the bias needs
	}
	w.put("moe_grouped_gemm", true)
	if w.size("model.expert_groups") > 1 {
		w.counts("model.expert_groups", "model.groups_per_token")
	}
	if w.text("parallel.dispatcher") != "deepep" {
		w.put("moe_token_dispatcher_type", "alltoall")
		return
	}
	w.put("moe_token_dispatcher_type", "flex")
	w.put("moe_flex_dispatcher_backend", "deepep")
}
