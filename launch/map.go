package launch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"psim/launch/understood"
)

// A mapper turns arguments into a configuration.
type mapper struct {
	*arguments
	out     *Import
	refused error // the first argument that psim cannot follow
}

// mapped makes a configuration of arguments.
func mapped(a *arguments, o Options) (*Import, error) {
	a.fill()
	m := &mapper{arguments: a, out: &Import{
		Format: "megatron", Version: megatronVersion, Config: map[string]any{},
	}}
	if err := m.sizes(); err != nil {
		return nil, err
	}
	m.conflicts()
	devices, err := m.devices(o)
	if err != nil {
		return nil, err
	}
	m.model()
	m.attention()
	m.mixture()
	m.plan(devices)
	m.schedule()
	m.training()
	if m.refused != nil {
		return nil, m.refused
	}
	m.account()
	return m.out, nil
}

// needed are sizes without which nothing is known, and sized are others that are above 0 where they are given.
var (
	needed = []string{
		"num_layers", "hidden_size", "num_attention_heads", "seq_length", "micro_batch_size",
	}
	sized = []string{
		"global_batch_size", "ffn_hidden_size", "kv_channels", "num_query_groups", "padded_vocab_size", "vocab_size",
		"make_vocab_size_divisible_by", "max_position_embeddings", "tensor_model_parallel_size", "world_size",
		"pipeline_model_parallel_size", "context_parallel_size", "expert_model_parallel_size", "num_experts",
		"expert_tensor_parallel_size", "num_layers_per_virtual_pipeline_stage", "num_virtual_stages_per_pipeline_rank",
		"virtual_pipeline_model_parallel_size", "microbatch_group_size_per_vp_stage", "moe_router_topk",
		"moe_ffn_hidden_size", "moe_shared_expert_intermediate_size", "recompute_num_layers",
	}
)

// excluded are switches that Megatron does not take together.
var excluded = [][2]string{
	{"bf16", "fp16"}, {"fp8", "fp4"}, {"swiglu", "squared_relu"}, {"swiglu", "quick_geglu"},
	{"squared_relu", "quick_geglu"},
	{"num_layers_per_virtual_pipeline_stage", "num_virtual_stages_per_pipeline_rank"},
}

// conflicts refuses arguments of a script that exclude each other. What a log prints has run.
func (m *mapper) conflicts() {
	given := func(name string) bool { v := m.get(name); return m.given != nil && v != "" && v != "False" }
	for _, pair := range excluded {
		if given(pair[0]) && given(pair[1]) {
			m.refuse(pair[0], "goes not with "+pair[1]+" = "+m.values[pair[1]]+"; remove one of them")
		}
	}
}

// sizes refuses sizes that are below 1 or not whole.
func (m *mapper) sizes() error {
	if m.empty != nil {
		return fmt.Errorf("%s: %s has no value%s", m.label, m.empty[0], leftOut(m.notes))
	}
	for _, name := range slices.Concat(needed, sized) {
		value := strings.Trim(m.values[name], `'" `)
		n, err := strconv.Atoi(strings.ReplaceAll(value, "_", ""))
		if (value == "" || value == "None") && !slices.Contains(needed, name) ||
			err == nil && n > 0 && n < understood.MostSize {
			continue
		}
		return fmt.Errorf("%s: %s = %.40s: must be a whole number of at least 1; give the script what it takes it "+
			"from, or name the log, which prints it", m.label, name, orNone(value))
	}
	return nil
}

func orNone(value string) string {
	if value == "" {
		return "None"
	}
	return value
}

// fill sets the defaults of a script's arguments, and what Megatron derives from others.
func (a *arguments) fill() {
	if a.given != nil {
		for name, p := range megatron().byName {
			if _, ok := a.values[name]; !ok && !p.fork {
				a.values[name] = p.value
			}
		}
	}
	a.translate()
	derive := func(name string, value int) {
		if a.integer(name) == 0 && value > 0 {
			a.values[name] = strconv.Itoa(value)
		}
	}
	hidden, heads := a.integer("hidden_size"), a.integer("num_attention_heads")
	if a.integer("ffn_hidden_size") == 0 {
		derive("ffn_hidden_size", 4*hidden)
		if a.on("swiglu") {
			a.values["ffn_hidden_size"] = strconv.Itoa(hidden * 8 / 3 / 64 * 64)
		}
	}
	if heads > 0 {
		derive("kv_channels", hidden/heads)
	}
	if words, unit := a.integer(
		"vocab_size",
	), max(
		1,
		a.integer("make_vocab_size_divisible_by")*max(1, a.integer("tensor_model_parallel_size")),
	); words > 0 {
		derive("padded_vocab_size", (words+unit-1)/unit*unit)
	}
}

