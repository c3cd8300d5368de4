// Package training describes how a network is trained: precision, optimizer, recomputation and
// the way in which a stage runs its backward.
//
// It answers two questions. How many bytes does a number take: a parameter with its gradient
// and the optimizer's state ([Options.State], Rajbhandari et al. 2020), an activation
// ([Options.ActivationElement]), a weight in 8 or 4 bits ([Options.HeldExtra])? And how does
// training change a layer: which buffers are kept ([Options.Kept]), which operations run a
// second time ([Options.Repeated]), which operands become narrow ([Options.Trained])?
//
// Prices, memory and execution ask here, so that they agree. Sizes are in bytes.
package training

import (
	"cmp"
	"fmt"

	"psim/costmodel/network"
	"psim/internal/setting"
)

// Options holds the keys of [train] that decide the bytes of a parameter and of an activation, and
// the operations of a pass. The zero value is fp32, adamw, no recomputation.
type Options struct {
	Precision string `toml:"precision"`
	// FP8Recipe: "" stands for RecipeCurrent.
	FP8Recipe string `toml:"fp8_recipe"`
	// Weights: "" stands for the usual choice of the precision (see weights8).
	Weights string `toml:"weights"`
	// BF16First and BF16Last are numbers of blocks at both ends that stay in bf16 where
	// Precision is narrower.
	BF16First int `toml:"bf16_first"`
	BF16Last  int `toml:"bf16_last"`
	// Keep8Bit lists parts of a block that wait in 8 bits for the backward; "" stands for none.
	Keep8Bit string `toml:"keep_8bit"`
	// BF16Parts are names of parts with commas between them that stay in bf16 in every block; "" stands for none.
	BF16Parts string `toml:"bf16_parts"`
	// BothWays: the device's tensor cores read narrow numbers along rows and along columns,
	// so that a tensor with one scale needs only one copy.
	BothWays bool `toml:"-"`
	// Microbatches is the number of microbatches of a replica; 0 means unknown, and counts as
	// very many.
	Microbatches float64 `toml:"-"`
	// Gradients: "" stands for the precision of the parameters.
	Gradients string `toml:"gradients"`
	Optimizer string `toml:"optimizer"`
	// Moments: "" stands for fp32.
	Moments string `toml:"moments"`
	// MasterWeights: "" stands for MastersFP32. UpdateIn: "" stands for UpdateInStep.
	MasterWeights string `toml:"master_weights"`
	UpdateIn      string `toml:"update_in"`
	// UpdateKernels: "" stands for UpdateFused.
	UpdateKernels string `toml:"update_kernels"`
	Clip          bool   `toml:"clip"`
	// Recompute is none (or ""), selective (see Selective), full, which keeps only the input
	// of a Repeatable layer, or names of modules separated by commas.
	Recompute string `toml:"recompute"`
	// RecomputeLayers is the number of blocks to which RecomputeMethod applies ("" stands for
	// RecomputeUniform); 0 repeats all blocks, each from its own input.
	RecomputeLayers int    `toml:"recompute_layers"`
	RecomputeMethod string `toml:"recompute_method"`
	// OffloadActivations is the number of blocks, from the first on, whose kept tensors wait in the memory of the
	// host for their backward.
	OffloadActivations int `toml:"offload_activations"`
	// StopEarly: full recomputation of a layer ends before its last product with a weight, since nothing of the
	// backward needs its result.
	StopEarly bool `toml:"stop_early"`
	// Selective: "" stands for SelectiveAttention.
	Selective string `toml:"selective"`
	// Backward: "" stands for BackwardWhole.
	Backward string `toml:"backward"`
	// Split: "" stands for SplitLayer.
	Split string `toml:"split"`
	// DetectAnomaly: every gradient is checked for NaN when it is made.
	DetectAnomaly bool `toml:"detect_anomaly"`
	// Adapter and Frozen say what is not trained.
	Adapter Adapter     `toml:"adapter"`
	Frozen  FrozenParts `toml:"frozen"`
}

