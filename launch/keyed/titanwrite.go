package keyed

import (
	"encoding/csv"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"psim/launch/understood"
)

// TitanVersion is the version of torchtitan whose command lines are written.
const TitanVersion = "0.3.0"

// A keyWriter turns keys into those of another program: what reads them, the other way round.
type keyWriter struct {
	said    map[string]any
	flags   []string
	refused *understood.Unsayable // the first key that the program has no key for
}

// TitanCommand returns the flags with which torchtitan trains a network that its registry has, by keys of an Import,
// resolved. An error is an *understood.Unsayable.
func TitanCommand(preset string, said map[string]any) ([]string, error) {
	w := &keyWriter{said: said}
	config, precision := "", w.text("train.precision")
	rows, err := csv.NewReader(strings.NewReader(titanConfigsCSV)).ReadAll()
	if err != nil {
		return nil, err
	}
	narrow := map[string]string{"fp8": "float8", "mxfp8": "mx", "nvfp4": "nvfp4", "bf16": "", "fp32": ""}
	for _, row := range rows[1:] {
		_, converters, _ := strings.Cut(row[3], "model.converters=")
		converters, _, _ = strings.Cut(converters, " ")
		if row[1] == preset && preset != "" && converters == narrow[precision] {
			config = row[0]
		}
	}
	var presets []string
	for _, row := range rows[1:] {
		if row[1] != "" && !slices.Contains(presets, row[1]) {
			presets = append(presets, row[1])
		}
	}
	switch {
	case preset == "":
		return nil, &understood.Unsayable{Key: "model", Problem: "torchtitan trains the networks of its registry; " +
			"use model.preset = " + strings.Join(presets, ", ")}
	case config == "":
		return nil, &understood.Unsayable{Key: "model", Problem: fmt.Sprintf("torchtitan's registry has no %s in %s; "+
			"it has %s", preset, precision, strings.Join(presets, ", "))}
	}
	module := config[:strings.IndexByte(config, '_')]
	for _, known := range []string{"deepseek_v3", "gpt_oss"} {
		if strings.HasPrefix(config, known) {
			module = known
		}
	}
	w.flags = []string{"--module", module, "--config", config}
	w.put("training.disable_cuda_graphs", true)
	w.groups()
	w.pipeline()
	w.training(precision)
	if w.refused != nil {
		return nil, w.refused
	}
	return append(w.flags, "activation-checkpoint:"+w.text("train.recompute")), nil
}

// TitanCut returns how torchtitan cuts a network of its registry into stages; nil where psim does not know it.
func TitanCut(preset string, parts int) []int {
	rows, err := csv.NewReader(strings.NewReader(titanConfigsCSV)).ReadAll()
	if err != nil {
		return nil
	}
	for _, row := range rows[1:] {
		if blocks, _ := strconv.Atoi(row[2]); row[1] == preset && blocks >= parts {
			return cut(blocks, parts, 1, 1)
		}
	}
	return nil
}

// put writes a flag.
func (w *keyWriter) put(key string, value any) {
	switch value {
	case true:
		w.flags = append(w.flags, "--"+key)
	case false:
		section, name, _ := strings.Cut(key, ".")
		w.flags = append(w.flags, "--"+section+".no_"+name)
	default:
		w.flags = append(w.flags, "--"+key, fmt.Sprint(value))
	}
}

// refuse notes the first key that the program cannot follow.
func (w *keyWriter) refuse(key, problem string) {
	if w.refused == nil {
		w.refused = &understood.Unsayable{Key: key, Problem: problem}
	}
}

// text returns a key's value as a word; "" if it is not given.
func (w *keyWriter) text(key string) string {
	section, name, _ := strings.Cut(key, ".")
	table, _ := w.said[section].(map[string]any)
	if table[name] == nil {
		return ""
	}
	return fmt.Sprint(table[name])
}

// number returns a key's number; otherwise where it is not given.
func (w *keyWriter) number(key string, otherwise int) int {
	n, err := strconv.Atoi(w.text(key))
	if err != nil {
		return otherwise
	}
	return n
}

