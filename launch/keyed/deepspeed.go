package keyed

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"psim/launch/understood"
)

//go:embed deepspeed.csv
var deepspeedCSV string

// deepspeedVersion is the version whose keys the table has.
const deepspeedVersion = "0.19.8 (deepspeed/runtime/config.py)"

// deepspeedOptimizers are what psim calls DeepSpeed's. Those that are missing it does not know.
var deepspeedOptimizers = map[string]string{
	"adam": "adamw", "adamw": "adamw", "fusedadam": "adamw", "lion": "lion", "fusedlion": "lion", "sgd": "sgd-momentum",
	"muon": "muon",
}

// object returns the keys of a JSON object; nil for other data.
func object(data []byte) map[string]any {
	data = bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\ufeff")))
	var table map[string]any
	if !bytes.HasPrefix(data, []byte("{")) || len(data) > understood.MostScript || json.Unmarshal(data, &table) != nil {
		return nil
	}
	return table
}

// stands makes the error about a key that a file has twice.
func stands(label, key string) error {
	return fmt.Errorf("%s: %s stands there twice, which DeepSpeed refuses; remove one of them", label, key)
}

// twice returns a key that an object of JSON has twice, with those of its sections before it; "" for other objects.
func twice(data []byte) string {
	type level struct {
		name   string
		seen   map[string]bool // nil for a list
		expect bool            // a key comes next
	}
	d := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(bytes.TrimSpace(data), []byte("\ufeff"))))
	var levels []level
	next := ""
	for {
		token, err := d.Token()
		if err != nil {
			return ""
		}
		top := len(levels) - 1
		switch {
		case token == json.Delim('}') || token == json.Delim(']'):
			levels, top = levels[:top], top-1
		case top >= 0 && levels[top].expect:
			key, _ := token.(string)
			next = strings.TrimPrefix(levels[top].name+"."+key, ".")
			if levels[top].seen[key] {
				return next
			}
			levels[top].seen[key], levels[top].expect = true, false
			continue
		case token == json.Delim('{'):
			levels = append(levels, level{next, map[string]bool{}, true})
			continue
		case token == json.Delim('['):
			levels = append(levels, level{name: next})
			continue
		}
		if top >= 0 {
			levels[top].expect = levels[top].seen != nil
		}
	}
}

// IsNetwork reports whether data is the config.json of a network.
func IsNetwork(data []byte) bool {
	table := object(data)
	return table["model_type"] != nil || table["architectures"] != nil
}

// isDeepSpeed reports whether data is a configuration of DeepSpeed.
func isDeepSpeed(data []byte) bool {
	table := object(data)
	return slices.ContainsFunc([]string{
		"zero_optimization", "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps",
	}, func(key string) bool { return table[key] != nil })
}

// readDeepSpeed reads a configuration of DeepSpeed, with the config.json of its network.
func readDeepSpeed(f understood.Input, files []understood.Input, o understood.Options) (*understood.Import, error) {
	k, err := begin("deepspeed", deepspeedVersion).open(f, deepspeedCSV)
	if err != nil {
		return nil, err
	}
	if key := twice(f.Data); key != "" {
		return nil, stands(f.Label, key)
	}
	k.flatten("", object(f.Data))
	k.sections()
	if !k.network(files) {
		return nil, fmt.Errorf("%s: does not say what is trained; name the network's config.json as well", f.Label)
	}
	k.askLength(files)
	k.Ask("train.recompute", "the script decides whether activations are computed again: no is assumed; --set "+
		"train.recompute=full says it")
	k.Set("schedule.name", "ddp")
	k.Only = map[string][]string{"schedule.name": {"ddp"}}
	for _, key := range []string{
		"schedule.stages", "parallel.tensor", "parallel.context", "parallel.expert", "train.recompute",
	} {
		k.Only[key] = nil // the script's
	}
	k.deepspeedBatch(o)
	k.deepspeedShards()
	k.deepspeedPrecision()
	k.deepspeedOptimizer()
	if k.refused != nil {
		return nil, k.refused
	}
	k.rest()
	return k.Import, nil
}

