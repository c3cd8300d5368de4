package keyed

import (
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"psim/launch/understood"
)

//go:embed mlperf.csv
var mlperfCSV string

// mlperfVersion names the rounds whose variables the table has.
const mlperfVersion = "rounds 4.1 to 5.1 (config_*.sh of NVIDIA's NeMo programs and AMD's port)"

// A submission is a config_*.sh of MLPerf Training: variables of bash by which NeMo trains a benchmark. Pretraining on
// NVIDIA's devices names groups in full, fine-tuning of Llama 2 70B by two letters, and pretraining on AMD's has names
// of its own for the batch, the nodes and the size.
type submission struct {
	*file
	devices, data int
}

// IsSubmission reports whether variables of a script are those of a config_*.sh.
func IsSubmission(variables map[string]string) bool {
	has := func(names ...string) bool {
		return !slices.ContainsFunc(names, func(name string) bool { _, ok := variables[name]; return !ok })
	}
	return has("MINIBS", "DGXNNODES") || has("GBS", "NNODES", "SIZE", "TP")
}

// Submission returns what reads the variables of a config_*.sh.
func Submission(variables map[string]string) func(
	understood.Input, []string, []understood.Input, understood.Options,
) (*understood.Import, error) {
	return func(
		f understood.Input, _ []string, _ []understood.Input, o understood.Options,
	) (*understood.Import, error) {
		file, err := begin("mlperf", mlperfVersion).open(f, mlperfCSV)
		if err != nil {
			return nil, err
		}
		for name, value := range variables {
			file.keys[name] = valueOf(value)
		}
		file.prefixes()
		k := &submission{file: file}
		k.benchmark()
		k.groups(o)
		k.training()
		if k.refused != nil {
			return nil, k.refused
		}
		k.rest()
		return k.Import, nil
	}
}

// valueOf reads the value of a variable: a number, a truth or a word.
func valueOf(text string) any {
	switch strings.ToLower(text) {
	case "true":
		return true
	case "false":
		return false
	case "null", "none", "":
		return nil
	}
	if n, err := strconv.Atoi(text); err == nil {
		return n
	}
	return text
}

// prefixes gives a variable the effect of the row that its name begins like.
func (k *file) prefixes() {
	for key := range k.keys {
		if _, known := k.effects[key]; known {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(k.effects)) { // a longer prefix comes later
			if prefix, many := strings.CutSuffix(name, "*"); many && strings.HasPrefix(key, prefix) {
				k.effects[key] = k.effects[name]
			}
		}
	}
}

// on reports whether a variable is true, or 1.
func (k *submission) on(key string) bool {
	return k.keys[key] == 1 || k.keys[key] != 0 && k.is(key)
}

// either returns the one of two names of a variable that has a value, the first if none has.
func (k *submission) either(long, short string) string {
	if k.keys[long] == nil && k.keys[short] != nil {
		return short
	}
	return long
}

// benchmark maps what is trained: by its size, by the names of variables, or by the folder of the file.
func (k *submission) benchmark() {
	label, from := strings.ToLower(k.label), k.label
	named := k.either("MODEL_SIZE", "SIZE")
	size := strings.ToLower(k.word(named, ""))
	preset, length := "", 8192
	switch {
	case size == "8b" || size == "405b":
		preset, from = "llama3-"+size, named
	case size != "":
		k.refuseKey(named, "psim knows 8b and 405b, of Llama 3.1")
	case strings.Contains(label, "llama31_8b"):
		preset = "llama3-8b"
	case strings.Contains(label, "lora") || k.keys["LORA_A2A"] != nil || k.keys["TENSOR_MODEL_PARALLEL"] == nil:
		k.adapter()
		return
	case strings.Contains(label, "gpt3"):
		preset, length = "megatron-175b", 2048
	case strings.Contains(label, "405b"):
		preset = "llama3-405b"
	default:
		k.refuseKey("MINIBS", "no variable says which benchmark it is for; name the file by its path in the "+
			"submission (.../benchmarks/gpt3/..., llama31_405b or llama2_70b_lora)")
		return
	}
	k.Set("model.preset", preset, from)
	k.Set("model.sequence_length", length, "the benchmark")
	if n := k.keys["OVERWRITTEN_NUM_LAYERS"]; n != nil && preset == "llama3-8b" && n != 32 {
		k.Set("model.layers", k.degree("OVERWRITTEN_NUM_LAYERS"), "OVERWRITTEN_NUM_LAYERS")
	}
}

