package launch_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
	"psim/export"
	"psim/launch"
)

// TestFunctional reads every model_config.yaml of GPT and mixtures in a checkout of Megatron-LM (make megatron),
// prints what is refused and why, and wants nine of ten read. Each that is a configuration of psim's is written as a script
// again, which is read back and compared.
func TestFunctional(t *testing.T) {
	checkout := os.Getenv("PSIM_MEGATRON")
	if checkout == "" {
		t.Skip("PSIM_MEGATRON names no checkout of Megatron-LM: make megatron")
	}
	read, written, all := 0, 0, 0
	for _, family := range []string{"gpt", "moe", "mixtral", "nemotron"} {
		names, err := filepath.Glob(filepath.Join(checkout, "tests/functional_tests/test_cases", family, "*/model_config.yaml"))
		require.NoError(t, err)
		require.NotEmpty(t, names)
		for _, name := range names {
			data, err := os.ReadFile(name)
			require.NoError(t, err)
			label := filepath.Base(filepath.Dir(name))
			i, err := launch.Read([]launch.Input{{Label: label, Data: data}}, launch.Options{})
			if all++; err != nil {
				t.Log(err)
				continue
			}
			require.NotEmpty(t, i.Config["model"], label)
			read++
			i.Config["machine"] = map[string]any{"device": "h100-80gb-sxm", "devices_per_node": 8, "network": "ib-ndr"}
			var text bytes.Buffer
			require.NoError(t, configs.WriteObject(&text, nil, i.Config))
			c, err := configs.Parse(label, text.Bytes())
			if err == nil {
				_, err = c.Build()
			}
			if err != nil {
				t.Log(err)
				continue
			}
			_, err = export.WriteMegatron(t.Context(), io.Discard, c)
			require.NoError(t, err, label)
			written++
		}
	}
	t.Logf("%d of %d are read, and %d written again", read, all, written)
	require.Greater(t, written, read*9/10)
	require.Greater(t, read, all*9/10)
}

// submissionDevice returns the device that a file of a submission is for, by its name.
func submissionDevice(name string) string {
	for _, d := range [][2]string{
		{"MI300X", "mi300x"}, {"MI325X", "mi325x"}, {"MI355X", "mi355x"}, {"MI350X", "mi355x"}, {"GB300", "gb300-nvl72"},
		{"GB200", "gb200-nvl72"}, {"B300", "b300-270gb-sxm"}, {"B200", "b200-180gb-sxm"}, {"H200", "h200-141gb-sxm"},
	} {
		if strings.Contains(filepath.Base(name), d[0]) {
			return d[1]
		}
	}
	if strings.Contains(name, "fp4") {
		return "b300-270gb-sxm"
	}
	return "h100-80gb-sxm"
}

// developed lists, by round of MLPerf Training, the submitters whose results psim is developed with. Those of the others
// stay unread, as the check.
var developed = map[string][]string{
	"4.1": {"Azure", "Dell", "GigaComputing", "NVIDIA"},
	"5.0": {"AMD", "Dell", "GigaComputing", "IBM+CoreWeave+NVIDIA", "Lambda", "MangoBoost", "NVIDIA", "Nebius", "QCT", "SCITIX"},
	"5.1": {"AMD", "Dell", "GigaComputing", "Lambda", "MangoBoost", "Nebius", "University-of-Florida", "Wiwynn"},
}

