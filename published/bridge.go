package published

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// megatronBridge replays NVIDIA's performance summaries of Megatron-Bridge.
func megatronBridge() Table {
	return Table{
		Name: "megatron-bridge", Title: "Llama 3, DeepSeek-V3, Qwen3 and GPT-OSS on 8 to 1,024 GPUs, H100 to GB300",
		Figure: "megatron-bridge", Paper: runsPaper,
		Place:  "NVIDIA-NeMo/Megatron-Bridge @067f987, docs/performance-summary.md and docs/performance-summary-archive.md",
		Fitted: "shares of the peak in 8 and in 4 bits of stack megatron-te on H100, GB200 and GB300, from a plan of Llama 3 each; the host's time for an operation without CUDA graphs, from Qwen3-30B's plan for 16 H100; what NCCL's all-to-all reaches of the network, from Qwen3-235B's plan for 256 H100 from 26.04 on",
		Note:   bridgeNote,
		Rows:   bridgeRows,
	}
}

const bridgeNote = "Recomputation, overlap, dispatchers and CUDA graphs are not printed, and follow one rule for each model and device (published/testdata/bridge_rules.csv). " +
	"B200 and B300 have the rates of GB200 and GB300. Activations that Llama 3 70B offloads to the host with FSDP are counted on the device, where they do not fit.\n\n" +
	"Rows that contradict others: GPT OSS 120B on GB300 in MXFP8 takes 2.47 s in 26.06, 2.48 in 26.08 and 4.04 in 26.06.01, 1.63 times as long, for one printed plan: as long as in BF16, whose graphs hold parts of a layer. " +
	"Llama 3 70B on GB300 in MXFP8 is printed with 2 samples and without chunks in 26.02.01, which idles 27 % of the step, and takes no longer than with 1 sample and 5 chunks in three other releases.\n\n" +
	"Not explained: GPT OSS 120B without a graph of the full step, which takes a tenth to a half longer than predicted, and as long in 8 bits as in 16; and Qwen3-30B on H100 in 25.11, whose 48 stages of a block each take 1.7 times as long. Releases of 25.11 take up to a seventh longer than later ones of the same plan."

// bridgeRows predicts the rows of pre-training that name a precision; those with one
// configuration in several releases once.
func bridgeRows() ([]Row, error) {
	predicted := map[string]Row{}
	return rowPer(bridgeRecords(), func(r record) (Row, error) {
		made := r.bridge()
		config := made.configuration()
		row, ok := predicted[config]
		if !ok {
			p, err := made.predicted()
			if err != nil {
				return Row{}, fmt.Errorf("%s: %w", made.text("row"), err)
			}
			row = Row{
				Unit: "s", Stack: made.text("train.stack"), Device: deviceIn(made.text("machine.device"), made.text("train.precision")),
				Facets: append(made.facets(p), made.bridgeFacets()...), Predicted: p.StepTime, Verdict: p.MemoryVerdict,
			}
			predicted[config] = row
		}
		row.Label, row.Published, row.Used = made.text("row"), made.number("seconds"), made.text("used") != ""
		return row, nil
	})
}

// bridgeFacets classify a row by what is trained, where and in which precision, together,
// and by what CUDA graphs replay.
func (r record) bridgeFacets() []Facet {
	device, _, _ := strings.Cut(r.text("machine.device"), "-")
	return []Facet{
		{By: "model, device and precision", Class: strings.Join([]string{r.text("model.preset"), device, r.text("train.precision")}, " "), few: true},
		{By: "CUDA graphs", Class: cmp.Or(r.text("graphs"), "none")},
	}
}

// bridgeRecords lists the rows that are replayed.
func bridgeRecords() []record {
	return slices.DeleteFunc(records("bridge.csv"), func(r record) bool {
		return r.text("kind") != "Pre-Training" || r.text("precision") == "" || r.bridgeModel() == nil
	})
}

// A bridgeModel is a model of the summaries: how its name begins there, its preset and its
// blocks.
type bridgeModel struct {
	name, preset string
	blocks       int
	uneven       bool // the first stage is as long as the others, whatever is left to the last
}

func (r record) bridgeModel() *bridgeModel {
	models := []bridgeModel{
		{name: "LLAMA3_8B", preset: "llama3-8b", blocks: 32}, {name: "LLAMA3_70B", preset: "llama3-70b", blocks: 80},
		{name: "LLAMA3.1_405B", preset: "llama3-405b", blocks: 126}, {name: "DeepSeekV3", preset: "deepseek-v3", blocks: 61, uneven: true},
		{name: "Qwen3_30B", preset: "qwen3-30b-a3b", blocks: 48}, {name: "Qwen3_235B", preset: "qwen3-235b-a22b", blocks: 94},
		{name: "GPT OSS 120B", preset: "gpt-oss-120b", blocks: 36},
	}
	i := slices.IndexFunc(models, func(m bridgeModel) bool { return strings.HasPrefix(r.text("model"), m.name) })
	if i < 0 {
		return nil
	}
	return &models[i]
}