// adapter maps the fine-tuning of Llama 2 70B, by the rules of its benchmark.
func (k *submission) adapter() {
	const rules = "the benchmark"
	k.Set("model.preset", "llama2-70b", rules)
	k.Set("model.sequence_length", 8192, rules)
	k.Set("train.adapter.kind", "lora", rules)
	k.Set("train.adapter.rank", k.degreeOr("LORA_RANK", 16), rules)
	k.Set("train.adapter.targets", []string{"q", "o"}, rules)
	k.Set("train.adapter.dropout", 0.1, rules)
	k.Set("train.gradients", "bf16", rules)
}

// groups maps the groups of devices.
func (k *submission) groups(o understood.Options) {
	tensor, context := k.either("TENSOR_MODEL_PARALLEL", "TP"), k.either("CONTEXT_PARALLEL", "CP")
	stages := k.either("PIPELINE_MODEL_PARALLEL", "PP")
	nodes, each := k.either("DGXNNODES", "NNODES"), k.either("DGXNGPU", "GPUS_PER_NODE")
	k.EachNode = k.degreeOr(each, 8)
	k.devices = product(k.degree(nodes), k.EachNode)
	group := product(k.degree(tensor), k.degree(context), k.degree(stages))
	switch {
	case k.devices >= understood.MostSize || k.devices%group != 0:
		k.refuseKey(nodes, fmt.Sprintf("%s × %s are %d devices, which groups of %d (%s × %s × %s) do not divide",
			nodes, each, k.devices, group, tensor, context, stages))
		return
	case o.Devices > 0 && o.Devices != k.devices:
		k.refuseKey(nodes, fmt.Sprintf("%s × %s are %d devices, and --devices says %d; leave --devices out", nodes,
			each, k.devices, o.Devices))
		return
	}
	k.data = k.devices / group
	k.Set("parallel.data", k.data, nodes, each, tensor, context, stages)
	if n := k.degree(tensor); n > 1 {
		sequence := k.either("SEQ_PARALLEL", "SP")
		k.Set("parallel.tensor", n, tensor)
		k.Set("parallel.sequence", k.keys[sequence] == nil || k.on(sequence), sequence)
		k.Set("parallel.tensor_overlap", k.on("TP_COMM_OVERLAP"), "TP_COMM_OVERLAP")
	}
	if n := k.degree(context); n > 1 {
		k.Set("parallel.context", n, context)
		if k.on("LORA_A2A") {
			k.Set("parallel.context_method", "ulysses", "LORA_A2A")
		}
	}
	k.order(stages)
	k.batch(nodes, each)
}

// order maps the order of the pipeline.
func (k *submission) order(stages string) {
	const turns = "INTERLEAVED_PIPELINE"
	n, virtual := k.degree(stages), k.whole(turns, 0)
	if n == 1 {
		k.Set("schedule.name", "ddp", stages)
		return
	}
	name := "1f1b"
	if virtual > 1 {
		name = "interleaved-1f1b"
		k.Set("schedule.virtual_stages", virtual, turns)
	}
	k.Set("schedule.name", name, stages, turns)
	k.Set("schedule.stages", n, stages)
	k.Set("schedule.partition", "blocks", "ASYM_PP_EMBED", "ASYM_PP_LOSS")
}

// batch maps the batch: MINIBS are the samples of a replica in a step, and GBS those of all.
func (k *submission) batch(from ...string) {
	micro := k.either("MICRO_BATCH_SIZE", "MBS")
	const whole, share = "GBS", "MINIBS"
	size, each, name := k.degree(micro), k.degree(share), share
	if n := k.degree(whole); k.keys[share] == nil {
		if each, name = n/k.data, whole; n%k.data != 0 {
			k.refuseKey(whole, fmt.Sprintf("must be a multiple of the %d replicas", k.data))
		}
	}
	switch {
	case product(each, k.data) >= understood.MostSize:
		k.refuseKey(name, "a step has too many samples")
	case each%size != 0:
		k.refuseKey(name, fmt.Sprintf("is %d samples of a replica, which %s = %d must divide", each, micro, size))
	default:
		k.Set("batch.micro", size, micro)
		k.Set("batch.global", each*k.data, append([]string{name}, from...)...)
	}
}

