package export_test

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim"
	"psim/configs"
	"psim/export"
	"psim/launch"
)

// A plan has values of TOML by dotted key.
type drawn map[string]any

// text writes a drawn plan as a configuration.
func (d drawn) text() []byte {
	sections := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(d)) {
		section, name, _ := strings.Cut(key, ".")
		value := fmt.Sprintf("%v", d[key])
		if s, ok := d[key].(string); ok && !strings.HasPrefix(s, "[") {
			value = fmt.Sprintf("%q", s)
		}
		sections[section] += name + " = " + value + "\n"
	}
	text := ""
	for _, section := range slices.Sorted(maps.Keys(sections)) {
		text += "[" + section + "]\n" + sections[section]
	}
	return []byte(text)
}

// pick draws one of a list.
func pick[T any](t *rapid.T, label string, list ...T) T {
	return rapid.SampledFrom(list).Draw(t, label)
}

// drawPlan draws a plan that Megatron-LM has arguments for.
func drawPlan(t *rapid.T) drawn {
	heads := pick(t, "heads", 4, 8, 16)
	d := drawn{
		"model.family": pick(t, "family", "gpt", "llama", "llama", "mixtral"), "model.heads": heads,
		"model.hidden": heads * 64, "model.layers": pick(t, "layers", 4, 8, 16), "model.vocab": pick(t, "vocab", 1024, 32000, 50304),
		"model.sequence_length": pick(t, "sequence", 256, 1024), "model.ffn_hidden": pick(t, "ffn", 512, 1408),
		"model.dropout": pick(t, "dropout", 0.0, 0.1), "model.tied": rapid.Bool().Draw(t, "tied"),
		"machine.device": "h100-80gb-sxm", "machine.devices_per_node": 8, "machine.network": "ib-ndr",
		"train.stack": pick(t, "stack", "megatron-te", "megatron-te", "megatron-2023"), "train.clip": rapid.Bool().Draw(t, "clip"),
		"train.optimizer": pick(t, "optimizer", "adamw", "sgd", "sgd-momentum", "lion"),
		"train.recompute": pick(t, "recompute", "none", "selective", "full"),
		"batch.micro":     pick(t, "micro", 1, 2),
	}
	modern := d["train.stack"] == "megatron-te"
	drawNetwork(t, d, modern)
	drawGroups(t, d, modern)
	precisions := []string{"fp32", "bf16", "bf16", "fp16"}
	if modern {
		precisions = append(precisions, "fp8", "mxfp8")
	}
	if d["train.precision"] = pick(t, "precision", precisions...); d["train.precision"] != "fp32" {
		d["train.gradients"] = pick(t, "gradients", "fp32", "bf16")
		if d["train.precision"] == "fp16" && d["train.gradients"] == "bf16" {
			d["train.gradients"] = "fp16"
		}
	}
	if d["train.precision"] == "fp8" {
		d["train.fp8_recipe"] = pick(t, "recipe", "delayed", "current", "blockwise")
		d["train.weights"] = pick(t, "weights", "8-bit", "16-bit")
		d["train.bf16_first"], d["train.bf16_last"] = pick(t, "first in bf16", 0, 1), pick(t, "last in bf16", 0, 1)
	}
	if d["train.recompute"] == "full" && rapid.Bool().Draw(t, "by block") {
		d["train.recompute_method"], d["train.recompute_layers"] = pick(t, "method", "uniform", "block"), pick(t, "repeated", 1, 2)
	}
	if modern && d["model.family"] != "gpt" && rapid.Bool().Draw(t, "by module") {
		d["train.recompute"] = pick(t, "modules", `["norm"]`, `["core_attn", "norm"]`)
		delete(d, "train.recompute_method")
		delete(d, "train.recompute_layers")
	}
	return d
}

