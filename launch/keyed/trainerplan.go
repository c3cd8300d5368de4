package keyed

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"psim/launch/understood"
)

// group returns where the size of a group of devices is named: in accelerate's file, or in the arguments.
func (t *trainer) group(name string) option {
	const section = "parallelism_config."
	if key := section + section[:len(section)-1] + "_" + name; t.launcher.keys[key] != nil {
		return option{t.launcher, key}
	}
	return option{t.arguments, section + name}
}

// size returns the size of a group, at least 1.
func (o option) size() int { return o.degree(o.key) }

// world maps the number of devices.
func (t *trainer) world(o understood.Options) {
	const processes, machines = "num_processes", "num_machines"
	t.devices = o.Devices
	n := t.launcher.whole(processes, 0)
	if t.launcher.keys[processes] != nil && n < 1 {
		t.launcher.refuseKey(processes, "must be at least 1")
	}
	if t.launcher.kind() == "NO" {
		if n > 1 {
			t.launcher.aside(processes, "distributed_type is NO: one device trains")
		}
		n = 1
	}
	switch {
	case n > 0 && o.Devices > 0 && n != o.Devices:
		t.launcher.refuseKey(processes, fmt.Sprintf("--devices says %d; leave --devices out", o.Devices))
	case n > 0:
		t.devices = n
	case o.Devices == 0:
		t.devices = 1
		t.Ask("parallel.data", "the launcher decides how many devices there are: one is assumed; --devices N says it")
	}
	if t.launcher.keys[machines] != nil {
		t.nodes = t.launcher.degree(machines)
	} else if n := cmp.Or(o.DevicesPerNode, o.LaunchedEach); n > 0 && t.devices%n == 0 {
		t.nodes = t.devices / n
	}
	switch n := max(1, t.nodes); {
	case t.devices%n != 0:
		t.launcher.refuseKey(machines, fmt.Sprintf("does not divide the %d devices", t.devices))
	case o.DevicesPerNode > 0 && n*o.DevicesPerNode != t.devices && t.devices > o.DevicesPerNode:
		t.launcher.refuseKey(machines, fmt.Sprintf("%d devices are %d on a node, and --devices-per-node says %d",
			t.devices, t.devices/n, o.DevicesPerNode))
	case n > 1:
		t.EachNode = t.devices / n
	default:
		t.EachNode = o.LaunchedEach
	}
}

// groups maps the groups of devices, and the batch.
func (t *trainer) groups() {
	tensor, context, sequence := t.group("tp_size"), t.group("cp_size"), t.group("sp_size")
	copies, shards := t.group("dp_replicate_size"), t.group("dp_shard_size")
	if context.size() > 1 && sequence.size() > 1 {
		sequence.refuseKey(sequence.key, "goes not with "+context.key+"; remove one of them")
	}
	parts := product(context.size(), sequence.size())
	group := product(tensor.size(), parts)
	t.data = max(1, t.devices/group)
	if said := product(copies.size(), shards.size()); t.devices%group != 0 || said > 1 && said != t.data {
		given := []option{tensor, context, sequence, copies, shards}
		first := given[max(0, slices.IndexFunc(given, func(o option) bool { return o.keys[o.key] != nil }))]
		first.refuseKey(first.key, fmt.Sprintf("tensor %d × context %d × replicate %d × shard %d are not the %d "+
			"devices; --devices N says how many there are", tensor.size(), parts, copies.size(), shards.size(),
			t.devices))
	}
	if tensor.size() > 1 {
		t.Set("parallel.tensor", tensor.size(), tensor.key)
	}
	if parts > 1 {
		method, from := "ulysses", sequence.key
		if context.size() > 1 {
			method, from = t.rotation(), context.key
		}
		t.Set("parallel.context", parts, from)
		t.Set("parallel.context_method", method, from)
	}
	if copies.size() > 1 && shards.size() > 1 {
		t.sharing, t.sharedBy = shards.size(), copies
	}
	t.Set("schedule.name", "ddp")
	t.batch(shards.key)
}

