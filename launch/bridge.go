package launch

import (
	"bytes"
	_ "embed"
	"encoding/csv"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"psim/launch/keyed"
	"psim/launch/understood"
)

//go:embed bridge.csv
var bridgeCSV string

// bridgeVersion names the versions whose keys are known: those of megatron-core's dataclasses are arguments of
// Megatron-LM by the same name, and bridge.csv has the others.
const bridgeVersion = "0.3.1, with megatron-core 0.16.1"

// A bridgeRow says which argument a key stands for, or what it may change.
type bridgeRow struct{ argument, effect string }

var bridgeTable = sync.OnceValue(func() map[string]bridgeRow {
	rows, err := csv.NewReader(strings.NewReader(bridgeCSV)).ReadAll()
	if err != nil {
		panic(err)
	}
	table := map[string]bridgeRow{}
	for _, row := range rows[1:] {
		table[row[0]] = bridgeRow{row[1], row[2]}
	}
	return table
})

// What Megatron-Bridge's names stand for.
var (
	bridgePrecisions = map[string]map[string]string{
		"bf16_mixed": {"bf16": "True"},
		"fp16_mixed": {"fp16": "True", "grad_reduce_in_bf16": "True"},
		"bf16_with_fp8_delayed_scaling_mixed": {
			"bf16": "True", "fp8": "hybrid", "fp8_recipe": "delayed", "fp8_param_gather": "True",
		},
		"bf16_with_fp8_current_scaling_mixed": {
			"bf16": "True", "fp8": "hybrid", "fp8_recipe": "tensorwise", "fp8_param_gather": "True",
			"first_last_layers_bf16": "True", "num_layers_at_start_in_bf16": "1", "num_layers_at_end_in_bf16": "1",
		},
		"bf16_with_fp8_subchannel_scaling_mixed": {"bf16": "True", "fp8": "e4m3", "fp8_recipe": "blockwise"},
		"bf16_with_mxfp8_mixed": {
			"bf16": "True", "fp8": "e4m3", "fp8_recipe": "mxfp8", "fp8_param_gather": "True",
		},
		"bf16_with_nvfp4_mixed": {"bf16": "True", "fp4": "e2m1"},
	}
	bridgeBackends = map[string]string{"1": "flash", "2": "fused", "3": "unfused", "4": "local", "5": "auto"}
	bridgeTypes    = map[string]string{"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "half": "fp16"}
	bridgeOthers   = regexp.MustCompile(`Mamba|Hybrid|T5|VL|Omni|Audio|ASR|L[Ll]a[Vv]a|MIMO|Gemma[234]|NemotronH|` +
		`Qwen3Next`)
	bridgeSections = []string{
		"model", "dataset", "train", "optimizer", "ddp", "mixed_precision", "comm_overlap", "dist",
	}
	bridgeSeparator = "."
)

// bridgeKeys returns the keys of Megatron-Bridge's ConfigContainer; nil for other files.
func bridgeKeys(f Input) map[string]any {
	if len(f.Data) > understood.MostScript || !bytes.Contains(f.Data, []byte("num_layers")) {
		return nil
	}
	keys, err := keyed.Keys(f)
	_, sized := keys["model.num_layers"]
	_, trained := keys["train.micro_batch_size"]
	if err != nil || !sized || !trained {
		return nil
	}
	return keys
}

// readBridge reads the YAML that Megatron-Bridge writes of a run, as arguments of Megatron-LM; nil for other files.
func readBridge(f Input, o Options) (*Import, error) {
	keys := bridgeKeys(f)
	if keys == nil {
		return nil, nil
	}
	b := &bridge{
		arguments: &arguments{label: f.Label, values: map[string]string{}, given: map[string]string{}},
		keys:      objects(keys), left: &Import{},
	}
	if err := b.read(); err != nil {
		return nil, err
	}
	i, err := mapped(b.arguments, o)
	if err != nil {
		return nil, err
	}
	i.Format, i.Version = "megatron-bridge", bridgeVersion
	i.Ignored = append(i.Ignored, b.left.Ignored...)
	i.Idle += b.left.Idle
	i.Unknown += b.left.Unknown
	slices.SortStableFunc(i.Ignored, func(a, b understood.Ignored) int { return strings.Compare(a.From, b.From) })
	return i, nil
}

// objects writes a function, a type or a member of an enumeration, which the file has as an object, as its name.
func objects(keys map[string]any) map[string]any {
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		base, ok := strings.CutSuffix(key, "._target_")
		if !ok || !strings.Contains(base, bridgeSeparator) {
			continue
		}
		name := fmt.Sprint(keys[key])
		name = name[strings.LastIndex(name, bridgeSeparator)+1:]
		if list, ok := keys[base+"._args_"].([]any); ok && name == "AttnBackend" && len(list) == 1 {
			name = bridgeBackends[fmt.Sprint(list[0])]
		}
		keys[base] = name
		for _, part := range []string{"._target_", "._args_", "._call_", "._partial_"} {
			delete(keys, base+part)
		}
	}
	return keys
}