// drawNetwork draws what a block is made of.
func drawNetwork(t *rapid.T, d drawn, modern bool) {
	d["model.kv_heads"] = pick(t, "groups", 1, 2, 1) * d["model.heads"].(int) / 2
	switch d["model.family"] {
	case "gpt":
		d["model.kv_heads"] = d["model.heads"]
	case "mixtral":
		d["model.experts"], d["model.experts_per_token"] = pick(t, "experts", 4, 8), pick(t, "active", 1, 2)
		d["model.expert_hidden"] = pick(t, "expert", 256, 512)
		d["model.shared_experts"], d["model.router_bias"] = pick(t, "shared", 0, 1, 2), rapid.Bool().Draw(t, "router bias")
		if dense := pick(t, "dense", 0, 1, 2); dense > 0 {
			d["model.dense_layers"] = dense
		} else {
			d["model.moe_every"] = pick(t, "every", 1, 2)
		}
		if rapid.Bool().Draw(t, "full experts") {
			d["model.capacity"] = pick(t, "capacity", 1.0, 1.25)
		}
	}
	if d["model.family"] != "gpt" {
		d["model.norm"] = "rms"
		d["model.linear_bias"], d["model.qkv_bias"] = false, rapid.Bool().Draw(t, "qkv bias")
		d["model.qk_norm"] = rapid.Bool().Draw(t, "qk norm")
		if rapid.IntRange(0, 3).Draw(t, "wide heads") == 0 {
			d["model.head_dim"] = 128
		}
		if rapid.IntRange(0, 3).Draw(t, "windows") == 0 {
			d["model.window"], d["model.full_attention_every"] = 128, 2
		}
	}
	d["model.attention"] = "flash"
	if modern && rapid.IntRange(0, 3).Draw(t, "unfused") == 0 {
		d["model.attention"] = "unfused"
	}
}

// drawGroups draws the groups of devices, the pipeline and the batch.
func drawGroups(t *rapid.T, d drawn, modern bool) {
	tensor, stages, data := pick(t, "tensor", 1, 2, 4), pick(t, "stages", 1, 2, 4), pick(t, "data", 1, 2, 4)
	d["parallel.tensor"], d["parallel.data"], d["schedule.stages"] = tensor, data, stages
	d["parallel.sequence"] = tensor > 1 && (d["model.family"] == "mixtral" || rapid.Bool().Draw(t, "sequence parallelism"))
	context := 1
	if modern && d["model.attention"] == "flash" {
		context = pick(t, "context", 1, 1, 2)
		d["parallel.context"], d["parallel.context_method"] = context, pick(t, "method", "ring", "all-gather", "ulysses")
	}
	if d["model.family"] == "mixtral" && modern {
		d["parallel.expert"] = pick(t, "expert group", 1, min(2, tensor*context*data))
		d["parallel.expert_tensor"] = pick(t, "expert tensor", 1, 1, tensor)
		d["parallel.dispatcher"] = pick(t, "dispatcher", "alltoall", "deepep")
	}
	d["parallel.zero"] = pick(t, "zero", 0, 1)
	if data > 1 {
		d["parallel.overlap"] = rapid.Bool().Draw(t, "overlap")
		if d["parallel.zero"] == 1 {
			d["parallel.overlap_gather"] = d["parallel.overlap"].(bool) && rapid.Bool().Draw(t, "gather")
		}
		if modern {
			d["parallel.bucket"] = pick(t, "bucket", "134217728 gradients", "1000000 gradients")
		}
	}
	d["parallel.order"] = pick(t, "order", "tp-dp-pp", "tp-pp-dp")
	rounds := pick(t, "rounds", 1, 2, 3)
	d["batch.global"] = d["batch.micro"].(int) * data * stages * rounds
	d["schedule.name"], d["schedule.partition"] = "1f1b", "blocks"
	switch layers := d["model.layers"].(int); {
	case stages == 1:
		d["schedule.name"] = "ddp"
		delete(d, "schedule.stages")
		delete(d, "schedule.partition")
	case layers%(2*stages) == 0 && rapid.Bool().Draw(t, "interleaved"):
		d["schedule.name"], d["schedule.virtual_stages"] = "interleaved-1f1b", 2
	case rapid.Bool().Draw(t, "uneven"):
		d["schedule.last_blocks"] = 1
		d["schedule.first_blocks"] = layers - 1 - (stages-2)*1
		if stages > 2 {
			d["schedule.first_blocks"] = layers/stages + 1
			d["schedule.last_blocks"] = layers - (layers/stages + 1) - (stages-2)*(layers/stages)
		}
		if d["schedule.last_blocks"].(int) < 1 {
			delete(d, "schedule.first_blocks")
			delete(d, "schedule.last_blocks")
		}
	case rapid.Bool().Draw(t, "balanced"):
		d["schedule.partition"] = "balanced"
	}
}