// kind returns accelerate's distributed_type; "" if no file of its is given.
func (k *file) kind() string {
	const key = "distributed_type"
	word := strings.ToUpper(k.word(key, ""))
	switch word {
	case "", "MULTI_GPU", "FSDP", "DEEPSPEED", "NO":
	case "FALSE": // of YAML's NO without quotes
		return "NO"
	case "MEGATRON_LM":
		k.refuseKey(key, "name Megatron-LM's log, which prints its arguments")
	default:
		k.refuseKey(key, "psim knows NO, MULTI_GPU, FSDP and DEEPSPEED")
	}
	return word
}

// rotation returns how parts of a sequence attend to each other.
func (t *trainer) rotation() string {
	const key = "parallelism_config.parallelism_config_cp_comm_strategy"
	method := titanRotations[t.launcher.word(key, "allgather")]
	if method == "" {
		t.launcher.refuseKey(key, "must be allgather or alltoall")
	}
	return method
}

// batch maps the batch.
func (t *trainer) batch(from string) {
	if t.engine != nil {
		o := understood.Options{Devices: t.data * t.engine.tensorGroup()}
		t.engine.deepspeedBatch(o)
		return
	}
	micro, rounds := t.sizes()
	if len(t.arguments.keys) == 0 {
		micro = 1
		t.Ask("batch.micro", "the script decides: 1 is assumed; --set batch.micro=N says it, and --set batch.global=N "+
			"how many samples a step has")
	}
	const size, steps = "per_device_train_batch_size", "gradient_accumulation_steps"
	if product(micro, rounds, t.data) >= understood.MostSize {
		t.arguments.refuseKey(size, "a step has too many samples")
		return
	}
	t.Set("parallel.data", t.data, "num_processes", from)
	t.Set("batch.micro", micro, size)
	t.Set("batch.global", micro*rounds*t.data, size, steps)
}

// An option of FSDP has a name in accelerate's file and one in the arguments.
type option struct {
	*file
	key string
}

// option returns an option of FSDP: of the arguments if these turn FSDP on, else of accelerate's file.
func (t *trainer) option(name string) option {
	const section = "fsdp_config."
	if t.inArguments() {
		if key := section + "fsdp_" + name; t.arguments.keys[key] != nil {
			return option{t.arguments, key}
		}
		return option{t.arguments, section + name}
	}
	return option{t.launcher, section + "fsdp_" + name}
}

// inArguments reports whether the arguments turn FSDP on.
func (t *trainer) inArguments() bool {
	value := t.arguments.keys["fsdp"]
	return value != nil && value != false && value != "" && fmt.Sprint(value) != "[]"
}

// on reports whether an option is on, in any of the words of YAML.
func (o option) on(otherwise bool) bool {
	word := strings.ToLower(o.word(o.key, fmt.Sprint(otherwise)))
	switch {
	case slices.Contains([]string{"true", "yes", "y", "t", "on", "1"}, word):
		return true
	case !slices.Contains([]string{"false", "no", "n", "f", "off", "0"}, word):
		o.refuseKey(o.key, "must be true or false")
	}
	return false
}

// shards maps what replicas divide: by DeepSpeed, by FSDP, or nothing.
func (t *trainer) shards() {
	if t.engine == nil {
		t.Only = map[string][]string{"parallel.zero": {"0", "2", "3"}}
	}
	switch {
	case t.engine != nil:
		t.engine.deepspeedShards()
	case t.inArguments() || t.launcher.kind() == "FSDP":
		t.fsdp()
	default:
		const bucket, backend = "ddp_bucket_cap_mb", "ddp_backend"
		t.Set("parallel.zero", 0)
		if n := t.arguments.whole(bucket, 0); n > 0 {
			t.Set("parallel.bucket", fmt.Sprintf("%dMiB", n), bucket)
		}
		switch name := t.arguments.word(backend, "nccl"); name {
		case "nccl", "gloo":
			t.Set("parallel.collectives", name, backend)
		default:
			t.arguments.refuseKey(backend, "psim knows nccl and gloo")
		}
	}
}

