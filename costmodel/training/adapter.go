package training

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"psim/costmodel/network"
	"psim/internal/setting"
)

// The values of Adapter.Kind.
const (
	AdapterNone = "none"
	AdapterLoRA = "lora"
	// AdapterQLoRA is LoRA over weights of the blocks in 4 bits (Dettmers et al. 2023).
	AdapterQLoRA = "qlora"
)

// allTargets is the value of Adapter.Targets that stands for all linear layers of the blocks.
const allTargets = "all"

// An Adapter is [train.adapter]: products of low rank that are added to frozen ones (Hu et al. 2021,
// "LoRA"). All other parameters are frozen.
type Adapter struct {
	Kind    string  `toml:"kind"`
	Rank    int     `toml:"rank"`
	Targets string  `toml:"targets"` // names of targets, with commas between them; "" stands for allTargets
	Dropout float64 `toml:"dropout"` // before an adapter; 0: its input is that of the frozen product
	// DoubleQuant: the scales of 4-bit weights have 8 bits.
	DoubleQuant bool `toml:"double_quant"`
	// HeldInputs: products of 4-bit weights hold their inputs as long as their graph lives, which is until the next
	// forward has ended: bitsandbytes before 0.43.2 (its pull request 1270).
	HeldInputs bool `toml:"held_inputs"`
	// FP16Unpacked: weights in 4 bits are made fp16, and these bf16 by a kernel of its own: bitsandbytes before 0.43,
	// which packs fp16 (nn/modules.py, Params4bit.cuda), and Lightning, which does.
	FP16Unpacked bool `toml:"fp16_unpacked"`
	// PackedHead: the head is in 4 bits, too, as litgpt's.
	PackedHead bool `toml:"packed_head"`
	// Prepared: what is frozen and not in 4 bits is held in fp32, as PEFT's
	// prepare_model_for_kbit_training leaves it.
	Prepared bool `toml:"prepared"`
	// FP32: adapters compute in fp32, each with a copy of its input.
	FP32 bool `toml:"fp32"`
	// InputGradients: the result of the embedding has a gradient (enable_input_require_grads).
	InputGradients bool `toml:"input_gradients"`
}

// targetNames maps the names of targets to those of products without their prefix.
var targetNames = []struct{ target, product string }{
	{"q", "q_proj"}, {"k", "k_proj"}, {"v", "v_proj"}, {"qkv", "c_attn"},
	{"q_a", "q_a_proj"}, {"q_b", "q_b_proj"}, {"kv_a", "kv_a_proj_with_mqa"}, {"kv_b", "kv_b_proj"},
	{"o", "o_proj"}, {"o", "attn.c_proj"},
	{"gate", "gate_proj"}, {"up", "up_proj"}, {"up", "c_fc"}, {"down", "down_proj"}, {"down", "mlp.c_proj"},
	{"gate", "experts.w1"}, {"up", "experts.w3"}, {"down", "experts.w2"},
	{"in", "in_proj"}, {"in", "in_proj_qkvz"}, {"in", "in_proj_ba"}, {"out", "out_proj"}, // of scans
	{"head", "lm_head"},
}

// targetAliases maps the names of PEFT's target_modules and of torchtune's layers to targets.
func targetAliases() map[string]string {
	names := map[string]string{
		"all-linear": allTargets, "c_proj": "o,down", "query_key_value": "qkv", "qkv_proj": "qkv",
		"output_proj": "o", "w1": "gate", "w2": "down", "w3": "up", "output": "head",
	}
	for _, t := range targetNames {
		if !strings.Contains(t.product, ".") {
			names[t.product] = t.target
		}
	}
	return names
}

// targetOf returns the name of a product as a target; "" if it cannot be one.
func targetOf(product string) string {
	for _, t := range targetNames {
		if product == t.product || strings.HasSuffix(product, "."+t.product) {
			return t.target
		}
	}
	return ""
}