// TestMegatronIsImported: a script that was written is read as the plan that it was written for. What the export compares
// by itself is compared here once more, by what the two predict.
func TestMegatronIsImported(t *testing.T) {
	written := 0
	rapid.Check(t, func(t *rapid.T) {
		d := drawPlan(t)
		c, err := configs.Parse("plan.toml", d.text())
		if err != nil {
			t.Skip(err)
		}
		if _, err := c.BuildFor(t.Context(), configs.BuildOptions{Folded: true, Brief: true}); err != nil {
			t.Skip(err)
		}
		var script bytes.Buffer
		_, err = export.WriteMegatron(t.Context(), &script, c)
		if d["schedule.partition"] == "balanced" && err != nil {
			require.ErrorContains(t, err, "schedule.partition", "a layout cannot part the last norm and the head")
			return
		}
		require.NoError(t, err, "%s", d.text())
		alike(t, c, imported(t, script.Bytes()), true)
		written++
	})
	require.NotZero(t, written)
}

// TestMegatronIsPatched: the script of one plan becomes that of another plan of the same network by a patch.
func TestMegatronIsPatched(t *testing.T) {
	patched := 0
	rapid.Check(t, func(t *rapid.T) {
		one := drawPlan(t)
		two := maps.Clone(one)
		for key := range two {
			if section, _, _ := strings.Cut(key, "."); section == "parallel" || section == "schedule" {
				delete(two, key)
			}
		}
		drawGroups(t, two, two["train.stack"] == "megatron-te")
		devices := func(d drawn) int {
			n := 1
			for _, key := range []string{"parallel.tensor", "parallel.data", "parallel.context", "schedule.stages"} {
				if size, ok := d[key].(int); ok {
					n *= size
				}
			}
			return n
		}
		if devices(one) != devices(two) {
			t.Skip("a plan for other devices")
		}
		var script bytes.Buffer
		var both [2]*configs.Config
		for i, d := range []drawn{two, one} { // which leaves the first one's script
			c, err := configs.Parse("plan.toml", d.text())
			if err != nil {
				t.Skip(err)
			}
			script.Reset()
			if _, err := export.WriteMegatron(t.Context(), &script, c); err != nil {
				t.Skip(err)
			}
			both[1-i] = c
		}
		files := []launch.Input{{Label: "run.sh", Data: script.Bytes()}}
		_, err := export.PatchMegatron(t.Context(), both, files, launch.Options{})
		require.NoError(t, err, "%s\n%s\n%s", one.text(), two.text(), script.Bytes())
		patched++
	})
	require.NotZero(t, patched)
}

// TestMegatronRefuses: a key that Megatron-LM has no argument for is named.
func TestMegatronRefuses(t *testing.T) {
	for set, key := range map[string]string{
		"schedule.name=zb-h1": "schedule.name", "schedule.name=gpipe": "schedule.name",
		"parallel.dispatch=fp8":  "",
		"parallel.overlap=false": "", "parallel.overlap=false parallel.overlap_gather=true": "parallel.overlap_gather",
		"train.offload_activations=8 train.recompute=full schedule.name=ddp schedule.stages=1": "train.offload_activations", "parallel.bucket=25MB": "parallel.bucket",
		"parallel.tensor_overlap=false": "parallel.tensor_overlap", "model.activation=gelu": "model.activation",
		"model.position_embedding=alibi": "model.position_embedding", "model.loss=chunked": "model.loss",
		"model.kernels=eager": "model.kernels", "model.post_norms=true": "model.post_norms",
		"train.optimizer=adamw-8bit": "train.optimizer", "train.detect_anomaly=true": "train.detect_anomaly",
		"train.selective=operations": "train.selective", `train.frozen=["embedding"]`: "train.frozen",
		"machine.devices_per_node=48": "machine.devices_per_node",
	} {
		c, err := configs.Load("llama3-70b", strings.Fields(set)...)
		require.NoError(t, err, set)
		var script bytes.Buffer
		_, err = export.WriteMegatron(t.Context(), &script, c)
		if key == "" { // it has no effect here, or another key follows it
			require.NoError(t, err, set)
			continue
		}
		require.ErrorContains(t, err, key+": export megatron: ", set)
		require.Empty(t, script.Bytes())
	}
	c, err := configs.Load("course-timeline")
	require.NoError(t, err)
	_, err = export.WriteMegatron(t.Context(), &bytes.Buffer{}, c)
	require.ErrorContains(t, err, "model: ")
}

