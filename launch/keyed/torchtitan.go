package keyed

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"psim/internal/units"
	"psim/launch/understood"
)

//go:embed torchtitan.csv
var titanCSV string

// titanVersion is the last line of torchtitan's versions that are configured by TOML.
const titanVersion = "0.2.2 and 0.1 (torchtitan/config/job_config.py)"

// What psim calls torchtitan's values.
var (
	titanNetworks = map[string]string{
		"llama3 8B": "llama3-8b", "llama3 70B": "llama3-70b", "llama3 405B": "llama3-405b",
		"deepseek_v3 671B": "deepseek-v3", "qwen3 30B-A3B": "qwen3-30b-a3b", "qwen3 235B-A22B": "qwen3-235b-a22b",
	}
	titanSchedules = map[string]string{
		"1f1b": "1f1b", "gpipe": "gpipe", "interleaved1f1b": "interleaved-1f1b", "loopedbfs": "looped-bfs",
		"interleavedzerobubble": "interleaved-zero-bubble", "zbvzerobubble": "zbv", "dualpipev": "dualpipev",
	}
	titanLayers     = map[string]int{"llama3 8B": 32, "llama3 70B": 80, "llama3 405B": 126}
	titanRotations  = map[string]string{"allgather": "all-gather", "alltoall": "ring"}
	titanOptimizers = map[string]string{"AdamW": "adamw", "Adam": "adam"}
	titanKernels    = regexp.MustCompile(`_(flex|varlen)(_attn)?$`) // of attention, at the end of a flavor
	titanSections   = regexp.MustCompile(`(?m)^\s*\[(parallelism|activation_checkpoint|lr_scheduler|job)\]`)
)

// isTitan reports whether data is a configuration of torchtitan: TOML with its sections, or JSON as its log prints it.
func isTitan(data []byte) bool {
	if table := object(data); table != nil {
		return table["parallelism"] != nil && table["training"] != nil && table["activation_checkpoint"] != nil
	}
	return titanSections.Match(data) && regexp.MustCompile(`(?m)^\s*\[(training|model)\]`).Match(data)
}

// titanTable reads TOML.
func titanTable(f understood.Input) (table map[string]any, err error) {
	if err := toml.Unmarshal(f.Data, &table); err != nil {
		return nil, fmt.Errorf("%s: is not TOML: %s", f.Label, strings.TrimPrefix(err.Error(), "toml: "))
	}
	return table, nil
}

// readTitan reads a configuration of torchtitan.
func readTitan(f understood.Input, files []understood.Input, o understood.Options) (*understood.Import, error) {
	if len(f.Data) > understood.MostScript {
		return nil, fmt.Errorf("%s: has %d kB; no configuration of torchtitan is as long", f.Label, len(f.Data)>>10)
	}
	file, err := begin("torchtitan", titanVersion).open(f, titanCSV)
	if err != nil {
		return nil, err
	}
	k := &titan{file: file}
	if err := k.decode(f); err != nil {
		return nil, err
	}
	k.sections()
	flavor := titanKernels.ReplaceAllString(k.word("model.flavor", "debugmodel"), "")
	name := k.word("model.name", "llama3") + " " + flavor
	k.config, k.preset, k.layers = name, titanNetworks[name], titanLayers[name]
	return k.read(files, o)
}

// A titan is a run of torchtitan.
type titan struct {
	*file
	config, preset string // what the network is called, there and here
	layers         int    // blocks of the network; 0 where they are not known
	graphs         bool   // of version 0.3, which launches kernels by graphs
}

// read makes a configuration of keys.
func (k *titan) read(files []understood.Input, o understood.Options) (*understood.Import, error) {
	k.titanNetwork(files)
	k.titanGroups(o)
	k.titanTraining()
	k.titanRecomputation()
	if k.graphs {
		k.newer(k.degree("parallelism.pipeline_parallel_degree"))
	}
	if k.refused != nil {
		return nil, k.refused
	}
	k.rest()
	return k.Import, nil
}