// mostBlocks is a bound that catches a mistyped number of blocks.
const mostBlocks = 10_000

// Settings describes [train].
func (Options) Settings() []setting.Setting {
	return []setting.Setting{
		{
			Key: "precision", Offered: "precision", Assumed: true, Default: "fp32", OneOf: Precisions(),
			Text: "fp32, or mixed with fp32 master weights: fp16, bf16; or bf16 with the linear layers of blocks in " +
				"8 or 4 bits, without routers: fp8, mxfp8 (a scale for 32 numbers), nvfp4 (for 16)",
		},
		{
			Key: "fp8_recipe", Example: `"current"`, OneOf: []string{RecipeDelayed, RecipeCurrent, RecipeBlockwise},
			Text: "how fp8 is scaled. delayed: by the largest values of earlier steps. current: by that of the " +
				"tensor, which is read once more. blockwise: every 128 numbers, as DeepSeek-V3",
			Unset: "current",
		},
		{
			Key: "weights", Example: `"8-bit"`, OneOf: []string{Weights8, Weights16},
			Text: "how weights of narrow products are held, in addition to the fp32 ones. 8-bit: only in 8 bits, and " +
				"ZeRO 1 and 2 gather them so, except with mxfp8. 16-bit: in 16 bits, with narrow copies",
			Unset: "8-bit for delayed, current and mxfp8, else 16-bit",
		},
		{
			Key: "bf16_first", Default: 0, Range: setting.Between(0, mostBlocks),
			Text: "blocks at the beginning that stay in bf16 where precision is narrower",
		},
		{
			Key: "bf16_last", Default: 0, Range: setting.Between(0, mostBlocks),
			Text: "blocks at the end that stay in bf16",
		},
		{
			Key: "keep_8bit", Example: `["activation", "attention"]`, Executed: []string{keepNone},
			Default: keepNone, OneOf: []string{keepNone}, Parts: []string{keepActivation, keepAttention},
			Text: "what blocks keep in 8 bits for the backward. activation: inputs of a dense MLP's activation " +
				"function and of its gate (activation_func_fp8_input_store). attention: what fused attention reads, " +
				"and its result (fp8_dot_product_attention); its products are priced in 16 bits",
		},
		{
			Key: "bf16_parts", Default: "none", OneOf: []string{"none"},
			Parts: []string{partAttention, partLatent, partPredictors},
			Text: "none, or a list of parts of every block that stay in bf16, such as [\"attention\", \"mtp\"]: " +
				"attention (its projections), latent (those around experts with expert_latent), mtp (modules that " +
				"predict)",
		},
		{
			Key: "gradients", Example: `"fp32"`, OneOf: []string{"fp32", "fp16", "bf16"},
			Text: "precision in which gradients are added up", Unset: "as precision",
		},
		{
			Key: "optimizer", Assumed: true, Default: "adamw", OneOf: Optimizers(), Executed: executedOptimizers(),
			Text: optimizerText(),
		},
		{
			Key: "master_weights", Executed: []string{MastersFP32}, Default: MastersFP32,
			OneOf: []string{MastersFP32, MastersNone},
			Text: "fp32: weights of 16 bits have fp32 ones besides. none: weights, and the gradients that change " +
				"them, have 16 bits alone, as programs for fine-tuning load them",
		},
		{
			Key: "update_in", Executed: []string{UpdateInStep}, Default: UpdateInStep,
			OneOf: []string{UpdateInStep, UpdateInBackward},
			Text: "step: all parameters are updated after the backward. backward: each as soon as it has its " +
				"gradient, which is then freed, so that a layer's gradients are there at most (torchtune's " +
				"optimizer_in_bwd)",
		},
		{
			Key: "update_kernels", Executed: []string{UpdateFused}, Default: UpdateFused,
			OneOf: []string{UpdateFused, UpdateForeach},
			Text: "fused: one kernel updates a tensor. foreach: a kernel for each step of adam and adamw over all " +
				"tensors, with the roots of the second moments between them (PyTorch's default on GPUs)",
		},
		{
			Key: "moments", Executed: []string{"fp32"}, Default: "fp32", OneOf: []string{"fp32", "bf16"},
			Text: "what the optimizer's moments are held in; bf16 as DeepSeek-V3",
		},
		{
			Key: "clip", Executed: []string{"false"}, Default: false,
			Text: "true: the update begins with the norm of all gradients",
		},
		{
			Key: "recompute", Offered: "recompute", Assumed: true, Try: []string{"none", "selective", "full"},
			Executed: []string{"none", "full"}, Default: "none", OneOf: []string{"none", "selective", "full"},
			Parts: modulesByName(),
			Text: "none, selective (as selective says), full, or a list of modules of every block, such as " +
				"[\"core_attn\", \"moe_act\"]: core_attn (everything between q, k, v and the context), mlp (a dense " +
				"one), moe (experts with router and exchanges), moe_act (the activation function of experts), " +
				"shared_experts, norm (the norms before attention and MLP), mla_up_proj " +
				"(projections out of latent vectors)",
		},
		{
			Key: "recompute_layers", Executed: []string{"0"},
			Needs: []setting.Need{{
				Keys: []string{"train.recompute"}, OneOf: []string{"full"},
				Reason: "since it is about the layers that recompute = \"full\" repeats",
			}},
			Default: 0, Range: setting.Between(0, mostBlocks),
			Text: "with recompute = \"full\", the blocks of a stage that recompute_method is about; 0: all, each " +
				"from its own input",
		},
		{
			Key: "recompute_method", Default: RecomputeUniform, OneOf: []string{RecomputeUniform, RecomputeBlock},
			Text: "uniform: all blocks, recompute_layers at a time from one input. block: the first recompute_layers " +
				"of a stage, each from its own input, and no others",
		},
		{
			Key: "stop_early", Executed: []string{"false"},
			Needs: []setting.Need{{
				Keys: []string{"train.recompute"}, OneOf: []string{"full"},
				Reason: "since it is about the layers that recompute = \"full\" repeats",
			}},
			Default: false,
			Text: "with recompute = \"full\", a layer is repeated up to its last product with a weight: the backward " +
				"needs the product's input, not its result, as PyTorch's checkpoint without reentry ends",
		},
		offloadSetting(),
		{
			Key: "selective", Default: SelectiveAttention, OneOf: []string{SelectiveAttention, SelectiveOperations},
			Text: "what selective recomputation repeats. attention: everything between queries, keys, values and the " +
				"context, where attention is unfused. operations: all of a block except fused attention, " +
				"reduce-scatters, and the first product with a weight and every second one after it",
		},
		{
			Key: "backward", Default: BackwardWhole, OneOf: []string{BackwardWhole, BackwardPerLayer, BackwardTwoPass},
			Text: "whole: one backward for a stage. per-layer: one for every layer, which frees what the layer kept. " +
				"two-pass: two for every layer, one for its parameters and one for its input, each of which walks " +
				"the layer again",
		},
		{
			Key: "split", Default: SplitLayer, OneOf: []string{SplitLayer, SplitStage},
			Text: "how a schedule splits backwards that has tasks of their own for gradients of inputs and of " +
				"weights. layer: in every layer. stage: in every layer of the later stages; the input of the " +
				"first stage needs no gradient, so there I does nothing and W is the whole backward " +
				"(PyTorch's pipelining)",
		},
		{
			Key: "detect_anomaly", Default: false,
			Text: "true: every gradient is looked through for NaN, in two kernels, as PyTorch's anomaly detection " +
				"does; simulated only",
		},
		{
			Key: "frozen", Example: `["embedding", "blocks.0-15"]`, Unset: "all is trained",
			Text: "parts whose weights are not trained: embedding, norm (the last one), head, and blocks by number. " +
				"They have no gradients and no optimizer state, and nothing goes backward below the first part that " +
				"is trained",
		},
		{
			Key: "adapter", Text: "low-rank adapters (LoRA) that are trained in place of the weights, which are frozen",
		},
	}
}

