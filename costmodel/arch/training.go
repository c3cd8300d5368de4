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
	// Recompute: selective is the attention core (Korthikanti 2022), full all of a
	// Repeatable layer but its input.
	Recompute string `toml:"recompute"`
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
		{Key: "recompute", Default: "none", OneOf: []string{"none", "selective", "full"}, Text: "none, selective (attention), full"},
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

// Kept lists what a layer holds between F and the start of its backward. Under
// recomputation that is less than l.Buffers; backward then begins with
// Repeated(l), after which all of l.Buffers are present.
func (t Training) Kept(l Layer) []Buffer {
	recompute := t.defaults().Recompute
	if t.Repeats(l) {
		return []Buffer{{Name: "input", Shape: l.Input, Lifetime: ForwardToInput}}
	}
	var kept []Buffer
	for _, b := range l.Buffers {
		again := recompute != "none" && b.AttentionCore
		if b.Lifetime != InputToWeight && !again {
			kept = append(kept, b)
		}
	}
	return kept
}

// Repeats reports whether a layer keeps its input alone and runs F again.
func (t Training) Repeats(l Layer) bool { return t.defaults().Recompute == "full" && l.Repeatable }

// Repeated lists the operations whose F runs a second time before backward:
// the attention core or all operations of a Repeatable layer.
func (t Training) Repeated(l Layer) []Op {
	recompute := t.defaults().Recompute
	var again []Op
	for _, op := range l.Ops {
		if t.Repeats(l) || recompute != "none" && op.AttentionCore {
			again = append(again, op)
		}
	}
	return again
}

func (t Training) defaults() Training {
	t.Precision = cmp.Or(t.Precision, "fp32")
	t.Gradients = cmp.Or(t.Gradients, t.Precision)
	t.Optimizer = cmp.Or(t.Optimizer, "adamw")
	t.Recompute = cmp.Or(t.Recompute, "none")
	t.Backward = cmp.Or(t.Backward, BackwardWhole)
	return t
}