// titanNetwork maps the network.
func (k *titan) titanNetwork(files []understood.Input) {
	if k.network(files) {
		k.layers = 0
		for _, f := range files {
			if n, ok := object(f.Data)["num_hidden_layers"].(float64); ok && n < 1e4 &&
				object(f.Data)["num_nextn_predict_layers"] == nil {
				k.layers = int(n)
			}
		}
	} else {
		if k.preset == "" {
			key := "model.flavor"
			if k.graphs {
				key = "config"
			}
			k.refuseKey(key, "psim does not know the sizes of "+k.config+"; name its config.json as well")
		}
		k.Set("model.preset", k.preset, "model.name", "model.flavor", "config")
	}
	k.Set("model.sequence_length", k.degreeOr("training.seq_len", 2048), "training.seq_len")
	k.Set("model.attention", "flash", "model.flavor")
	parts := k.word("compile.components", "model")
	if !strings.Contains(parts, "model") || !k.is("compile.enable") && !k.is("training.compile") {
		k.Set("model.kernels", "eager", "compile.enable", "compile.components")
	}
}

// degreeOr does what degree does, for a key whose default is another.
func (k *file) degreeOr(key string, otherwise int) int {
	if k.keys[key] == nil {
		return otherwise
	}
	return k.degree(key)
}

// titanGroups maps the groups of devices and the batch.
func (k *titan) titanGroups(o understood.Options) {
	const section = "parallelism."
	tensor, stages := k.degree(section+"tensor_parallel_degree"), k.degree(section+"pipeline_parallel_degree")
	context, copies := k.degree(section+"context_parallel_degree"), k.degree(section+"data_parallel_replicate_degree")
	shards := k.whole(section+"data_parallel_shard_degree", -1)
	group := product(tensor, stages, context, copies)
	switch {
	case shards < 1 && shards != -1 || shards == 0:
		k.refuseKey(section+"data_parallel_shard_degree", "must be at least 1, or -1 for all devices that are left")
		return
	case shards == -1 && o.Devices == 0:
		shards = 1
		k.Ask("parallel.data", fmt.Sprintf("the file leaves the number of shards to the number of devices: %s "+
			"assumed, the least; --devices N says it", are(group)))
	case shards == -1:
		shards = max(1, o.Devices/group)
	}
	if n := product(group, shards); n >= understood.MostSize || o.Devices > 0 && o.Devices != n {
		k.refuseKey(section+"data_parallel_shard_degree", fmt.Sprintf("tensor %d × pipeline %d × context %d × "+
			"replicate %d × shard %d are %d devices, and --devices says %d", tensor, stages, context, copies, shards, n,
			o.Devices))
		return
	}
	k.Set("parallel.data", copies*shards, section+"data_parallel_replicate_degree",
		section+"data_parallel_shard_degree")
	if tensor > 1 {
		k.Set("parallel.tensor", tensor, section+"tensor_parallel_degree")
		sequence := section + "enable_sequence_parallel"
		on := k.keys[sequence] == nil || k.is(sequence)
		k.Set("parallel.sequence", on, section+"tensor_parallel_degree", sequence)
		async := section + "enable_async_tensor_parallel"
		if k.graphs {
			async = "compile.enable_async_tensor_parallel"
		}
		k.Set("parallel.tensor_overlap", k.is(async), async)
	}
	if context > 1 {
		k.Set("parallel.context", context, section+"context_parallel_degree")
		method := titanRotations[k.word(section+"context_parallel_rotate_method", "allgather")]
		if method == "" {
			k.refuseKey(section+"context_parallel_rotate_method", "must be allgather or alltoall")
		}
		k.Set("parallel.context_method", method, section+"context_parallel_rotate_method")
	}
	k.titanExperts()
	k.titanShards(stages, context, copies, shards)
	k.titanPipeline(stages, copies*shards)
}

// are counts devices as a subject.
func are(devices int) string {
	if devices == 1 {
		return "1 device is"
	}
	return units.Plural(devices, "device") + " are"
}