// partNames lists the names of targets.
func partNames() (names []string) {
	for _, t := range targetNames {
		if !slices.Contains(names, t.target) {
			names = append(names, t.target)
		}
	}
	return names
}

// kindNeeded makes the need of a kind of adapter.
func kindNeeded(reason string, kinds ...string) []setting.Need {
	return []setting.Need{{Keys: []string{"train.adapter.kind"}, OneOf: kinds, Reason: reason}}
}

// Settings describes [train.adapter].
func (Adapter) Settings() []setting.Setting {
	with := kindNeeded("without an adapter", AdapterLoRA, AdapterQLoRA)
	return append([]setting.Setting{
		{
			Key: "kind", Executed: []string{AdapterNone}, Default: AdapterNone,
			OneOf: []string{AdapterNone, AdapterLoRA, AdapterQLoRA},
			Text: "lora: only adapters are trained, two products of low rank for every target. qlora: the same, with " +
				"the linear layers of blocks in 4 bits (nf4), which every forward and backward dequantises",
		},
		{
			Key: "rank", Needs: with, Default: 16, Range: setting.Between(1, maxRank),
			Text: "features between the two products of an adapter",
		},
		{
			Key: "targets", Needs: with, Default: allTargets, OneOf: []string{allTargets}, Parts: partNames(),
			Aliases: targetAliases(),
			Text: "linear layers with adapters: all of the blocks, or a list such as [\"q\", \"v\"]; in a GPT qkv, " +
				"o, up and down; every expert has its own; of gated delta nets and Mamba-2 in and out; PEFT's names, " +
				"such as q_proj and all-linear, are read as well",
		},
		{
			Key: "dropout", Needs: with, Default: 0.0, Range: setting.Range{Max: 1, BelowMax: true},
			Text: "rate before every adapter, which then keeps an input of its own and a mask",
		},
		{
			Key: "fp32", Needs: with, Default: false,
			Text: "true: adapters compute in fp32, each with a copy of its input, as PEFT's do outside of autocast " +
				"(autocast_adapter_dtype)",
		},
		{
			Key: "input_gradients", Needs: with, Default: false,
			Text: "true: gradients go back to the result of the embedding (enable_input_require_grads); false: " +
				"to the first adapter",
		},
	}, packedSettings()...)
}

// packedSettings describes the keys of weights in 4 bits.
func packedSettings() []setting.Setting {
	packed := kindNeeded("since it is about weights in 4 bits", AdapterQLoRA)
	return []setting.Setting{
		{
			Key: "double_quant", Needs: packed, Default: false,
			Text: "true: 4.127 bits a weight instead of 4.5, since scales have 8 bits",
		},
		{
			Key: "held_inputs", Needs: packed, Default: false,
			Text: "true: products of 4-bit weights hold their inputs until the next forward has ended, as " +
				"bitsandbytes before 0.43.2",
		},
		{
			Key: "fp16_unpacked", Needs: packed, Default: false,
			Text: "true: weights in 4 bits are made fp16, and then bf16 by a kernel of its own, as bitsandbytes " +
				"before 0.43 and Lightning do",
		},
		{
			Key: "packed_head", Needs: packed, Default: false,
			Text: "true: the head is in 4 bits, too, as litgpt's; not with a tied head",
		},
		{
			Key: "prepared", Needs: packed, Default: false,
			Text: "true: embedding, norms and head are held in fp32, as PEFT's prepare_model_for_kbit_training " +
				"leaves them",
		},
	}
}

// maxRank is a bound that catches a mistyped rank; the width of a target is a narrower one.
const maxRank = 1 << 20

// Adapts reports whether only adapters are trained.
func (t Options) Adapts() bool {
	return t.Adapter.Kind == AdapterLoRA || t.Adapter.Kind == AdapterQLoRA
}