// translate gives what a script or a log of a fork says in the words of Megatron-LM.
func (a *arguments) translate() {
	if _, given := a.given["transformer_impl"]; a.on("deepspeed") && a.given != nil && !given {
		a.values["transformer_impl"] = "local"
	}
	if strings.Contains(a.get("pp_partition_method"), "embedding") { // at both ends, where they are tied
		a.values["account_for_embedding_in_pipeline_split"] = "True"
		a.values["account_for_loss_in_pipeline_split"] = "True"
	}
	if n := a.integer("num_key_value_heads"); n > 0 && n != a.integer("num_attention_heads") {
		a.values["group_query_attention"], a.values["num_query_groups"] = "True", strconv.Itoa(n)
	}
	if n := a.get("pad_vocab_size_to"); n != "" && a.integer("padded_vocab_size") == 0 {
		a.values["padded_vocab_size"] = n
	}
	for fork, name := range map[string]string{
		"qk_nope_head_dim": "qk_head_dim", "qk_rope_head_dim": "qk_pos_emb_head_dim",
	} {
		if n := a.get(fork); n != "" {
			a.values[name] = n
		}
	}
	if n := a.get("num_mtp_predictor"); a.on("use_multi_token_prediction") && n != "" {
		a.values["mtp_num_layers"] = n
	}
	for _, name := range []string{"LayerNorm", "RMSNorm"} {
		if strings.EqualFold(a.values["normalization"], name) {
			a.values["normalization"] = name
		}
	}
}

// devices returns how many there are.
func (m *mapper) devices(o Options) (int, error) {
	group := func(name string) int { return max(1, m.integer(name)) }
	tensor, stages, context := group(
		"tensor_model_parallel_size",
	), group(
		"pipeline_model_parallel_size",
	), group(
		"context_parallel_size",
	)
	least := stages * leastMultiple(tensor*context, group("expert_model_parallel_size")*m.expertTensor())
	n := m.integer("world_size")
	if n == 0 {
		n = m.nodes.devices()
	}
	switch {
	case n == 0 && o.Devices == 0:
		m.ask(
			"parallel.data",
			fmt.Sprintf(
				"no file says how many devices there are: %d is assumed, the least; --devices N says it",
				least,
			),
		)
		n = least
	case n == 0 || m.given != nil && o.Devices > 0:
		n = o.Devices
	case o.Devices > 0 && o.Devices != n:
		return 0, fmt.Errorf("--devices %d: %s ran on %d; leave --devices out", o.Devices, m.label, n)
	}
	if n%(tensor*stages*context) != 0 {
		return 0, fmt.Errorf("%s: %d devices do not divide into groups of %d (tensor %d × pipeline %d × context %d); "+
			"--devices N says how many there are",
			m.label, n, tensor*stages*context, tensor, stages, context)
	}
	return n, nil
}

// expertTensor returns how many devices divide an expert. Megatron takes the tensor group.
func (m *mapper) expertTensor() int {
	if n := m.integer("expert_tensor_parallel_size"); n > 0 {
		return n
	}
	if m.integer("num_experts") == 0 {
		return 1
	}
	return max(1, m.integer("tensor_model_parallel_size"))
}

// leastMultiple returns the least number that both divide.
func leastMultiple(a, b int) int {
	x, y := a, b
	for y > 0 {
		x, y = y, x%y
	}
	return a / x * b
}

// set gives a key a value, for arguments.
func (m *mapper) set(key string, value any, from ...string) { m.out.Set(key, value, from...) }

// copy gives a key its argument's number, if that has one.
func (m *mapper) copy(key string) {
	if n := m.integer(numbers[key]); n > 0 {
		m.set(key, n, numbers[key])
	}
}

// turn gives a key the state of its argument, on or off.
func (m *mapper) turn(key string) { m.set(key, m.on(switches[key]), switches[key]) }

func (m *mapper) ask(key, ask string) { m.out.Ask(key, ask) }

// refuse says what psim cannot follow.
func (m *mapper) refuse(from, reason string) {
	if m.refused == nil {
		m.refused = fmt.Errorf("%s: %s = %.60s: %s", m.label, from, m.values[from], reason)
	}
}

// leave says why an argument has no key.
func (m *mapper) leave(from, reason string) {
	m.out.Leave(from+" = "+m.values[from], reason)
}

// account says what became of all other arguments.
func (m *mapper) account() {
	table := megatron()
	for name, value := range m.values {
		p := table.byName[name]
		_, given := m.given[name]
		switch {
		case p == nil && m.given == nil && !derived[name]:
			m.other = append(m.other, name)
		case p == nil, p.effect == understood.EffectMapped, m.given != nil && !given:
		case p.effect == understood.EffectNone, m.given == nil && same(value, orNone(p.value)), value == "None":
			m.out.Idle++
		default:
			m.leave(name, p.effect)
		}
	}
	for _, flag := range slices.Compact(slices.Sorted(slices.Values(m.other))) {
		m.out.Unknown++
		m.out.Leave(flag, understood.UnknownReason)
	}
	for _, note := range m.notes {
		m.out.Leave(m.label, note)
	}
	slices.SortStableFunc(m.out.Ignored, func(a, b understood.Ignored) int { return strings.Compare(a.From, b.From) })
}

// derived are arguments that Megatron prints and no flag gives.
var derived = map[string]bool{
	"world_size":         true,
	"data_parallel_size": true,
	"rank":               true,
	"local_rank":         true,
	"params_dtype":       true,
	"transformer_pipeline_model_parallel_size": true,
	"virtual_pipeline_model_parallel_size":     true,
	"consumed_train_samples":                   true,
	"consumed_valid_samples":                   true,
	"variable_seq_lengths":                     true,
	"iteration":                                true,
	"start_weight_decay":                       true,
	"end_weight_decay":                         true,
	"model_type":                               true,
	"gated_linear_unit":                        true,
}
