package keyed

import (
	"bytes"
	_ "embed"
	"fmt"
	"path"
	"slices"
	"strings"

	"psim/launch/understood"
)

// Keys of transformers' TrainingArguments, and of trl's SFTConfig and ModelConfig and transformers' run_clm.py besides;
// keys of accelerate's file.
var (
	//go:embed trainer.csv
	trainerCSV string
	//go:embed accelerate.csv
	accelerateCSV string
)

// trainerVersion names the versions whose keys the two tables have.
const trainerVersion = "transformers 5.23 and 4.57, trl 1.16, accelerate 1.15"

// manyKernels is AdamW with a kernel for each of its steps over all tensors.
const manyKernels = "adamw_torch"

// What psim calls the Trainer's values.
var (
	trainerOptimizers = map[string]string{
		manyKernels: "adamw", "adamw_torch_fused": "adamw", "adamw_hf": "adamw", "adamw_apex_fused": "adamw",
		"adamw_bnb_8bit": "adamw-8bit", "adamw_8bit": "adamw-8bit", "adamw_torch_8bit": "adamw-8bit",
		"paged_adamw_8bit": "paged-adamw-8bit", "adafactor": "adafactor", "lion_32bit": "lion", "sgd": "sgd",
	}
	trainerShards = map[string]int{
		"full_shard": 3, "1": 3, "true": 3, "shard_grad_op": 2, "2": 2, "false": 2, "no_shard": 0, "3": 0,
		"hybrid_shard": 3, "4": 3, "hybrid_shard_zero2": 2, "5": 2,
	}
	trainerAttention = map[string]string{
		"eager": "unfused", "sdpa": "flash", "flash_attention_2": "flash", "flash_attention_3": "flash",
		"flex_attention": "flash",
	}
)

// Keys that only files of these programs have.
var (
	trainerKeys = []string{
		"per_device_train_batch_size", "num_train_epochs", "gradient_checkpointing", "per_device_eval_batch_size",
		"lr_scheduler_type", "output_dir",
	}
	accelerateKeys = []string{"distributed_type"}
	trlKeys        = []string{
		"max_length", "max_seq_length", "packing", "dataset_text_field", "assistant_only_loss", "use_peft", "lora_r",
	}
)

// isTrainer reports whether data has TrainingArguments, and isAccelerate whether it is what accelerate config writes.
func isTrainer(data []byte) bool    { return has(data, trainerKeys) && !isAccelerate(data) }
func isAccelerate(data []byte) bool { return has(data, accelerateKeys) }

// has reports whether data is an object in JSON or YAML with one of some keys.
func has(data []byte, keys []string) bool {
	in := func(key string) bool { return bytes.Contains(data, []byte(key)) }
	if len(data) > understood.MostScript || !slices.ContainsFunc(keys, in) {
		return false
	}
	table, err := decoded(data)
	given := func(key string) bool { _, ok := table[key]; return ok }
	return err == nil && slices.ContainsFunc(keys, given)
}

// A trainer is a run of transformers' Trainer. A file that is not given has no keys.
type trainer struct {
	*reading
	files     []understood.Input
	arguments *file // TrainingArguments
	launcher  *file // accelerate's
	engine    *file // DeepSpeed's; nil where it does not run
	devices   int
	data      int // replicas
	nodes     int // 0 if nothing says it
	trl       bool
	bits      string // the precision
	sharing   int    // replicas of a group of hybrid sharding; 0: no groups
	sharedBy  option // which says that
}

// readTrainer reads TrainingArguments, accelerate's file, or both, with a configuration of DeepSpeed where they name
// one, and the config.json of the network.
func readTrainer(f understood.Input, files []understood.Input, o understood.Options) (*understood.Import, error) {
	t := &trainer{reading: begin("trainer", trainerVersion), files: files}
	var err error
	if t.arguments, err = t.part(isTrainer, trainerCSV); err != nil {
		return nil, err
	}
	if t.launcher, err = t.part(isAccelerate, accelerateCSV); err != nil {
		return nil, err
	}
	first := t.arguments
	if len(first.keys) == 0 {
		first = t.launcher
	}
	if first.keys["base_model"] != nil {
		return nil, fmt.Errorf("%s: base_model = %s: is a key of axolotl's, which psim does not read; write "+
			"TrainingArguments, with per_device_train_batch_size for micro_batch_size", f.Label,
			shown(first.keys["base_model"]))
	}
	if !first.network(files) {
		return nil, fmt.Errorf("%s: does not say what is trained; name the network's config.json as well", f.Label)
	}
	t.trl = slices.ContainsFunc(trlKeys, func(key string) bool { return t.arguments.keys[key] != nil })
	if t.engine, err = t.deepspeed(); err != nil {
		return nil, err
	}
	if t.engine != nil && (t.inArguments() || t.launcher.kind() == "FSDP") {
		by := option{t.launcher, "distributed_type"}
		if t.inArguments() {
			by = option{t.arguments, "fsdp"}
		}
		by.refuseKey(by.key, "goes not with DeepSpeed, which "+t.engine.label+" configures; leave out one of them")
	}
	t.world(o)
	t.groups()
	t.shards()
	t.training()
	t.network()
	if t.refused != nil {
		return nil, t.refused
	}
	t.arguments.rest()
	t.launcher.rest()
	return t.Import, nil
}

// SaysDevices reports whether one of the files says how many devices there are.
func SaysDevices(files []understood.Input) bool {
	return slices.ContainsFunc(files, func(f understood.Input) bool {
		return isAccelerate(f.Data) || isNanotron(f.Data)
	})
}