// TestMegatronPresets: networks of the catalog that Megatron-LM trains are read back as they are.
func TestMegatronPresets(t *testing.T) {
	for _, name := range []string{"gpt2", "llama3-8b", "mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v3", "gpt-oss-120b"} {
		c, err := configs.LoadOn(name, configs.Target{Device: "h100-80gb-sxm"})
		require.NoError(t, err)
		_, err = export.WriteMegatron(t.Context(), &bytes.Buffer{}, c)
		require.NoError(t, err)
	}
}

// TestMegatronSaysWhatItLeavesAside: what the host does without an argument of Megatron-LM's is said.
func TestMegatronSaysWhatItLeavesAside(t *testing.T) {
	for graphs, said := range map[string]bool{"none": false, "all": true} {
		c, err := configs.Load("llama3-70b", "machine.host.graphs="+graphs)
		require.NoError(t, err)
		followed, err := export.WriteMegatron(t.Context(), &bytes.Buffer{}, c)
		require.NoError(t, err)
		require.Equal(t, said, strings.Contains(strings.Join(followed.Changes, "\n"), `machine.host.graphs = "all"`), followed.Changes)
	}
}

// TestMegatronCounts: of the arguments that are written, Megatron-LM's own formulas give psim's FLOPs of a step and its
// parameters. They know no biases, no norms of heads and no windows.
func TestMegatronCounts(t *testing.T) {
	counted, ranks := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		d := drawPlan(t)
		for _, key := range []string{"qkv_bias", "qk_norm", "router_bias", "window", "full_attention_every"} {
			delete(d, "model."+key)
		}
		if d["model.family"] == "gpt" {
			d["model.linear_bias"], d["model.position_embedding"] = false, "rotary"
		}
		c, err := configs.Parse("plan.toml", d.text())
		if err != nil {
			t.Skip(err)
		}
		p, err := psim.Estimate(t.Context(), c)
		if err != nil {
			t.Skip(err)
		}
		list, err := export.Megatron(t.Context(), c)
		if err != nil {
			t.Skip(err) // TestMegatronIsImported says when
		}
		m := megatronFormulas{}
		for _, a := range list {
			m[a.Name] = a.Value
		}
		require.Equal(t, float64(p.Result.Parameters), m.parameters(), "%s", d.text())
		require.InEpsilon(t, float64(p.Result.ModelFLOPs), m.flops(), 1e-9, "%s", d.text())
		if even := d["schedule.partition"] != "balanced" && d["schedule.first_blocks"] == nil; even &&
			d["model.dense_layers"] == nil && d["model.moe_every"] != 2 {
			held := 0.0
			for _, stage := range p.Experiment.Staged.Stages {
				if stage.Ranks[0] == 0 && d["parallel.zero"] != 3 {
					held += float64(stage.Parameters)
				}
			}
			require.InDelta(t, held, m.first(), 0.5, "%s", d.text())
			ranks++
		}
		counted++
	})
	require.NotZero(t, counted)
	require.NotZero(t, ranks)
}

// megatronFormulas are arguments by name.
type megatronFormulas map[string]string

func (m megatronFormulas) number(name string) float64 {
	f, _ := strconv.ParseFloat(m[name], 64)
	return f
}