// TestSubmissions reads every config_*.sh and every log of language models of some submitters in a checkout of MLPerf
// Training's results (make mlperf), prints what is refused and why, and wants nine of ten read and priced.
func TestSubmissions(t *testing.T) {
	checkout := os.Getenv("PSIM_MLPERF")
	if checkout == "" {
		t.Skip("PSIM_MLPERF names no checkout of MLPerf Training's results: make mlperf")
	}
	submitters := developed[os.Getenv("PSIM_MLPERF_ROUND")]
	require.NotEmpty(t, submitters, "PSIM_MLPERF_ROUND is the round")
	scripts, logs := languageFiles(t, checkout, submitters)
	require.NotEmpty(t, scripts)
	read, priced, stepped, parts := 0, 0, 0, 0
	for _, name := range scripts {
		data, err := os.ReadFile(filepath.Join(checkout, name))
		require.NoError(t, err)
		if text := string(data); !strings.Contains(text, "MINIBS") && !strings.Contains(text, "GBS") && !strings.Contains(text, "source ") {
			parts++ // of a configuration, such as config_fp8.sh
			continue
		}
		i, err := readSubmission(t, checkout, name)
		if err != nil {
			t.Log(err)
			continue
		}
		read++
		i.Config["machine"] = map[string]any{"device": submissionDevice(name), "network": "ib-ndr", "nics_per_node": i.EachNode, "devices_per_node": i.EachNode}
		var text bytes.Buffer
		require.NoError(t, configs.WriteObject(&text, nil, i.Config))
		c, err := configs.Parse(name, text.Bytes())
		if err == nil {
			_, err = c.Build()
		}
		if err != nil {
			t.Log(err)
			continue
		}
		priced++
	}
	for _, name := range logs {
		data, err := os.ReadFile(filepath.Join(checkout, name))
		require.NoError(t, err)
		if s := launch.Steps(data); s != nil && s.StepTime > 0 {
			stepped++
		} else {
			t.Log(name, launch.Lacks(data))
		}
	}
	t.Logf("%d of %d configurations are read and %d priced; of %d logs %d say how long a step took", read, len(scripts)-parts, priced, len(logs), stepped)
	require.Greater(t, priced, (len(scripts)-parts)*9/10)
	require.GreaterOrEqual(t, stepped, len(logs)*9/10)
}

// languageFiles lists the configurations and logs of submitters that are of language models.
func languageFiles(t *testing.T, checkout string, submitters []string) (scripts, logs []string) {
	t.Helper()
	err := filepath.WalkDir(checkout, func(path string, d os.DirEntry, err error) error {
		name, err2 := filepath.Rel(checkout, path)
		base := filepath.Base(name)
		submitter, _, _ := strings.Cut(name, "/")
		of := (strings.Contains(name, "llama") || strings.Contains(name, "gpt3")) && slices.Contains(submitters, submitter)
		common := strings.Contains(base, "common") || strings.Contains(base, "mounts") || strings.HasPrefix(base, "config_net")
		switch {
		case err != nil || err2 != nil || d.IsDir() || !of:
		case strings.Contains(name, "/benchmarks/") && strings.HasPrefix(base, "config") && strings.HasSuffix(base, ".sh") && !common:
			scripts = append(scripts, name)
		case strings.Contains(name, "/results/") && strings.HasPrefix(base, "result_") && strings.HasSuffix(base, ".txt"):
			logs = append(logs, name)
		}
		return err
	})
	require.NoError(t, err)
	return scripts, logs
}