// targets reports whether a product has an adapter.
func (a Adapter) targets(o network.Op, block bool) bool {
	name := targetOf(o.Name)
	if a.Targets == "" || a.Targets == allTargets {
		return block && !o.Wide
	}
	return name != "" && slices.Contains(strings.Split(a.Targets, ","), name)
}

// FrozenParts are names of parts of a network with commas between them: embedding, norm, head, and blocks.N
// or blocks.N-M.
type FrozenParts string

// noParts is the value of a list of parts without any.
const noParts = "none"

const partsForm = `must be a list of "embedding", "blocks.0-15", "blocks.3", "norm" and "head"`

// UnmarshalTOML reads a list, or a string with commas between the parts.
func (p *FrozenParts) UnmarshalTOML(value any) error {
	var names []string
	switch v := value.(type) {
	case string:
		if v == noParts {
			*p = ""
			return nil
		}
		names = strings.Split(strings.Trim(v, "[]"), ",")
	case []any:
		for _, one := range v {
			name, ok := one.(string)
			if !ok {
				return errors.New(partsForm)
			}
			names = append(names, name)
		}
	default:
		return errors.New(partsForm)
	}
	for i := range names {
		names[i] = strings.Trim(names[i], ` "`)
		if _, _, err := blocksOf(names[i]); err != nil {
			return err
		}
	}
	*p = FrozenParts(strings.Join(names, ","))
	return nil
}

// TOML writes what UnmarshalTOML reads.
func (p FrozenParts) TOML() any {
	if p == "" {
		return nil
	}
	var list []any
	for _, name := range strings.Split(string(p), ",") {
		list = append(list, name)
	}
	return list
}

// blocksOf returns the first and the last block that the name of a part stands for; −1 for other parts.
func blocksOf(name string) (first, last int, err error) {
	if name == "embedding" || name == "norm" || name == "head" {
		return -1, -1, nil
	}
	numbers, ok := strings.CutPrefix(name, "blocks.")
	from, to, isRange := strings.Cut(numbers, "-")
	if !isRange {
		to = from
	}
	first, err = strconv.Atoi(from)
	if err == nil {
		last, err = strconv.Atoi(to)
	}
	if !ok || err != nil || first < 0 {
		return 0, 0, fmt.Errorf("%q: %s", name, partsForm)
	}
	if last < first {
		return 0, 0, fmt.Errorf("%q: ends before it begins; write \"blocks.%d-%d\"", name, last, first)
	}
	return first, last, nil
}

// checkFrozen refuses keys that do not go together with frozen weights.
func (t Options) checkFrozen() error {
	what := "adapter.kind = " + strconv.Quote(t.Adapter.Kind)
	if !t.Adapts() {
		what = fmt.Sprintf("frozen = %q", string(t.Frozen))
	}
	switch {
	case !t.Adapts() && t.Frozen == "":
		return nil
	case t.Adapts() && t.Frozen != "":
		return fmt.Errorf("frozen = %q: an adapter freezes all other parameters; remove frozen, or set "+
			"adapter.kind = %q", string(t.Frozen), AdapterNone)
	case t.Narrow() && t.Adapter.Kind == AdapterQLoRA:
		return fmt.Errorf("%s: has weights in 4 bits that are multiplied in 16, and precision = %q multiplies in "+
			"fewer; set precision = \"bf16\", or adapter.kind = %q", what, t.Precision, AdapterLoRA)
	case t.Narrow() && t.Weights == Weights16:
		return fmt.Errorf("%s: with weights = %q is not modelled; frozen weights are held as they are multiplied; "+
			"remove weights", what, t.Weights)
	case t.Adapter.Kind == AdapterQLoRA && t.Base() == "fp32":
		return fmt.Errorf("%s: weights in 4 bits are dequantised to 16 bits; set precision = \"bf16\"", what)
	case t.TwoPass():
		return fmt.Errorf("%s: is not modelled with backward = %q; set backward = %q", what, t.Backward, BackwardWhole)
	}
	return nil
}