// titanExperts maps the groups that share experts.
func (k *titan) titanExperts() {
	const section = "parallelism."
	if n := k.degree(section + "expert_parallel_degree"); n > 1 {
		k.Set("parallel.expert", n, section+"expert_parallel_degree")
		k.Set("parallel.expert_tensor", k.degree(section+"expert_tensor_parallel_degree"),
			section+"expert_tensor_parallel_degree")
		if backend := section + "expert_parallel_comm_backend"; k.word(backend, "standard") == "deepep" {
			k.Set("parallel.dispatcher", "deepep", backend)
		}
	}
}

// titanShards maps what replicas divide: parameters, which stay gathered after the forward of a pipeline.
func (k *titan) titanShards(stages, context, copies, shards int) {
	const key = "parallelism.fsdp_reshard_after_forward"
	zero := 0
	if shards*context > 1 {
		zero = 3
		switch k.word(key, "default") {
		case "default":
			if stages > 1 {
				zero = 2
			}
		case "never":
			zero = 2
		case "always":
		default:
			k.refuseKey(key, "must be default, always or never")
		}
		const replicate = "parallelism.data_parallel_replicate_degree"
		switch {
		case copies > 1 && zero == 3:
			k.Set("parallel.zero_group", shards, replicate)
		case copies > 1:
			k.aside(replicate, "psim divides gradients over all replicas, not within groups")
		}
	}
	k.Set("parallel.zero", zero, "parallelism.data_parallel_shard_degree", key)
	if stages > 1 && zero > 1 { // torch/distributed/pipelining/stage.py, backward_maybe_with_nosync
		k.Set("parallel.sum_once", true, "parallelism.pipeline_parallel_degree")
	}
}

// titanPipeline maps the order and the batch.
func (k *titan) titanPipeline(stages, replicas int) {
	const section = "parallelism."
	local := k.degreeOr("training.local_batch_size", 8)
	micro := local
	global := k.whole("training.global_batch_size", -1)
	if global < 1 {
		global = product(local, replicas)
	}
	if stages > 1 {
		micro = k.degree(section + "pipeline_parallel_microbatch_size")
		name := titanSchedules[strings.ToLower(k.word(section+"pipeline_parallel_schedule", "1F1B"))]
		if name == "" {
			k.refuseKey(section+"pipeline_parallel_schedule", "psim does not know this schedule of PyTorch's")
		}
		k.Set("schedule.name", name, section+"pipeline_parallel_schedule")
		k.Set("schedule.stages", stages, section+"pipeline_parallel_degree")
		k.titanCut(stages, name)
	} else {
		k.Set("schedule.name", "ddp", section+"pipeline_parallel_degree")
	}
	if global%product(micro, replicas) != 0 {
		k.refuseKey("training.global_batch_size", fmt.Sprintf("%d samples are not a multiple of %d in a microbatch "+
			"× %d replicas", global, micro, replicas))
	}
	k.Set("batch.micro", micro, "training.local_batch_size", section+"pipeline_parallel_microbatch_size")
	k.Set("batch.global", global, "training.global_batch_size", "training.local_batch_size")
}

// titanCut maps where stages begin: the embedding and the head count as layers.
func (k *titan) titanCut(stages int, name string) {
	const section = "parallelism.pipeline_parallel_"
	const each, fewer, least = section + "layers_per_stage", section + "first_stage_less_layers",
		section + "last_stage_less_layers"
	first, last := k.whole(fewer, 1), k.whole(least, 1)
	if first < 0 || last < 0 {
		k.refuseKey(fewer, "must be at least 0, as must "+least)
		return
	}
	chunks := 1
	if !slices.Contains([]string{"1f1b", "gpipe"}, name) {
		chunks = 2
	}
	layers := k.layers + first + last
	if n := k.whole(each, 0); n > 0 && k.layers > 0 {
		parts := (layers + n - 1) / n
		if parts%stages != 0 {
			k.refuseKey(each, fmt.Sprintf("%d layers, with those that count as one, are %d stages, which %d ranks "+
				"do not divide", layers, parts, stages))
		}
		chunks = max(1, parts/stages)
	} else if n > 0 {
		k.aside(each, "--set schedule.virtual_stages=N says how many stages a rank has")
	}
	if chunks > 1 {
		k.Set("schedule.virtual_stages", chunks, section+"schedule", each)
	}
	parts := stages * chunks
	if k.layers == 0 || layers/parts < max(first, last, 1) {
		if k.layers > 0 {
			k.refuseKey(section+"degree", fmt.Sprintf("%d stages are too many for %d layers", parts, layers))
		}
		return
	}
	k.Set("schedule.partition", cut(k.layers, parts, first, last), section+"degree", fewer, least)
}