// fsdp maps FSDP.
func (t *trainer) fsdp() {
	version := 1
	if t.inArguments() {
		version = 2
	}
	if o := t.option("version"); o.keys[o.key] != nil {
		if version = o.whole(o.key, version); version != 1 && version != 2 {
			o.refuseKey(o.key, "must be 1 or 2")
		}
	}
	how := t.option("reshard_after_forward")
	if old := t.option("sharding_strategy"); how.keys[how.key] == nil && old.keys[old.key] != nil {
		how = old
	}
	word := strings.ToLower(how.word(how.key, "full_shard"))
	if old := t.oldShards(); old != "" && how.keys[how.key] == nil {
		how, word = option{t.arguments, "fsdp"}, old
	}
	zero, known := trainerShards[word]
	if !known {
		how.refuseKey(how.key, "psim knows FULL_SHARD, SHARD_GRAD_OP, NO_SHARD and HYBRID_SHARD, true and false")
	}
	if hybrid := strings.HasPrefix(word, "hybrid") || word == "4" || word == "5"; hybrid && t.sharing == 0 {
		t.sharing, t.sharedBy = t.data/max(1, t.nodes), how
	}
	if t.data == 1 {
		zero = 0 // one device has nothing to divide
	}
	t.Set("parallel.zero", zero, how.key)
	t.sharedWithin(zero)
	_, rounds := t.sizes()
	if zero == 3 {
		t.Set("memory.fp32_shards", t.precision() != "fp32" && !t.adapts(), "bf16", "fp16")
		if version == 2 {
			t.Set("parallel.gather", "copied", "fsdp_version")
		}
		if rounds > 1 {
			t.Set("parallel.sum_once", true, "gradient_accumulation_steps")
		}
	}
	if zero == 2 {
		t.Set("parallel.overlap_gather", true, how.key)
	}
	if wrap := t.option("auto_wrap_policy"); strings.ToUpper(wrap.word(wrap.key, wrapBlocks)) != wrapBlocks {
		wrap.aside(wrap.key, "psim gathers every block by itself")
	}
}

// sharedWithin maps groups of hybrid sharding.
func (t *trainer) sharedWithin(zero int) {
	switch {
	case t.sharing == 0 || t.data == 1:
	case t.sharing == t.data:
		if t.nodes == 0 {
			t.sharedBy.aside(t.sharedBy.key, "no file says how many devices a node has: --devices-per-node N")
		}
	case zero == 3 && t.sharing > 1 && t.data%t.sharing == 0:
		t.Set("parallel.zero_group", t.sharing, t.sharedBy.key)
	default:
		t.sharedBy.aside(t.sharedBy.key, "psim divides over all replicas, not within groups")
	}
}

// oldShards returns what replicas divide by the words of the argument fsdp, or "".
func (t *trainer) oldShards() (word string) {
	const key = "fsdp"
	if !t.inArguments() {
		return ""
	}
	for _, item := range strings.FieldsFunc(strings.ToLower(fmt.Sprint(t.arguments.keys[key])), isSeparator) {
		_, known := trainerShards[item]
		switch {
		case item == "true" || item == "auto_wrap":
		case item == "offload":
			t.arguments.aside(key, "not priced: parameters come from the host and the update runs there; a step takes "+
				"longer and a GPU holds less")
		case known && strings.Contains(item, "shard"):
			word = item
		default:
			t.arguments.refuseKey(key, "psim knows full_shard, shard_grad_op, hybrid_shard, hybrid_shard_zero2, "+
				"no_shard, auto_wrap and offload")
		}
	}
	return word
}

// wrapBlocks is the policy by which every block is gathered by itself.
const wrapBlocks = "TRANSFORMER_BASED_WRAP"

func isSeparator(r rune) bool { return strings.ContainsRune(" ,[]", r) }