// bridge makes a training run of a row: what it prints as keys of a configuration, and
// what the recipes say beside.
func (r record) bridge() record {
	made := record{r.file, r.line, map[string]string{}}
	set := func(key, value string) { made.cells[key] = value }
	stages, data := r.count("pp"), r.count("gpus")/r.count("tp")/r.count("pp")/r.count("cp")
	precision := r.bridgePrecision()
	set("row", strings.Join([]string{r.text("release"), r.text("model"), r.text("system"), precision, "gpus=" + r.text("gpus"), "b=" + r.text("global_batch") + "/" + r.text("micro_batch"), fmt.Sprintf("t=%s p=%d v=%s c=%s d=%d e=%s", r.text("tp"), stages, r.text("vp"), r.text("cp"), data, r.text("ep"))}, " "))
	set("seconds", r.text("step_s_derived"))
	for key, column := range map[string]string{
		"model.sequence_length": "seq", "batch.global": "global_batch", "batch.micro": "micro_batch",
		"parallel.tensor": "tp", "parallel.context": "cp", "parallel.expert": "ep",
	} {
		if value := r.text(column); value != "n/a" && (value != "1" || column == "micro_batch" || column == "tp") {
			set(key, value)
		}
	}
	set("parallel.data", strconv.Itoa(data))
	set("parallel.sequence", strconv.FormatBool(r.text("tp") != "1"))
	set("parallel.zero", "1")
	set("model.preset", r.bridgeModel().preset)
	set("train.stack", "megatron-te")
	set("train.precision", precision)
	set("train.optimizer", "adamw")
	set("train.clip", "true")
	set("schedule.name", "1f1b")
	set("schedule.stages", strconv.Itoa(stages))
	r.bridgeRule(made)
	r.bridgeStages(made)
	for key, value := range bridgeMachine(r.text("system")) {
		set(key, value)
	}
	return made
}

// bridgePrecision returns the precision as train.precision names it; FP8 and FP8-CS are
// scaled by tensor.
func (r record) bridgePrecision() string {
	return map[string]string{"BF16": "bf16", "FP8": "fp8", "FP8-CS": "fp8", "MXFP8": "mxfp8", "FP8-MX": "mxfp8", "NVFP4": "nvfp4"}[r.text("precision")]
}

// bridgeRule sets what the first rule that the row matches says.
func (r record) bridgeRule(made record) {
	matches := func(rule record) bool {
		for _, column := range []string{"system", "precision", "micro_batch"} {
			if rule.text(column) != "" && rule.text(column) != r.text(column) {
				return false
			}
		}
		return strings.HasPrefix(r.text("model"), rule.text("model")) && r.text("release") >= rule.text("release")
	}
	for _, rule := range records("bridge_rules.csv") {
		if !matches(rule) {
			continue
		}
		for key, value := range rule.cells {
			if strings.Contains(key, ".") && value != "" {
				made.cells[key] = strings.ReplaceAll(value, " ", ",")
			}
		}
		made.cells["graphs"], made.cells["used"] = rule.text("graphs"), rule.text("used")
		return
	}
}

// bridgeStages sets the schedule: FSDP, or stages of as many blocks each as Megatron gives
// them, where the embedding and the loss count as a block each if blocks do not divide.
func (r record) bridgeStages(made record) {
	if fsdp, _ := strconv.Atoi(r.text("fsdp")); fsdp > 0 {
		made.cells["schedule.name"], made.cells["parallel.zero"] = "ddp", "3"
		return
	}
	stages := r.count("pp")
	if v, _ := strconv.Atoi(r.text("vp")); v > 1 && stages > 1 {
		made.cells["schedule.name"], made.cells["schedule.virtual_stages"] = "interleaved-1f1b", r.text("vp")
		stages *= v
	}
	if stages == 1 {
		return
	}
	predictors, _ := strconv.Atoi(made.cells["model.mtp_layers"])
	made.cells["schedule.partition"] = "[" + strings.Join(r.bridgeModel().partition(stages, predictors), " ") + "]"
}

// partition returns the layers of every stage: blocks, the embedding before them, and
// predictors, norm and head after them. Blocks that do not divide evenly leave less to the
// first and to the last stage.
func (m bridgeModel) partition(stages, predictors int) []string {
	each := (m.blocks + stages - 1) / stages
	ends := m.blocks - (stages-2)*each // of the first and the last stage
	first := min(each, (ends+1)/2)
	if m.uneven {
		first = min(each, ends)
	}
	list := slices.Repeat([]string{strconv.Itoa(each)}, stages)
	list[0], list[stages-1] = strconv.Itoa(1+first), strconv.Itoa(ends-first+predictors+2)
	return list
}

// bridgeMachine returns what a system is: boxes of eight GPUs, or racks whose NVLink joins
// 72, of which runs use 64.
func bridgeMachine(system string) map[string]string {
	node, network := "8", "ib-ndr"
	switch system {
	case "DGX-GB200":
		node = "64"
	case "DGX-GB300":
		node, network = "64", "ib-xdr"
	case "DGX-B300":
		network = "ib-xdr"
	}
	device := map[string]string{"DGX-H100": "h100-80gb-sxm", "DGX-B200": "b200-180gb-sxm", "DGX-B300": "b300-270gb-sxm", "DGX-GB200": "gb200-nvl72", "DGX-GB300": "gb300-nvl72"}[system]
	return map[string]string{"machine.device": device, "machine.devices_per_node": node, "machine.network": network, "machine.nics_per_node": node}
}

// dense keeps the rows without experts, of which CUDA graphs are no matter.
func dense(list []record) []record {
	return slices.DeleteFunc(list, func(r record) bool { return r.text("graphs") != "" })
}

// bridgeUsed lists the rows on a chip that something of a precision is fitted to.
func bridgeUsed(chip string, precisions ...string) (list []record) {
	for _, r := range bridgeRecords() {
		made := r.bridge()
		if made.text("used") != "" && strings.HasPrefix(made.text("machine.device"), chip+"-") && slices.Contains(precisions, made.text("train.precision")) {
			list = append(list, made)
		}
	}
	return list
}