// CheckFrozen reports frozen parts and targets of adapters that a network does not have.
func (t Options) CheckFrozen(n network.Network) error {
	if t.Adapts() {
		return t.checkTargets(n)
	}
	if t.Frozen == "" {
		return nil
	}
	blocks, last := 0, n.Layers[len(n.Layers)-1]
	var trained bool
	f := freezing{Options: t, frozen: map[string]bool{}}
	for _, l := range n.Layers {
		block := -1
		if l.IsBlock() {
			block, blocks = blocks, blocks+1
		}
		if f.partOf(l, block) == allTrained {
			trained = trained || len(l.Params) > 0
		}
	}
	for _, name := range strings.Split(string(t.Frozen), ",") {
		_, end, _ := blocksOf(name)
		switch {
		case end >= blocks && blocks == 0:
			return fmt.Errorf("frozen = %q: %s has no blocks of a transformer", name, n.Name)
		case end >= blocks:
			return fmt.Errorf("frozen = %q: %s has blocks 0 to %d", name, n.Name, blocks-1)
		case end < 0 && !slices.ContainsFunc(n.Layers, func(l network.Layer) bool { return isPart(l, name) }):
			return fmt.Errorf("frozen = %q: %s has no %s", name, n.Name, name)
		case name == "head" && len(last.Tied) > 0 && !strings.Contains(string(t.Frozen), "embedding"):
			return errors.New(`frozen = "head": the head is tied to the embedding; ` +
				`freeze "embedding", which freezes both`)
		}
	}
	if !trained {
		return fmt.Errorf("frozen = %q: leaves nothing to train", string(t.Frozen))
	}
	return nil
}

// checkTargets reports targets that the network lacks, and a rank that is not below the width of a target.
func (t Options) checkTargets(n network.Network) error {
	found, wanted := map[string]bool{}, strings.Split(t.Adapter.Targets, ",")
	any := t.Adapter.Targets == "" || t.Adapter.Targets == allTargets
	var known []string
	adapted, same := false, network.Same(n.Layers)
	for i, l := range n.Layers {
		if same[i] < i {
			continue
		}
		for _, o := range l.Ops {
			if !isLinear(o) {
				continue
			}
			if name := targetOf(o.Name); name != "" && !slices.Contains(known, name) {
				known = append(known, name)
			}
			if !t.Adapter.targets(o, l.IsBlock()) {
				continue
			}
			adapted, found[targetOf(o.Name)] = true, true
			if width := min(o.Inner, o.Cols); int64(t.Adapter.Rank) > width {
				return fmt.Errorf("adapter.rank = %d: is more than the width of %s, %d", t.Adapter.Rank, o.Name, width)
			}
		}
	}
	for _, name := range wanted {
		if !any && !found[name] {
			return fmt.Errorf("adapter.targets = %q: the network has no linear layer %q for an adapter; it has %s",
				t.Adapter.Targets, name, strings.Join(known, ", "))
		}
	}
	if t.Adapter.PackedHead && len(n.Layers[len(n.Layers)-1].Tied) > 0 {
		return fmt.Errorf("adapter.packed_head = true: the head of the network is tied to the embedding, which is " +
			"read row by row; set packed_head = false")
	}
	if !adapted {
		return fmt.Errorf("adapter.kind = %q: the network has no blocks of a transformer for adapters",
			t.Adapter.Kind)
	}
	return nil
}

// Targeted lists the linear layers of a network that have adapters, each name once.
func (t Options) Targeted(n network.Network) (names []string) {
	same := network.Same(n.Layers)
	for i, l := range n.Layers {
		for _, o := range l.Ops {
			if name, ok := strings.CutSuffix(o.Name, adapterDown); ok && same[i] == i {
				name = name[strings.LastIndex(name, ".")+1:]
				if !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	return names
}