// readSubmission reads a configuration with the other scripts of its folder.
func readSubmission(t *testing.T, checkout, name string) (*launch.Import, error) {
	t.Helper()
	files := []launch.Input{}
	beside, err := filepath.Glob(filepath.Join(checkout, filepath.Dir(name), "*.sh"))
	require.NoError(t, err)
	for _, path := range append([]string{filepath.Join(checkout, name)}, beside...) {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		label, err := filepath.Rel(checkout, path)
		require.NoError(t, err)
		if len(files) == 0 || label != name {
			files = append(files, launch.Input{Label: label, Data: data})
		}
	}
	i, err := launch.Read(files, launch.Options{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return i, nil
}

// TestPublic: public scripts, written anew with the same flags and values, become what their authors say of the runs: how
// many parameters their networks have (by the cards of Llama 3 8B, Mixtral 8x7B, Qwen2.5 7B, DeepSeek-V3 and BLOOM, whose
// norm after the table of words psim has not; the script of Llama 3 has norms with biases), how devices are grouped, and how
// they compute.
func TestPublic(t *testing.T) {
	for _, c := range []struct {
		file, args string
		parameters int64
		vocab      int // where the tokenizer decides it
		unknown    int
		want       map[string]any
	}{
		{"gpt3-345m", "", 354_871_296, 50_304, 0, map[string]any{
			"parallel.data": 8, "batch.global": 64, "batch.micro": 8, "train.recompute": "full", "train.precision": "fp16", "schedule.name": "ddp",
		}},
		{"gpt3-175b", "", 174_604_259_328 + 47*12288, 50_304, 0, map[string]any{
			"parallel.data": 8, "parallel.tensor": 8, "schedule.stages": 16, "batch.global": 1536, "batch.micro": 1, "train.recompute": "none", "train.precision": "fp16",
			"schedule.name": "1f1b", "parallel.zero": 0, "model.tied": true, "train.stack": "megatron-te", "model.attention": "flash",
		}},
		{"llama3-8b", "", 8_030_261_248 + 65*4096, 0, 0, map[string]any{
			"parallel.data": 8, "batch.global": 128, "train.precision": "fp8", "train.fp8_recipe": "delayed", "train.weights": "8-bit", "parallel.zero": 1, "parallel.overlap": true,
			"parallel.overlap_gather": true, "model.kv_heads": 8, "model.sequence_length": 8192, "train.gradients": "bf16", "train.optimizer": "adamw",
		}},
		{"mixtral-8x7b", "", 46_702_792_704, 0, 0, map[string]any{
			"parallel.data": 16, "parallel.expert": 8, "schedule.stages": 4, "model.experts": 8, "model.experts_per_token": 2, "batch.global": 256, "train.precision": "bf16",
		}},
		{"bloom-176b", "", 176_247_271_424 - 2*14336, 0, 0, map[string]any{
			"parallel.data": 8, "parallel.tensor": 4, "schedule.stages": 12, "parallel.zero": 1, "train.stack": "megatron-deepspeed", "train.recompute": "full",
			"model.position_embedding": "alibi", "batch.micro": 2, "batch.global": 2048, "train.precision": "bf16", "model.attention": "unfused",
			"schedule.partition": []int{6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 7},
		}},
		{"llama2", "", 0, 32_000, 0, map[string]any{
			"parallel.data": 2, "parallel.tensor": 2, "schedule.stages": 2, "train.stack": "megatron-deepspeed", "model.kv_heads": 4, "model.norm": "rms", "train.recompute": "none",
		}},
		{"qwen2.5", "7B 1 128 4096 bf16 2 1 1 true true true sel", 7_615_616_512, 152_064, 0, map[string]any{
			"parallel.data": 4, "parallel.tensor": 2, "parallel.sequence": true, "parallel.zero": 1, "train.recompute": "selective", "model.qkv_bias": true, "model.kv_heads": 4,
			"model.attention": "flash", "model.tied": false,
		}},
		{"qwen2.5", "72B 1 128 4096 fp8 8 1 1 true true true full", 72_706_203_648, 152_064, 0, map[string]any{
			"parallel.data": 1, "parallel.tensor": 8, "train.precision": "fp8", "train.recompute": "full",
		}},
		{"deepseek-v3", "32 1 16 8", 671_026_404_352 + 14_848, 129_280, 0, map[string]any{
			"parallel.data": 16, "parallel.expert": 8, "schedule.stages": 16, "model.experts": 256, "model.experts_per_token": 8, "model.shared_experts": 1, "model.dense_layers": 3,
			"model.q_lora_rank": 1536, "model.kv_lora_rank": 512, "model.qk_nope_head_dim": 128, "model.qk_rope_head_dim": 64, "model.v_head_dim": 128, "train.stack": "megatron-te",
		}},
	} {
		data, err := os.ReadFile(filepath.Join("testdata/public", c.file+".sh"))
		require.NoError(t, err)
		i, err := launch.Read([]launch.Input{{Label: c.file + ".sh", Data: data}}, launch.Options{Arguments: strings.Fields(c.args)})
		require.NoError(t, err, c.file)
		require.Equal(t, c.unknown, i.Unknown, "%s: %v", c.file, i.Ignored)
		for key, want := range c.want {
			section, name, _ := strings.Cut(key, ".")
			require.Equal(t, want, i.Config[section].(map[string]any)[name], "%s of %s", key, c.file)
		}
		if c.vocab > 0 {
			require.Contains(t, fmt.Sprint(i.Missing), "model.vocab", c.file)
			i.Config["model"].(map[string]any)["vocab"] = c.vocab
		}
		i.Config["machine"] = map[string]any{"device": "h100-80gb-sxm", "devices_per_node": 8, "network": "ib-ndr"}
		var text bytes.Buffer
		require.NoError(t, configs.WriteObject(&text, nil, i.Config))
		read, err := configs.Parse(c.file, text.Bytes())
		require.NoError(t, err, c.file)
		built, err := read.Build()
		require.NoError(t, err, c.file)
		if c.parameters > 0 {
			require.Equal(t, c.parameters, built.Network.Parameters(), c.file)
		}
	}
}
