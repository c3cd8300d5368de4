package arch

import (
	"cmp"
	"fmt"

	"psim/internal/setting"
)

// Training is the [train] section: what decides the bytes of a parameter and of
// an activation. The zero value is fp32, adamw, no recomputation.
type Training struct {
	Precision string `toml:"precision"`
	// Gradients: "" is as the parameters.
	Gradients string `toml:"gradients"`
	Optimizer string `toml:"optimizer"`
	Clip      bool   `toml:"clip"`
	// Recompute: "" is none, selective is what Selective says, full all of a Repeatable
	// layer but its input; else names of modules with commas between.
	Recompute string `toml:"recompute"`
	// RecomputeLayers is the number of blocks that RecomputeMethod ("" is
	// RecomputeUniform) is about; 0 repeats all, each from its own input.
	RecomputeLayers int    `toml:"recompute_layers"`
	RecomputeMethod string `toml:"recompute_method"`
	// Selective: "" is SelectiveAttention.
	Selective string `toml:"selective"`
	// Backward: "" is BackwardWhole.
	Backward string `toml:"backward"`
	// DetectAnomaly: every gradient is looked through for NaN when it is made.
	DetectAnomaly bool `toml:"detect_anomaly"`
	// Stack names settings that are defaults where others are not given.
	Stack string `toml:"stack"`
}

// Settings describes [train].
func (Training) Settings() []setting.Setting {
	return []setting.Setting{
		{Key: "precision", Default: "fp32", OneOf: []string{"fp32", "fp16", "bf16"}, Text: "fp32, or mixed with fp32 master weights: fp16, bf16"},
		{Key: "gradients", Example: `"fp32"`, OneOf: []string{"fp32", "fp16", "bf16"}, Text: "fp32, which Megatron adds them up in, or the precision", Unset: "as precision"},
		{Key: "optimizer", Default: "adamw", OneOf: Optimizers(), Text: "how parameters are updated"},
		{Key: "clip", Default: false, Text: "true: the update begins with the norm of all gradients"},
		{Key: "recompute", Default: "none", OneOf: []string{"none", "selective", "full"}, Parts: modulesByName(), Text: "none, selective (as selective says), full, or a list of modules of every block, such as [\"core_attn\", \"moe_act\"]: core_attn (what lies between q, k, v and the context), mlp (a dense one), moe (experts with router and exchanges), moe_act (the activation function of experts), shared_experts, norm (those before attention and MLP, Megatron's layernorm), mla_up_proj (projections out of latent vectors)"},
		{Key: "recompute_layers", Default: 0, Range: setting.Between(0, maxLayers), Text: "with recompute = \"full\", the blocks of a stage that recompute_method is about; 0: all, each from its own input"},
		{Key: "recompute_method", Default: RecomputeUniform, OneOf: []string{RecomputeUniform, RecomputeBlock}, Text: "uniform: all blocks, recompute_layers at a time from one input. block: the first recompute_layers of a stage, each from its own input, and no others"},
		{Key: "selective", Default: SelectiveAttention, OneOf: []string{SelectiveAttention, SelectiveOperations}, Text: "what selective recomputation repeats. attention: what lies between queries, keys, values and the context, where attention is unfused. operations: all of a block but fused attention, reduce-scatters, and the first product with a weight and every second after it, as torchtitan does"},
		{Key: "backward", Default: BackwardWhole, OneOf: []string{BackwardWhole, BackwardPerLayer, BackwardTwoPass}, Text: "whole: one backward of a stage. per-layer: one of every layer, which frees what that kept. two-pass: two of every layer, for its parameters and for its input, each of which walks it again"},
		{Key: "detect_anomaly", Default: false, Text: "true: every gradient is looked through for NaN, in two kernels, as PyTorch's anomaly detection does; simulated only"},
		{Key: "stack", Default: "none", OneOf: append([]string{"none"}, Stacks()...), Text: "the program that trains: it stands for settings (psim list stacks -v), which keys that are given replace"},
	}
}

// Stacks lists the programs that Training.Stack may name.
func Stacks() []string {
	return []string{
		"megatron-2021", "megatron-2023", "megatron-deepspeed", "megatron-te", "nanotron",
		"pytorch-fsdp", "pytorch-fsdp-compiled", "torchtitan",
	}
}

// Optimizers lists what Training.Optimizer may be.
func Optimizers() []string { return []string{"sgd", "sgd-momentum", "adam", "adamw"} }

// Validate reports the first key with a value that it may not have.
func (t Training) Validate() error {
	if err := setting.Validate(t); err != nil {
		return err
	}
	t = t.defaults()
	if t.Gradients != "fp32" && t.Gradients != t.Precision {
		return fmt.Errorf("gradients = %q: must be fp32, or as precision = %q", t.Gradients, t.Precision)
	}
	if t.TwoPass() && t.Recompute != "none" {
		return fmt.Errorf("recompute = %q: must be none with backward = %q, as PyTorch's checkpoints do not go with autograd.grad", t.Recompute, t.Backward)
	}
	return nil
}

// State is the memory of one parameter that lasts from step to step, in bytes.
type State struct {
	Parameter int64
	Gradient  int64
	Optimizer int64 // moments, and in mixed precision the fp32 master weight
}

// State in bytes per parameter, for settings that Validate accepts.
func (t Training) State() State {
	t = t.defaults()
	s := State{Parameter: 4, Gradient: 4}
	if t.Precision != "fp32" {
		s = State{Parameter: 2, Gradient: 2, Optimizer: 4}
	}
	if t.Gradients == "fp32" {
		s.Gradient = 4
	}
	switch t.Optimizer {
	case "sgd-momentum":
		s.Optimizer += 4
	case "adam", "adamw":
		s.Optimizer += 8
	}
	return s
}

// GradientPasses is how often a step reads or writes all gradients between the
// backward and the update that reads them: in fp16 they are divided by the loss's
// scale and checked (Micikevicius et al. 2018, section 3.2), clipping multiplies
// them, and a buffer of their own in fp32 is filled with zeros.
func (t Training) GradientPasses() int64 {
	t = t.defaults()
	var n int64
	if t.Precision == "fp16" {
		n += 2
	}
	if t.Clip {
		n += 2
	}
	if t.Precision != "fp32" && t.Gradients == "fp32" {
		n++
	}
	return n
}

// ActivationElement is the size of an activation in bytes: 4, or 2 in mixed
// precision.
func (t Training) ActivationElement() int64 {
	if t.defaults().Precision == "fp32" {
		return 4
	}
	return 2
}

func (t Training) defaults() Training {
	t.Precision = cmp.Or(t.Precision, "fp32")
	t.Gradients = cmp.Or(t.Gradients, t.Precision)
	t.Optimizer = cmp.Or(t.Optimizer, "adamw")
	t.Recompute = cmp.Or(t.Recompute, "none")
	t.RecomputeMethod = cmp.Or(t.RecomputeMethod, RecomputeUniform)
	t.Selective = cmp.Or(t.Selective, SelectiveAttention)
	t.Backward = cmp.Or(t.Backward, BackwardWhole)
	return t
}