// groups writes the groups of devices.
func (w *keyWriter) groups() {
	const section = "parallelism."
	data, zero := w.number("parallel.data", 1), w.number("parallel.zero", 0)
	context, tensor := w.number("parallel.context", 1), w.number("parallel.tensor", 1)
	switch {
	case zero == 1:
		w.refuse("parallel.zero", "torchtitan has 0, 2 (fsdp_reshard_after_forward never) and 3 (always)")
	case zero == 0:
		if context > 1 && data > 1 {
			w.refuse("parallel.zero", "torchtitan divides parameters over a sequence's devices: 2 or 3")
		}
		w.put(section+"data_parallel_replicate_degree", data)
		w.put(section+"data_parallel_shard_degree", 1)
	default:
		group := data
		if zero == 3 {
			group = w.number("parallel.zero_group", data)
		}
		if copies := data / max(1, group); copies > 1 {
			w.put(section+"data_parallel_replicate_degree", copies)
		}
		w.put(section+"data_parallel_shard_degree", group)
		w.put(section+"fsdp_reshard_after_forward", map[int]string{2: "never", 3: "always"}[zero])
	}
	if zero > 1 && w.number("schedule.stages", 1) > 1 && w.text("parallel.sum_once") != "true" {
		w.refuse("parallel.sum_once", "PyTorch's pipelines sum gradients once a step; set sum_once = true")
	}
	w.put(section+"tensor_parallel_degree", tensor)
	if tensor > 1 {
		w.put(section+"enable_sequence_parallel", w.text("parallel.sequence") == "true")
		if w.text("parallel.tensor_overlap") == "true" {
			w.put("compile.enable_async_tensor_parallel", true)
		}
	}
	if context > 1 {
		w.put(section+"context_parallel_degree", context)
	}
	w.put(section+"expert_parallel_degree", w.number("parallel.expert", 1))
}

// pipeline writes the order and the batch. A step is one batch of a pipeline.
func (w *keyWriter) pipeline() {
	const section = "parallelism.pipeline_parallel_"
	micro, global := w.number("batch.micro", 1), w.number("batch.global", 1)
	stages, virtual := w.number("schedule.stages", 1), w.number("schedule.virtual_stages", 1)
	w.put("training.global_batch_size", global)
	if stages < 2 {
		w.put("training.local_batch_size", micro)
		return
	}
	order := ""
	for name, ours := range titanSchedules {
		if ours == w.text("schedule.name") {
			order = titanNames[name]
		}
	}
	if order == "" {
		w.refuse("schedule.name", "torchtitan takes schedules of PyTorch's: 1f1b, gpipe, interleaved-1f1b, "+
			"looped-bfs, interleaved-zero-bubble, zbv and dualpipev")
	}
	w.put("training.local_batch_size", global/max(1, w.number("parallel.data", 1)))
	w.put(section+"degree", stages)
	w.put(section+"schedule", order)
	w.put(section+"microbatch_size", micro)
	layers := w.number("model.layers", 0) + 2
	if each := (layers + stages*virtual - 1) / (stages * virtual); virtual != 2 &&
		!slices.Contains([]string{"1f1b", "gpipe"}, w.text("schedule.name")) {
		if (layers+each-1)/each != stages*virtual {
			w.refuse("schedule.virtual_stages", fmt.Sprintf("no number of layers a stage makes %d stages of %d "+
				"layers", stages*virtual, layers-2))
		}
		w.put(section+"layers_per_stage", each)
	}
}

// titanNames are PyTorch's names of schedules.
var titanNames = map[string]string{
	"1f1b": "1F1B", "gpipe": "GPipe", "interleaved1f1b": "Interleaved1F1B", "loopedbfs": "LoopedBFS",
	"interleavedzerobubble": "InterleavedZeroBubble", "zbvzerobubble": "ZBVZeroBubble", "dualpipev": "DualPipeV",
}

// training writes precision, optimizer, kernels and the length of a sample.
func (w *keyWriter) training(precision string) {
	w.put("training.seq_len", w.number("model.sequence_length", 1))
	kind := "bfloat16"
	if precision == "fp32" {
		kind = "float32"
	}
	w.put("training.mixed_precision_param", kind)
	if w.text("train.optimizer") != "adamw" {
		w.refuse("train.optimizer", "torchtitan's registry has adamw")
	}
	if w.text("train.moments") == "bf16" {
		w.put("optimizer.implementation", "fused_opt_states_bf16")
	}
	switch w.text("model.kernels") {
	case "compiled", "":
		w.put("compile.enable", true)
	case "eager":
		w.put("compile.enable", false)
	default:
		w.refuse("model.kernels", "torchtitan's are eager or compiled")
	}
	if r := w.text("train.recompute"); !slices.Contains([]string{"none", "selective", "full"}, r) {
		w.refuse("train.recompute", "torchtitan knows none, selective and full")
	}
}