// cut returns the layers of every stage where the embedding counts as first blocks, and the head as last.
func cut(blocks, parts, first, last int) []int {
	layers := blocks + first + last
	list := make([]int, parts)
	for i := range list {
		if list[i] = layers / parts; i < layers%parts {
			list[i]++
		}
	}
	list[0] += 1 - first      // the embedding
	list[parts-1] += 2 - last // the last norm and the head
	return list
}

// titanTraining maps precision, optimizer and recomputation.
func (k *titan) titanTraining() {
	k.Set("train.stack", "torchtitan")
	precision := "bf16"
	converters := fmt.Sprint(k.keys["model.converters"])
	switch {
	case strings.Contains(converters, "nvfp4"):
		precision = "nvfp4"
		k.Set("train.bf16_last", k.whole("nvfp4.bf16_tail", 0), "config")
	case strings.Contains(converters, "mx"):
		precision = "mxfp8"
	case strings.Contains(converters, "float8"):
		precision = "fp8"
		k.titanFloat8()
	case k.word("training.mixed_precision_param", "bfloat16") == "float32":
		precision = "fp32"
	}
	k.Set("train.precision", precision, "training.mixed_precision_param", "model.converters")
	if precision != "fp32" {
		k.Set("train.gradients", "fp32", "training.mixed_precision_reduce")
	}
	if k.word("training.dtype", "float32") != "float32" {
		k.aside("training.dtype", "psim keeps fp32 weights as well")
	}
	optimizer := titanOptimizers[k.word("optimizer.name", "AdamW")]
	if optimizer == "" {
		k.refuseKey("optimizer.name", "psim knows AdamW and Adam")
	}
	k.Set("train.optimizer", optimizer, "optimizer.name")
	if k.is("optimizer.early_step_in_backward") {
		k.Set("train.update_in", "backward", "optimizer.early_step_in_backward")
	}
	if name := k.word("optimizer.implementation", "fused"); !strings.HasPrefix(name, "fused") {
		k.aside("optimizer.implementation", "psim's update is one kernel")
	}
	k.Set("train.clip", true, "training.max_norm") // torchtitan asks for the norm whatever it is
	if k.real("training.max_norm", 1) <= 0 {
		k.aside("training.max_norm", "PyTorch then multiplies all gradients by it: nothing is trained")
	}
}

// titanFloat8 maps how products of 8 bits are scaled. Its keys were in a section of their own before 0.2.
func (k *titan) titanFloat8() {
	const former, section = "float8.", "quantize.linear.float8."
	named := func(key string) string {
		if k.keys[former+key] != nil {
			return former + key
		}
		return section + key
	}
	how, gather := named("recipe_name"), named("enable_fsdp_float8_all_gather")
	if recipe := k.word(how, "tensorwise"); recipe != "tensorwise" {
		k.aside(how, "psim scales whole tensors")
	}
	k.Set("train.fp8_recipe", "current", how)
	weights := "16-bit"
	if k.is(gather) {
		weights = "8-bit"
	}
	k.Set("train.weights", weights, gather)
}

// titanRecomputation maps what the backward computes again.
func (k *titan) titanRecomputation() {
	const mode, option = "activation_checkpoint.mode", "activation_checkpoint.selective_ac_option"
	switch how := k.word(mode, "selective"); {
	case how == "none" || how == "full":
		k.Set("train.recompute", how, mode)
	case how == "selective" && k.word(option, "2") == "op":
		k.Set("train.recompute", "selective", mode, option)
	case how == "selective":
		k.Set("train.recompute", "selective", mode, option)
		k.aside(option, "it repeats every n-th block; psim takes option op")
	default:
		k.refuseKey(mode, "psim knows none, selective and full")
	}
}
