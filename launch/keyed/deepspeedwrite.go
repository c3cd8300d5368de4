package keyed

import (
	"strconv"
	"strings"
)

// DeepSpeedVersion is the version of DeepSpeed whose configurations are written.
const DeepSpeedVersion = "0.19.8"

// DeepSpeedConfig returns the configuration with which DeepSpeed trains by keys of an Import, resolved. What its script
// decides is not in it. An error is an *understood.Unsayable.
func DeepSpeedConfig(said map[string]any) (map[string]any, error) {
	w := &keyWriter{said: said}
	for _, key := range []string{"schedule.stages", "parallel.context", "parallel.expert"} {
		if w.number(key, 1) > 1 {
			w.refuse(key, "DeepSpeed's configuration has no key for it: its script divides so")
		}
	}
	micro, data := w.number("batch.micro", 1), w.number("parallel.data", 1)
	global := w.number("batch.global", 1)
	config := map[string]any{
		"train_batch_size": global, "train_micro_batch_size_per_gpu": micro,
		"gradient_accumulation_steps": global / max(1, micro*data), "zero_optimization": w.zero(),
	}
	switch precision := w.text("train.precision"); precision {
	case "bf16", "fp16":
		section := map[string]any{"enabled": true}
		if w.text("train.master_weights") == "none" {
			section["bf16_master_weights_and_grads"] = true
		}
		if w.text("train.moments") == "bf16" {
			section["bf16_optimizer_states"] = true
		}
		if len(section) > 1 && precision == "fp16" {
			w.refuse("train.precision", "DeepSpeed keeps master weights and moments in 16 bits with bf16")
		}
		config[precision] = section
		config["data_types"] = map[string]any{"grad_accum_dtype": w.text("train.gradients")}
	case "fp32":
	default:
		w.refuse("train.precision", "DeepSpeed's configuration has fp32, fp16 and bf16")
	}
	optimizer := map[string]string{"adamw": "AdamW", "lion": "Lion", "sgd-momentum": "SGD", "muon": "Muon"}
	name := optimizer[w.text("train.optimizer")]
	if name == "" {
		w.refuse("train.optimizer", "DeepSpeed's are adamw, lion, sgd-momentum and muon")
	}
	config["optimizer"] = map[string]any{"type": name}
	if w.text("train.clip") == "true" {
		config["gradient_clipping"] = 1.0
	}
	if n := w.number("parallel.tensor", 1); n > 1 {
		config["tensor_parallel"] = map[string]any{"autotp_size": n}
	}
	if w.refused != nil {
		return nil, w.refused
	}
	return config, nil
}

// zero writes what replicas divide.
func (w *keyWriter) zero() map[string]any {
	stage := w.number("parallel.zero", 0)
	section := map[string]any{"stage": stage}
	if stage > 0 {
		section["overlap_comm"] = w.text("parallel.overlap") != "false"
	}
	if w.number("parallel.data", 1) > 1 && (stage == 1 || stage == 2) {
		count, ok := strings.CutSuffix(w.text("parallel.bucket"), " gradients")
		n, err := strconv.Atoi(count)
		if !ok || err != nil {
			w.refuse("parallel.bucket", `DeepSpeed counts gradients, as in "500000000 gradients"`)
		}
		section["reduce_bucket_size"] = n
		section["reduce_scatter"] = w.text("parallel.reduce_scatter") != "false"
	}
	return section
}