// training maps the program, precision, recomputation and sums of gradients.
func (k *submission) training() {
	k.Set("train.stack", "megatron-te")
	k.Set("train.optimizer", "adamw", "the benchmark")
	k.Set("train.clip", true, "the benchmark")
	k.precision()
	k.recompute()
	zero := 1
	if k.keys["USE_DIST_OPTIMIZER"] != nil && !k.on("USE_DIST_OPTIMIZER") {
		zero = 0
	}
	k.Set("parallel.zero", zero, "USE_DIST_OPTIMIZER")
	for name, key := range map[string]string{
		"OVERLAP_GRAD_REDUCE": "parallel.overlap", "OVERLAP_PARAM_GATHER": "parallel.overlap_gather",
	} {
		if k.keys[name] != nil && (zero > 0 || key == "parallel.overlap") {
			k.Set(key, k.on(name), name)
		}
	}
	if n := k.whole("CPU_OFFLOADING_NUM_LAYERS", 0); n > 0 && k.on("CPU_OFFLOADING") {
		k.Set("train.offload_activations", n, "CPU_OFFLOADING", "CPU_OFFLOADING_NUM_LAYERS")
	}
	if n := k.whole("BUCKET_CAP_MB", 0); n > 0 {
		k.Set("parallel.bucket", fmt.Sprintf("%dMiB", n), "BUCKET_CAP_MB")
	}
	slices.SortStableFunc(k.Mapped, func(a, b understood.Mapping) int { return cmp.Compare(a.To, b.To) })
}

// submittedRecipes are how products in 8 bits are scaled, in psim's words.
var submittedRecipes = map[string]string{
	"": "delayed", "delayed": "delayed", "tensorwise": "current", "blockwise": "blockwise", "mxfp8": "",
}

// precision maps the precision of products, and what blocks keep in 8 bits.
func (k *submission) precision() {
	recipe, known := submittedRecipes[strings.ToLower(k.word("FP8_RECIPE", ""))]
	switch {
	case k.on("FP4"):
		k.Set("train.precision", "nvfp4", "FP4")
	case !k.on("FP8"):
		k.Set("train.precision", "bf16", "FP8")
		if k.keys["FP8"] == nil {
			k.Leave("FP8", "is not set, here or in a file that is given: products in bf16 are taken")
		}
		return
	case !known:
		k.refuseKey("FP8_RECIPE", "psim knows "+strings.Join(slices.Sorted(maps.Keys(submittedRecipes))[1:], ", "))
	case recipe == "":
		k.Set("train.precision", "mxfp8", "FP8", "FP8_RECIPE")
	default:
		k.Set("train.precision", "fp8", "FP8")
		k.Set("train.fp8_recipe", recipe, "FP8_RECIPE")
	}
	var kept []string
	if k.on("FP8_ACT") || k.on("FP8_ACTIVATION") {
		kept = append(kept, "activation")
	}
	if k.on("FP8_DPA") && k.on("NVTE_FP8_DPA_BWD") {
		kept = append(kept, "attention")
		k.Leave("FP8_DPA", "attention runs in 8 bits: psim prices its products in 16")
	}
	if kept != nil {
		k.Set("train.keep_8bit", kept, "FP8_ACT", "FP8_ACTIVATION", "FP8_DPA", "NVTE_FP8_DPA_BWD")
	}
}

// recompute maps what the backward computes again.
func (k *submission) recompute() {
	switch kind := strings.ToLower(k.word("ACG", "")); kind {
	case "":
		k.Set("train.recompute", "none", "ACG")
	case "selective":
		k.Set("train.recompute", kind, "ACG")
	case "full":
		k.Set("train.recompute", kind, "ACG")
		if method := k.word("ACM", ""); method != "" {
			k.Set("train.recompute_method", method, "ACM")
			k.Set("train.recompute_layers", k.degree("ACL"), "ACL")
		}
	default:
		k.refuseKey("ACG", "must be full or selective")
	}
}