// deepspeedBatch maps the triple of batches, whose product is train_batch_size, and the devices.
func (k *file) deepspeedBatch(o understood.Options) {
	const all, each, steps = "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"
	tensor := k.tensorGroup()
	global, micro, rounds := k.whole(all, 0), k.whole(each, 0), k.whole(steps, 0)
	for _, key := range []string{all, each, steps} {
		if n := k.whole(key, 1); n < 1 {
			k.refuseKey(key, "must be at least 1")
			return
		}
	}
	if o.Devices%tensor != 0 {
		k.refuseKey("tensor_parallel.autotp_size", fmt.Sprintf("--devices %d: it must divide them", o.Devices))
		return
	}
	data := o.Devices / tensor
	switch {
	case data == 0 && global > 0 && micro > 0 && rounds > 0 && global%product(micro, rounds) == 0:
		data = max(1, global/product(micro, rounds))
	case data == 0:
		data = 1
		k.Ask("parallel.data", "the launcher decides how many devices there are: one is assumed; --devices N says it")
	}
	switch {
	case micro == 0 && global > 0:
		micro = max(1, global/product(data, max(1, rounds)))
	case micro == 0:
		micro = 1
		k.Ask("batch.micro", "the script decides: 1 is assumed; --set batch.micro=N says it")
	}
	if global == 0 {
		global = product(micro, max(1, rounds), data)
	}
	if rounds == 0 && global%product(micro, data) != 0 || rounds > 0 && global != product(micro, rounds, data) {
		k.refuseKey(all, fmt.Sprintf("must be %s %d × %s %d × %d replicas; --devices N says how many devices there are",
			each, micro, steps, max(1, rounds), data))
	}
	if tensor > 1 {
		k.Set("parallel.tensor", tensor, "tensor_parallel.autotp_size")
	}
	k.Set("parallel.data", data, all, each, steps)
	k.Set("batch.micro", micro, each)
	k.Set("batch.global", global, all, steps)
}

// tensorGroup returns the size of the tensor group; DeepSpeed's 0 stands for none.
func (k *file) tensorGroup() int {
	const key = "tensor_parallel.autotp_size"
	if k.whole(key, 0) == 0 {
		return 1
	}
	return k.degree(key)
}

// deepspeedShards maps ZeRO.
func (k *file) deepspeedShards() {
	const section = "zero_optimization."
	zero := k.whole(section+"stage", 0)
	if zero < 0 || zero > 3 {
		k.refuseKey(section+"stage", "must be 0 to 3")
	}
	k.Set("parallel.zero", zero, section+"stage")
	overlap := zero == 3
	if k.keys[section+"overlap_comm"] != nil {
		overlap = k.is(section + "overlap_comm")
	}
	if zero > 0 {
		k.Set("parallel.overlap", overlap, section+"overlap_comm")
	}
	if n := k.whole(section+"reduce_bucket_size", 500_000_000); zero == 1 || zero == 2 {
		if n < 1 {
			k.refuseKey(section+"reduce_bucket_size", "must be at least 1")
		}
		k.Set("parallel.bucket", fmt.Sprintf("%d gradients", n), section+"reduce_bucket_size")
	}
	if k.keys[section+"reduce_scatter"] == false && (zero == 1 || zero == 2) {
		k.Set("parallel.reduce_scatter", false, section+"reduce_scatter")
	}
}

// deepspeedPrecision maps what products are computed in, and what gradients are added up in.
func (k *file) deepspeedPrecision() {
	half := k.is("bf16.enabled") || k.is("bfloat16.enabled")
	precision := "fp32"
	switch {
	case half && k.is("fp16.enabled"):
		k.refuseKey("fp16.enabled", "goes not with bf16.enabled; remove one of them")
	case half:
		precision = "bf16"
	case k.is("fp16.enabled"):
		precision = "fp16"
	case k.word("bf16.enabled", "") == "auto" || k.word("fp16.enabled", "") == "auto":
		precision = "bf16"
		k.Ask("train.precision", "the trainer's arguments decide: bf16 is assumed; --set train.precision=fp16 says it")
	}
	k.Set("train.precision", precision, "bf16.enabled", "fp16.enabled")
	const alone, states = "bf16.bf16_master_weights_and_grads", "bf16.bf16_optimizer_states"
	if half && k.is(alone) {
		k.Set("train.master_weights", "none", alone)
	}
	if half && k.is(states) {
		k.Set("train.moments", "bf16", states)
	}
	types := map[string]string{"fp32": "fp32", "fp16": "fp16", "bf16": "bf16", "bfloat16": "bf16", "": ""}
	switch gradients, known := types[k.word("data_types.grad_accum_dtype", "")]; {
	case !known:
		k.refuseKey("data_types.grad_accum_dtype", "must be fp32, fp16 or bf16")
	case gradients != "" && precision != "fp32":
		k.Set("train.gradients", gradients, "data_types.grad_accum_dtype")
	}
}

// deepspeedOptimizer maps the optimizer.
func (k *file) deepspeedOptimizer() {
	optimizer := deepspeedOptimizers[strings.ToLower(k.word("optimizer.type", "AdamW"))]
	if optimizer == "" {
		k.refuseKey("optimizer.type", "psim knows Adam, AdamW, Lion, Muon and SGD")
	}
	k.Set("train.optimizer", optimizer, "optimizer.type")
	clips := k.real("gradient_clipping", 0) > 0 || k.word("gradient_clipping", "") == "auto"
	k.Set("train.clip", clips, "gradient_clipping")
}