// part opens the only file of a kind; it has no keys if none is given.
func (t *trainer) part(is func([]byte) bool, table string) (*file, error) {
	var one understood.Input
	for _, f := range t.files {
		if !is(f.Data) || IsNetwork(f.Data) {
			continue
		}
		if one.Label != "" {
			return nil, fmt.Errorf("%s: is of the same kind as %s; name one of them", f.Label, one.Label)
		}
		one = f
	}
	k, err := t.open(one, table)
	if err != nil || one.Label == "" {
		return k, err
	}
	if err := k.decode(one); err != nil {
		return nil, err
	}
	const section = "fsdp_config"                               // which may be a file of its own
	if name, ok := k.keys[section].(string); ok && name != "" { // or an object that is cut off
		if f, found := t.named(k, section); found {
			delete(k.keys, section)
			k.flatten(section, object(f.Data))
		}
	}
	k.sections()
	return k, nil
}

// named returns the file that a key names.
func (t *trainer) named(k *file, key string) (understood.Input, bool) {
	name := k.word(key, "")
	if strings.HasPrefix(strings.TrimSpace(name), "{") {
		k.refuseKey(key, "is not a whole object of JSON")
		return understood.Input{}, false
	}
	for _, f := range t.files {
		if path.Base(f.Label) != path.Base(name) || isTrainer(f.Data) || isAccelerate(f.Data) {
			continue
		}
		if object(f.Data) == nil || IsNetwork(f.Data) {
			k.refuseKey(key, "is not a configuration of it in JSON")
		}
		return f, true
	}
	k.refuseKey(key, "name that file as well")
	return understood.Input{}, false
}

// deepspeed opens the configuration of DeepSpeed: a file, or keys of the others; nil if it does not run.
func (t *trainer) deepspeed() (*file, error) {
	const key, named = "deepspeed", "deepspeed_config.deepspeed_config_file"
	given := slices.IndexFunc(t.files, func(f understood.Input) bool {
		return isDeepSpeed(f.Data) && !isTrainer(f.Data) && !isAccelerate(f.Data)
	})
	inner := map[string]any{}
	for name, value := range t.arguments.keys {
		if rest, ok := strings.CutPrefix(name, key+"."); ok {
			inner[rest] = value
		}
	}
	from := understood.Input{Label: t.arguments.label}
	switch {
	case t.arguments.word(key, "") != "":
		from, _ = t.named(t.arguments, key)
	case len(inner) > 0:
	case t.launcher.word(named, "") != "":
		from, _ = t.named(t.launcher, named)
	case given >= 0:
		from = t.files[given]
	case t.launcher.word("distributed_type", "") == "DEEPSPEED":
		return t.engineKeys()
	default:
		return nil, nil
	}
	k, err := t.open(from, deepspeedCSV)
	if err != nil {
		return nil, err
	}
	if key := twice(from.Data); key != "" && len(inner) == 0 {
		return nil, stands(from.Label, key)
	}
	if k.keys = inner; len(inner) == 0 {
		k.keys = map[string]any{}
		k.flatten("", object(from.Data))
	}
	k.sections()
	defer k.rest()
	t.fill(k)
	return k, nil
}

// engineKeys makes a configuration of DeepSpeed of accelerate's keys.
func (t *trainer) engineKeys() (*file, error) {
	const section, zero = "deepspeed_config.", "zero_optimization."
	k, err := t.open(understood.Input{Label: t.launcher.label}, deepspeedCSV)
	if err != nil {
		return nil, err
	}
	k.keys[zero+"stage"] = int64(t.launcher.whole(section+"zero_stage", 2))
	for name, key := range map[string]string{
		"gradient_clipping": "gradient_clipping", "gradient_accumulation_steps": "gradient_accumulation_steps",
	} {
		if value := t.launcher.keys[section+name]; value != nil {
			k.keys[key] = value
		}
	}
	t.fill(k)
	return k, nil
}

// fill gives DeepSpeed's keys that are left to the Trainer its arguments, and refuses those that say otherwise.
func (t *trainer) fill(k *file) {
	const steps, clip, wide, old = "gradient_accumulation_steps", "max_grad_norm", "bf16.enabled", "fp16.enabled"
	bits := t.precision()
	if k.keys[wide] == nil && k.keys[old] == nil { // which accelerate then adds
		k.keys[wide], k.keys[old] = bits == "bf16", bits == "fp16"
	}
	if len(t.arguments.keys) == 0 {
		return
	}
	size, rounds := t.sizes()
	for key, value := range map[string]any{
		"train_micro_batch_size_per_gpu": int64(size), steps: int64(rounds),
		"gradient_clipping": t.arguments.real(clip, 1), wide: bits == "bf16", old: bits == "fp16",
	} {
		is := k.keys[key]
		switched := key == wide || key == old
		switch {
		case is == nil && !switched || is == "auto":
			k.keys[key] = value
		case is != nil && fmt.Sprint(is) != fmt.Sprint(value):
			k.refuseKey(key, fmt.Sprintf("the Trainer's arguments say %v; write \"auto\", which takes them", value))
		}
	}
	const bucket = "zero_optimization.reduce_bucket_size"
	for _, f := range t.files {
		if n, ok := object(f.Data)["hidden_size"].(float64); ok && IsNetwork(f.Data) && k.keys[bucket] == "auto" {
			k.keys[bucket] = n * n // as transformers/integrations/deepspeed.py has it
		}
	}
	if k.keys["train_batch_size"] == "auto" {
		delete(k.keys, "train_batch_size")
	}
}

// sizes returns the samples that a device takes at once, and how many times a step.
func (t *trainer) sizes() (micro, rounds int) {
	micro = t.arguments.degreeOr("per_device_train_batch_size", 8)
	rounds = t.arguments.degree("gradient_accumulation_steps")
	if n := t.arguments.whole("per_gpu_train_batch_size", 0); n > 0 {
		micro = n
	}
	return micro, rounds
}