// Validate reports the first key with a bad value.
func (t Options) Validate() error {
	if err := setting.Validate(t); err != nil {
		return err
	}
	if err := cmp.Or(t.checkNarrow(), t.checkFrozen()); err != nil {
		return err
	}
	t = t.defaults()
	if t.Narrow() && t.Gradients != "fp32" && t.Gradients != "bf16" {
		return fmt.Errorf("gradients = %q: must be fp32 or bf16 with precision = %q", t.Gradients, t.Precision)
	}
	if t.Gradients != "fp32" && t.Gradients != t.Base() {
		return fmt.Errorf("gradients = %q: must be fp32, or as precision = %q", t.Gradients, t.Precision)
	}
	if err := t.checkOptimizer(); err != nil {
		return err
	}
	if t.TwoPass() && t.Recompute != "none" {
		return fmt.Errorf("recompute = %q: must be none with backward = %q, "+
			"as PyTorch's checkpoints do not go with autograd.grad", t.Recompute, t.Backward)
	}
	return nil
}

// State is the memory that one parameter takes from step to step, in bytes.
type State struct {
	Parameter int64
	Gradient  int64
	Optimizer int64 // moments, unless they are ByTensor, and in mixed precision the fp32 master weight
}

// State returns the bytes per parameter, for options that Validate accepts.
func (t Options) State() State {
	t = t.defaults()
	s := State{Parameter: 4, Gradient: 4}
	if t.Precision != "fp32" {
		s = State{Parameter: 2, Gradient: 2}
	}
	if t.Masters() {
		s.Optimizer = 4
	}
	if t.Gradients == "fp32" {
		s.Gradient = 4
	}
	moment := int64(4)
	if t.Moments == "bf16" {
		moment = 2
	}
	switch t.Optimizer {
	case "sgd-momentum", OptimizerLion:
		s.Optimizer += moment
	case "adam", "adamw":
		s.Optimizer += 2 * moment
	}
	return s
}