// A bridge turns keys of Megatron-Bridge into arguments of Megatron-LM.
type bridge struct {
	*arguments
	keys map[string]any
	left *Import // keys without arguments
}

// text returns a key as Python prints it; "" where it is None or not given.
func (b *bridge) text(key string) string {
	switch v := b.keys[key].(type) {
	case nil:
		return ""
	case bool:
		if v {
			return "True"
		}
		return "False"
	case []any:
		var list []string
		for _, x := range v {
			list = append(list, fmt.Sprint(x))
		}
		return "[" + strings.Join(list, ", ") + "]"
	default:
		return fmt.Sprint(v)
	}
}

// read makes arguments of all keys. Sections that are read later change what the earlier ones say.
func (b *bridge) read() error {
	if class := b.text("model._target_"); bridgeOthers.MatchString(class) {
		return fmt.Errorf("%s: model._target_ = %s: psim reads networks of Megatron-LM's GPT in this form; psim run "+
			"with --set model.file=config.json predicts others", b.label, class)
	}
	if b.keys["peft"] != nil {
		return fmt.Errorf("%s: peft = %v: psim trains a whole network in this form; remove it, and --set "+
			"train.adapter.kind says it", b.label, b.keys["peft"])
	}
	for _, section := range bridgeSections {
		for _, key := range slices.Sorted(maps.Keys(b.keys)) {
			if strings.HasPrefix(key, section+bridgeSeparator) {
				b.take(key)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(b.keys)) {
		switch section, _, inner := strings.Cut(key, bridgeSeparator); {
		case inner && slices.Contains(bridgeSections, section):
		case key == "mixed_precision":
		default:
			b.rest(key, section)
		}
	}
	return b.derive()
}

// take makes an argument of a key.
func (b *bridge) take(key string) {
	_, name, _ := strings.Cut(key, bridgeSeparator)
	row, known := bridgeTable()[key]
	p := megatron().byName[name]
	switch {
	case known && row.argument != "":
		p = megatron().byName[row.argument]
	case known, p == nil:
		b.rest(key, key)
		return
	}
	value := b.text(key)
	if value == "" {
		b.left.Idle++
		return
	}
	if kind, ok := bridgeTypes[value]; ok {
		value = kind
	}
	if b.values[p.name] = value; same(value, orNone(p.value)) {
		delete(b.given, p.name)
		b.left.Idle++
		return
	}
	b.given[p.name] = key
}

// rest says what a key without an argument may change.
func (b *bridge) rest(key, at string) {
	row, known := bridgeTable()[at]
	for !known && strings.Contains(at, bridgeSeparator) { // of a section inside a section, its row
		at = at[:strings.LastIndex(at, bridgeSeparator)]
		row, known = bridgeTable()[at]
	}
	off := b.keys[key] == nil || b.keys[key] == false || b.keys[key] == ""
	switch {
	case strings.HasSuffix(key, "_target_"), known && (row.effect == understood.EffectNone || off):
		b.left.Idle++
	case known && row.effect == understood.EffectMapped:
	case known:
		b.left.Leave(key+" = "+b.text(key), row.effect)
	default:
		b.left.Unknown++
		b.left.Leave(key, understood.UnknownReason)
	}
}

// give sets an argument.
func (b *bridge) give(name, value, from string) { b.values[name], b.given[name] = value, from }

// derive sets the arguments that several keys decide.
func (b *bridge) derive() error {
	if b.text("model.share_embeddings_and_output_weights") == "False" {
		b.give("untie_embeddings_and_output_weights", "True", "share_embeddings_and_output_weights")
	}
	gated := b.text("model.gated_linear_unit") == "True"
	switch function := strings.TrimPrefix(b.text("model.activation_func"), "_"); {
	case function == "silu" && gated:
		b.give("swiglu", "True", "activation_func")
	case function == "gelu" && gated, function == "gelu_tanh" && gated, function == "quick_gelu" && gated:
		b.give("quick_geglu", "True", "activation_func")
	case function == "squared_relu" && !gated:
		b.give("squared_relu", "True", "activation_func")
	case (function == "" || function == "gelu") && !gated:
	default:
		return fmt.Errorf("%s: model.activation_func = %s: psim knows gelu and squared_relu, and gated silu and gelu",
			b.label, function)
	}
	if err := b.stored(gated); err != nil {
		return err
	}
	b.offloaded()
	heads, groups := b.text("model.num_attention_heads"), b.text("model.num_query_groups")
	if groups != "" && groups != heads {
		b.give("group_query_attention", "True", "num_query_groups")
	}
	b.sums()
	if name := b.text("mixed_precision"); name != "" {
		settings, known := bridgePrecisions[name]
		if !known {
			return fmt.Errorf("%s: mixed_precision = %s: psim knows %s; write its keys as a section", b.label, name,
				strings.Join(slices.Sorted(maps.Keys(bridgePrecisions)), ", "))
		}
		for argument, value := range settings {
			b.give(argument, value, "mixed_precision")
		}
	}
	b.attention8()
	if n := b.text("model.virtual_pipeline_model_parallel_size"); n != "" {
		b.give("virtual_pipeline_model_parallel_size", n, "virtual_pipeline_model_parallel_size")
	}
	if list, ok := b.keys["model.pipeline_model_parallel_layout"].([]any); ok {
		b.give("pipeline_model_parallel_layout", bridgeLayout(list), "pipeline_model_parallel_layout")
	}
	if err := b.stages(); err != nil {
		return err
	}
	return b.vocabulary()
}

// stored takes that inputs of the activation function wait in 8 bits, which Megatron-LM has no flag for. The unfused
// function does not do it, and megatron-core refuses it for all but SwiGLU.
func (b *bridge) stored(gated bool) error {
	const key, argument = "model.activation_func_fp8_input_store", "activation_func_fp8_input_store"
	fused := b.text("model.bias_activation_fusion") != "False" || b.text("model.use_te_activation_func") == "True"
	switch {
	case b.text(key) != "True":
	case b.text("model.activation_func") != "silu" || !gated:
		return fmt.Errorf("%s: %s = True: it needs model.activation_func = silu and model.gated_linear_unit = true",
			b.label, key)
	case !fused:
		b.left.Leave(key+" = True", "no effect without model.bias_activation_fusion")
	default:
		b.give(argument, "True", key)
		if b.text("model.num_moe_experts") != "" {
			b.left.Leave(key+" = True", "inputs of experts' activation functions are kept in 16 bits")
		}
	}
	return nil
}

// attention8 takes that fused attention computes in 8 bits: what it keeps is priced, its products are not. Without
// products in 8 bits Transformer Engine ignores it.
func (b *bridge) attention8() {
	const argument = "fp8_dot_product_attention"
	for _, key := range []string{"mixed_precision." + argument, "model." + argument} {
		switch {
		case b.text(key) != "True":
		case b.values["fp8"] == "":
			b.left.Leave(key+" = True", "no effect without mixed_precision.fp8")
		default:
			b.give(argument, "True", key)
			b.left.Leave(key+" = True", "products of attention are priced in 16 bits")
		}
	}
}

// offloaded drops a number of blocks to offload where their activations stay on the device.
func (b *bridge) offloaded() {
	const blocks = "cpu_offloading_num_layers"
	if b.text("model.cpu_offloading") != "True" || b.text("model.cpu_offloading_activations") == "False" {
		if b.given[blocks] != "" {
			b.left.Leave(fmt.Sprintf("model.%s = %s", blocks, b.values[blocks]),
				"no effect without model.cpu_offloading and model.cpu_offloading_activations")
		}
		delete(b.values, blocks)
		delete(b.given, blocks)
	}
}

// sums sets what gradients are added up in.
func (b *bridge) sums() {
	for _, key := range []string{"ddp.grad_reduce_in_fp32", "mixed_precision.grad_reduce_in_fp32"} {
		switch b.text(key) {
		case "False":
			b.give("grad_reduce_in_bf16", "True", key)
		case "True":
			delete(b.values, "grad_reduce_in_bf16")
			b.give("accumulate_allreduce_grads_in_fp32", "True", key)
		}
	}
}

// stages refuses layers that do not divide into stages, as megatron-core does (get_num_layers_to_build).
func (b *bridge) stages() error {
	for _, name := range []string{
		"pipeline_model_parallel_layout", "decoder_first_pipeline_num_layers", "decoder_last_pipeline_num_layers",
		"account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split",
	} {
		if b.given[name] != "" {
			return nil
		}
	}
	layers, parts := b.integer("num_layers"), max(1, b.integer("pipeline_model_parallel_size"))*
		max(1, b.integer("virtual_pipeline_model_parallel_size"))
	if parts < understood.MostSize && layers%parts != 0 {
		return fmt.Errorf("%s: model.num_layers = %d: %d stages do not divide them, and megatron-core does not start; "+
			"write pipeline_model_parallel_layout", b.label, layers, parts)
	}
	return nil
}

// bridgeLayout writes a list of stages as Megatron-LM's flag takes it.
func bridgeLayout(list []any) string {
	letters := map[string]string{"embedding": "E", "decoder": "t", "mtp": "m", "loss": "L"}
	var parts []string
	for _, stage := range list {
		layers, _ := stage.([]any)
		part := ""
		for _, layer := range layers {
			letter, known := letters[fmt.Sprint(layer)]
			if !known {
				letter = "?"
			}
			part += letter
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "|")
}

// vocabulary sets how many words the table has, which Megatron-Bridge fills up only where it is told to.
func (b *bridge) vocabulary() error {
	const key, fill = "model.vocab_size", "model.should_pad_vocab"
	words := b.text(key)
	if words == "" || b.text(fill) == "True" {
		return nil
	}
	if n, err := strconv.Atoi(words); err != nil || n < 1 {
		return fmt.Errorf("%s: %s = %s: must be a whole number of at least 1", b.label, key, words)
	}
	b.give("padded_vocab_size", words, key)
	return nil
}
