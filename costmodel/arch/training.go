package arch

import (
	"fmt"
	"slices"
	"strings"
)

// Training is the [train] section: what decides the bytes of a parameter and of
// an activation. The zero value is fp32, adamw, no recomputation.
type Training struct {
	// Precision: fp32 (default), or fp16 or bf16 for mixed precision with fp32
	// master weights.
	Precision string `toml:"precision"`
	// Gradients: fp32, or as the parameters (default). Megatron adds gradients up
	// in fp32 in mixed precision as well.
	Gradients string `toml:"gradients"`
	// Optimizer: sgd, sgd-momentum, adam or adamw (default).
	Optimizer string `toml:"optimizer"`
	// Clip: the update begins with the norm of all gradients.
	Clip bool `toml:"clip"`
	// Recompute: none (default), selective (the attention core, Korthikanti
	// 2022) or full (all of a Repeatable layer but its input).
	Recompute string `toml:"recompute"`
}

// Optimizers are the legal values of Training.Optimizer.
func Optimizers() []string { return []string{"sgd", "sgd-momentum", "adam", "adamw"} }

// Validate reports the first key with a value that is not one of the legal
// ones, and lists those.
func (t Training) Validate() error {
	t = t.defaults()
	return firstError(
		oneOf("precision", t.Precision, "fp32", "fp16", "bf16"),
		oneOf("gradients", t.Gradients, gradientPrecisions(t.Precision)...),
		oneOf("optimizer", t.Optimizer, Optimizers()...),
		oneOf("recompute", t.Recompute, "none", "selective", "full"),
	)
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
	if t.Precision == "" {
		t.Precision = "fp32"
	}
	if t.Gradients == "" {
		t.Gradients = t.Precision
	}
	if t.Optimizer == "" {
		t.Optimizer = "adamw"
	}
	if t.Recompute == "" {
		t.Recompute = "none"
	}
	return t
}

// gradientPrecisions lists what gradients may be in.
func gradientPrecisions(precision string) []string {
	if precision == "fp32" {
		return []string{"fp32"}
	}
	return []string{"fp32", precision}
}

func oneOf(key, value string, legal ...string) error {
	if slices.Contains(legal, value) {
		return nil
	}
	if len(legal) == 1 {
		return fmt.Errorf("%s = %q: must be %s", key, value, legal[0])
	}
	return fmt.Errorf("%s = %q: must be one of %s", key, value, strings.Join(legal, ", "))
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