// GradientPasses is the number of times that a step reads or writes all gradients between the
// backward and the update: in fp16 they are divided by the scale of the loss and checked
// (Micikevicius et al. 2018, section 3.2), clipping multiplies them, and a separate buffer in
// fp32 is filled with zeros.
func (t Options) GradientPasses() int64 {
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

// ActivationElement is the size of an activation in bytes: 4, or 2 in mixed precision.
func (t Options) ActivationElement() int64 {
	if t.defaults().Precision == "fp32" {
		return 4
	}
	return 2
}

// defaults returns the options with defaults for empty strings.
func (t Options) defaults() Options {
	t.Precision = cmp.Or(t.Precision, "fp32")
	if t.Gradients == "" {
		t.Gradients = t.Precision
		if t.Narrow() {
			t.Gradients = "bf16"
		}
	}
	t.Optimizer = cmp.Or(t.Optimizer, "adamw")
	t.Recompute = cmp.Or(t.Recompute, "none")
	t.RecomputeMethod = cmp.Or(t.RecomputeMethod, RecomputeUniform)
	t.Selective = cmp.Or(t.Selective, SelectiveAttention)
	t.Backward = cmp.Or(t.Backward, BackwardWhole)
	return t
}

// Resolved returns the options with what keys that are not given stand for.
func (t Options) Resolved() Options {
	t = t.defaults()
	if t.Precision == PrecisionFP8 {
		t.FP8Recipe = cmp.Or(t.FP8Recipe, RecipeCurrent)
	}
	if t.Narrow() && t.Weights == "" {
		t.Weights = Weights16
		if t.weights8() {
			t.Weights = Weights8
		}
	}
	if t.RecomputeMethod == RecomputeUniform {
		t.RecomputeLayers = max(1, t.RecomputeLayers) // a block at a time
	}
	return t
}

// modulesByName lists the names of modules that Recompute may list.
func modulesByName() (names []string) {
	for _, m := range network.ModuleNames() {
		names = append(names, m.Name)
	}
	return names
}