// sizes returns the weights of attention, of a dense MLP and of an expert, and how many layers have experts.
func (m megatronFormulas) sizes() (attention, dense, expert, mixtures float64) {
	hidden, heads, each := m.number("hidden_size"), m.number("num_attention_heads"), m.number("kv_channels")
	if each == 0 {
		each = hidden / heads
	}
	groups := heads
	if m["group_query_attention"] == "True" {
		groups = m.number("num_query_groups")
	}
	products := 2.0
	if m["swiglu"] == "True" {
		products = 3
	}
	wide := m.number("moe_ffn_hidden_size")
	if wide == 0 {
		wide = m.number("ffn_hidden_size")
	}
	layers := m.number("num_layers")
	if m["num_experts"] != "" {
		mixtures = layers
		var without, with float64
		if n, _ := fmt.Sscanf(m["moe_layer_freq"], "([0]*%f+[1]*%f)", &without, &with); n == 2 {
			mixtures = with
		} else if every := m.number("moe_layer_freq"); every > 1 {
			mixtures = math.Ceil(layers / every)
		}
	}
	return 2 * hidden * each * (heads + groups), products * hidden * m.number("ffn_hidden_size"), products * hidden * wide, mixtures
}

// parameters is num_total_parameters of megatron/training/theoretical_memory_usage.py.
func (m megatronFormulas) parameters() float64 {
	hidden, layers := m.number("hidden_size"), m.number("num_layers")
	attention, dense, expert, mixtures := m.sizes()
	norm := 2.0
	if m["normalization"] == "RMSNorm" {
		norm = 1
	}
	tables := 2.0
	if m["untie_embeddings_and_output_weights"] != "True" {
		tables = 1
	}
	shared := 0.0
	if mixtures > 0 {
		shared = expert / m.wide() * m.number("moe_shared_expert_intermediate_size")
	}
	return layers*(attention+2*hidden*norm) + (layers-mixtures)*dense +
		mixtures*(expert*m.number("num_experts")+shared+hidden*m.number("num_experts")) +
		norm*hidden + tables*hidden*m.number("vocab_size")
}

// first is num_parameters_on_most_loaded_model_shard of the same file, which is the first one's: its embedding, and its
// share of the blocks, whose norms and routers no group divides. The last norm is counted where it is.
func (m megatronFormulas) first() float64 {
	hidden, layers := m.number("hidden_size"), m.number("num_layers")
	attention, dense, expert, mixtures := m.sizes()
	shared, norm := 0.0, 2.0
	if mixtures > 0 {
		shared = expert / m.wide() * m.number("moe_shared_expert_intermediate_size")
	}
	if m["normalization"] == "RMSNorm" {
		norm = 1
	}
	stages, tensor := m.number("pipeline_model_parallel_size"), m.number("tensor_model_parallel_size")
	divided := (layers*attention+(layers-mixtures)*dense+mixtures*shared)/stages + hidden*m.number("vocab_size")
	whole := (layers*2*hidden*norm + mixtures*hidden*m.number("num_experts")) / stages
	if stages == 1 {
		whole += norm * hidden
		if m["untie_embeddings_and_output_weights"] == "True" {
			divided += hidden * m.number("vocab_size")
		}
	}
	experts := 0.0
	if mixtures > 0 {
		experts = mixtures * expert * m.number("num_experts") / stages /
			(m.number("expert_model_parallel_size") * m.number("expert_tensor_parallel_size"))
	}
	return divided/tensor + whole + experts
}

// wide is the width of an expert.
func (m megatronFormulas) wide() float64 {
	if wide := m.number("moe_ffn_hidden_size"); wide > 0 {
		return wide
	}
	return m.number("ffn_hidden_size")
}

// flops is num_floating_point_operations of megatron/training/training.py, with the whole square of attention.
func (m megatronFormulas) flops() float64 {
	hidden, layers, sequence := m.number("hidden_size"), m.number("num_layers"), m.number("seq_length")
	attention, dense, expert, mixtures := m.sizes()
	each := m.number("kv_channels")
	if each == 0 {
		each = hidden / m.number("num_attention_heads")
	}
	shared := 0.0
	if mixtures > 0 {
		shared = expert / m.wide() * m.number("moe_shared_expert_intermediate_size")
	}
	perToken := layers*attention + (layers-mixtures)*dense +
		mixtures*(expert*m.number("moe_router_topk")+shared) + hidden*m.number("vocab_size") +
		mixtures*hidden*m.number("num_experts") // the routers, which Megatron-LM leaves out and psim counts
	core := 2 * layers * each * m.number("num_attention_heads") * sequence
	return 6 * m.number("global_batch_size") * sequence * (perToken + core)
}
