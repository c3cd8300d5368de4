package launch_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
	"psim/launch"
	"psim/launch/understood"
)

// files reads files of testdata.
func files(t testing.TB, names ...string) (list []launch.Input) {
	t.Helper()
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(t, err)
		list = append(list, launch.Input{Label: name, Data: data})
	}
	return list
}

// TestScriptIsLog: a script gives the configuration that the log of its run gives.
func TestScriptIsLog(t *testing.T) {
	script, err := launch.Read(files(t, "run.sh", "common.sh"), launch.Options{})
	require.NoError(t, err)
	log, err := launch.Read(files(t, "train.log"), launch.Options{})
	require.NoError(t, err)
	require.Equal(t, log.Config, script.Config)
	both, err := launch.Read(files(t, "train.log", "run.sh", "common.sh"), launch.Options{})
	require.NoError(t, err)
	require.Empty(t, both.Differences)
	require.Equal(t, log.Config, both.Config)
	require.Equal(t, 1, log.Unknown, "my_own_flag is in no table")
	require.Equal(t, 1, script.Unknown)
	require.Equal(t, 64, log.Config["parallel"].(map[string]any)["data"].(int)*2*4)
}

// TestDifferences: what the script says otherwise than the log is named.
func TestDifferences(t *testing.T) {
	list := files(t, "train.log", "run.sh", "common.sh")
	list[2].Data = bytes.Replace(
		list[2].Data,
		[]byte("--global-batch-size 512"),
		[]byte("--global-batch-size 1024"),
		1,
	)
	i, err := launch.Read(list, launch.Options{})
	require.NoError(t, err)
	require.Equal(t, []understood.Difference{{From: "global_batch_size", Script: "1024", Log: "512"}}, i.Differences)
	require.Equal(t, 512, i.Config["batch"].(map[string]any)["global"], "the log says what ran")
}

// TestBeside: a file beside a script that nothing reads is named.
func TestBeside(t *testing.T) {
	list := append(files(t, "run.sh", "common.sh", "train.log"), launch.Input{Label: "accelerate.yaml", Data: []byte("distributed_type: FSDP\n")})
	i, err := launch.Read(list, launch.Options{})
	require.NoError(t, err)
	require.Contains(t, i.Ignored, understood.Ignored{From: "accelerate.yaml", Reason: "is not read: the script does not name it as a file of bash"})
}

// TestOtherLogs: what a log prints of its configuration is what ran; a file of the same form is compared with it.
func TestOtherLogs(t *testing.T) {
	network := files(t, "network.json")[0]
	log := files(t, "trainer.log")[0]
	alone, err := launch.Read([]launch.Input{log, network}, launch.Options{})
	require.NoError(t, err)
	require.Equal(t, 8, alone.Config["batch"].(map[string]any)["global"])
	require.Equal(t, "trainer", alone.Measured.Program)
	require.Equal(t, 128, alone.Config["model"].(map[string]any)["sequence_length"], "the network has no more positions")
	arguments := launch.Input{Label: "args.yaml", Data: []byte("per_device_train_batch_size: 2\ngradient_accumulation_steps: 2\nbf16: true\n")}
	both, err := launch.Read([]launch.Input{arguments, network, log}, launch.Options{})
	require.NoError(t, err)
	require.Equal(t, alone.Config, both.Config)
	require.Equal(t, []understood.Difference{
		{From: "bf16", Script: "true", Log: "false"}, {From: "per_device_train_batch_size", Script: "2", Log: "4"},
	}, both.Differences)

	dump := "[2022-12-20 08:26:20,101] [INFO] [config.py:1012:print]   world_size ................... 4\n" +
		"[2022-12-20 08:26:20,101] [INFO] [config.py:997:print_user_config]   json = {\n    \"train_batch_size\":32,\n    \"zero_optimization\":{\n        \"stage\":2\n    }\n}\n"
	log = files(t, "deepspeed.log")[0]
	log.Data = append([]byte(dump), log.Data...)
	i, err := launch.Read([]launch.Input{log, network}, launch.Options{})
	require.NoError(t, err)
	require.Equal(t, 4, i.Config["parallel"].(map[string]any)["data"])
	require.Equal(t, 2, i.Config["parallel"].(map[string]any)["zero"])

	log = files(t, "torchtitan.log")[0]
	dump = "[titan] 2026-05-18 16:00:00,000 - root - INFO - Running with configs: {\n  \"model\": {\"name\": \"llama3\", \"flavor\": \"8B\"},\n  \"training\": {\"seq_len\": 2048, \"local_batch_size\": 4},\n" +
		"  \"parallelism\": {\"tensor_parallel_degree\": 2},\n  \"activation_checkpoint\": {\"mode\": \"full\"}\n}\n"
	log.Data = append([]byte(dump), log.Data...)
	i, err = launch.Read([]launch.Input{log}, launch.Options{})
	require.NoError(t, err)
	require.Equal(t, 2, i.Config["parallel"].(map[string]any)["tensor"])
	require.Equal(t, "full", i.Config["train"].(map[string]any)["recompute"])
	titan := launch.Input{Label: "titan.toml", Data: []byte("[job]\n[training]\nseq_len = 4096\n[model]\nflavor = \"8B\"\n[parallelism]\ntensor_parallel_degree = 2\n")}
	i, err = launch.Read([]launch.Input{titan, log}, launch.Options{})
	require.NoError(t, err)
	require.Equal(t, []understood.Difference{{From: "training.seq_len", Script: "4096", Log: "2048"}}, i.Differences)
	script := launch.Input{Label: "run.sh", Data: []byte("torchrun --nproc_per_node 4 -m torchtitan.train --module llama3 --config llama3_8b --training.local_batch_size 1\n")}
	i, err = launch.Read([]launch.Input{script, log}, launch.Options{})
	require.NoError(t, err)
	require.Equal(t, 1, i.Config["batch"].(map[string]any)["micro"], "the script says what a log of that version does not print")
}

// TestMeasured: steps are medians without the start, and what no step took is kept apart.
func TestMeasured(t *testing.T) {
	i, err := launch.Read(files(t, "train.log"), launch.Options{})
	require.NoError(t, err)
	m := i.Measured
	require.InDelta(t, 5.2, m.StepTime, 1e-9)
	require.Equal(t, 7, m.Lines)
	require.Equal(t, 512, m.Batch)
	require.InDelta(t, 40, m.Lost, 1)
	require.False(t, m.Misread())
	require.InDelta(t, m.Throughput, m.Recomputed, 0.1)

	misread := files(t, "train.log")
	misread[0].Data = bytes.Replace(misread[0].Data, []byte(" 14336\n"), []byte(" 11008\n"), 1)
	i, err = launch.Read(misread, launch.Options{})
	require.NoError(t, err)
	require.True(t, i.Measured.Misread())
}

// TestSeveralRuns: lines of programs that do not train together are no log, whichever comes first.
func TestSeveralRuns(t *testing.T) {
	megatron, titan, trainer := files(t, "train.log")[0].Data, files(t, "torchtitan.log")[0].Data, files(t, "trainer.log")[0].Data
	for want, list := range map[string][][]byte{
		"log: has lines of Megatron-LM and torchtitan, which do not train together: cut it into a log of each": {titan, megatron},
		"log: has lines of torchtitan and transformers' Trainer, which do not":                                 {titan, trainer},
		"log: has lines of Megatron-LM and transformers' Trainer, which do":                                    {megatron, trainer},
	} {
		_, err := launch.Read([]launch.Input{{Label: "log", Data: bytes.Join(list, []byte("\n"))}}, launch.Options{})
		require.ErrorContains(t, err, want)
	}
	require.NoError(t, launch.OneRun(files(t, "deepspeed.log")[0]))
	require.NoError(t, launch.OneRun(launch.Input{Data: bytes.Join([][]byte{files(t, "deepspeed.log")[0].Data, trainer}, []byte("\n"))}),
		"the Trainer trains by DeepSpeed")
}

// scripted reads a script of so many lines.
func scripted(lines ...string) (*launch.Import, error) {
	text := strings.Join(lines, "\n") + "\n"
	return launch.Read([]launch.Input{{Label: "run.sh", Data: []byte(text)}}, launch.Options{})
}

// least are the flags without which nothing is read.
const least = "--num-layers 4 --hidden-size 256 --num-attention-heads 4 --seq-length 128 --micro-batch-size 1 " +
	"--vocab-size 1000"

// training is a command that starts one, up to the number of stages.
const training = "python x.py " + least + " --pipeline-model-parallel-size"

// TestShell: what bash would pass is read, and nothing runs.
func TestShell(t *testing.T) {
	for name, c := range map[string]struct {
		lines []string
		stage int // of --pipeline-model-parallel-size; 0 for none
	}{
		"plain":                   {[]string{training + " 2"}, 2},
		"joined":                  {[]string{training + "=2"}, 2},
		"default":                 {[]string{"P=${2:-4}", training + " ${P}"}, 4},
		"array":                   {[]string{"A=(--pipeline-model-parallel-size)", "A+=(2)", "python x.py " + least + ` "${A[@]}"`}, 2},
		"string":                  {[]string{"A='--pipeline-model-parallel-size 2'", "A+=' --bf16'", "python x.py " + least + " $A"}, 2},
		"sum":                     {[]string{"P=$((1 + 3))", training + " $P"}, 4},
		"if":                      {[]string{"P=2", "if [ $P -gt 1 ]; then Q=4; else Q=2; fi", training + " $Q"}, 4},
		"else":                    {[]string{"if [[ $X == a* ]]; then Q=4; elif [[ -z $X && ! -n $X ]]; then Q=2; fi", training + " $Q"}, 2},
		"case":                    {[]string{"case big in small) Q=1;; b*|c) Q=4;; esac", training + " $Q"}, 4},
		"function":                {[]string{"f() { Q=2; }", "f", training + " $Q"}, 2},
		"bash -c":                 {[]string{"P=2", `srun bash -c "` + training + ` $P"`}, 2},
		"and":                     {[]string{"cd /tmp && export P=2 && python x.py " + least + " --pipeline-model-parallel-size $P"}, 2},
		"unknown":                 {[]string{"if [ -f x ]; then P=2; fi", training + " ${P:-1}"}, 0},
		"last":                    {[]string{"python x.py " + least, training + " 2"}, 2},
		"all":                     {[]string{"set -- " + "--pipeline-model-parallel-size 2", "python x.py " + least + ` "$@"`}, 2},
		"function with arguments": {[]string{"f() { python x.py " + least + ` "${@}"; }`, "f --pipeline-model-parallel-size 4"}, 4},
		"exit":                    {[]string{training + " 2", "exit 0", training + " 4"}, 2},
		"echo":                    {[]string{training + " 2", "echo " + training + " 4"}, 2},
		"written":                 {[]string{"P=4", "cat > jobs/run.sh <<EOF", training + " $P", "EOF", "srun bash jobs/run.sh"}, 4},
		"written, not expanded":   {[]string{"P=4", "cat <<'EOF' > go.sh", training + ` $1`, "EOF", "P=2", "bash go.sh 2"}, 2},
		"input of a shell":        {[]string{"P=4", "bash -s <<EOF", training + " $P", "EOF"}, 4},
		"input of a queue":        {[]string{"sbatch <<EOF", "#SBATCH -N 4", "srun " + training + " 4", "EOF"}, 4},
		"written, not run":        {[]string{training + " 2", "cat > go.sh <<EOF", training + " 4", "EOF"}, 2},
		"array with lists":        {[]string{"A=(--moe-layer-freq [0]*1+[1]*3 --num-experts 8)", training + " 2 ${A[@]}"}, 2},
		"commented":               {[]string{"python x.py " + least + " # --pipeline-model-parallel-size 2"}, 0},
	} {
		i, err := scripted(c.lines...)
		require.NoError(t, err, name)
		schedule := i.Config["schedule"].(map[string]any)
		if c.stage == 0 {
			require.Equal(t, "ddp", schedule["name"], name)
			continue
		}
		require.Equal(t, c.stage, schedule["stages"], name)
	}
}

// TestHostile: scripts of any kind end in one error or in a configuration, and run nothing.
func TestHostile(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "ran")
	i, err := scripted("touch "+marker, "X=$(touch "+marker+")", "eval touch "+marker, "cat <(touch "+marker+")",
		"rm -rf "+t.TempDir(), "python x.py "+least+" --lr `touch "+marker+"`")
	require.NoError(t, err)
	require.NotEmpty(t, i.Ignored)
	require.NoFileExists(t, marker)
	for name, lines := range map[string][]string{
		"source":       {"source run.sh", "python x.py " + least},
		"recursion":    {"f() { f; }", "f"},
		"runs itself":  {"bash run.sh"},
		"trainer":      {"accelerate launch x.py --per_device_train_batch_size 4"},
		"unset":        {training + " $PP"},
		"negative":     {training + " -2"},
		"zero":         {"python x.py " + least + " --global-batch-size 0"},
		"no number":    {"python x.py " + least + " --tensor-model-parallel-size abc"},
		"infinite":     {"python x.py " + least + " --hidden-size 1e999"},
		"deep":         {"python x.py " + strings.Repeat("$((", 340000)},
		"loop":         {"while true; do n=$((n+1)); python x.py " + least + "; done"},
		"long loop":    {"for n in {1..90000}; do python x.py " + least + "; done"},
		"chunks":       {training + " 2 --num-layers-per-virtual-pipeline-stage 3"},
		"braces":       {"python x.py {1..999999999} " + least},
		"squares":      {"python x.py {a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}" + least},
		"doubled":      {"A=aaaaaaaaaaaaaaaa" + strings.Repeat("; A=$A$A", 40), "python x.py " + least},
		"syntax":       {"if then fi ((("},
		"nothing":      {"echo hello"},
		"required":     {"python x.py ${SIZE:?is not set} " + least},
		"binary":       {"\x00\x01"},
		"layers":       {"python x.py " + strings.Replace(least, "4", "0", 1)},
		"words":        {"python x.py " + strings.Replace(least, "4", "four", 1)},
		"long":         {"python x.py " + least + " --lr " + strings.Repeat("9", 2<<20)},
		"devices":      {"torchrun --nproc_per_node 6 x.py " + least + " --tensor-model-parallel-size 4"},
		"layout":       {training + " 2 --pipeline-model-parallel-layout Eqt"},
		"precision":    {training + " 2 --bf16 --fp16"},
		"activation":   {training + " 2 --swiglu --squared-relu"},
		"reads itself": {"cat > a.sh <<EOF", "bash a.sh", "EOF", "bash a.sh"},
		"document":     {"cat > a.sh <<EOF", "$(touch " + marker + ")" + training + " 2", "if (", "EOF", "bash a.sh"},
	} {
		_, err := scripted(lines...)
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), "\n", name)
		require.True(t, strings.HasPrefix(err.Error(), "run.sh"), "%s: %s", name, err)
	}
}

// TestArguments: arguments for a script need one.
func TestArguments(t *testing.T) {
	_, err := launch.Read(files(t, "train.log"), launch.Options{Arguments: []string{"8b"}})
	require.EqualError(t, err, "--arg 8b: is for a script, and none of the files is one")
}

// TestDevices: what launchers are given says how many devices there are.
func TestDevices(t *testing.T) {
	for launcher, want := range map[string]int{
		"torchrun --nproc_per_node 8":                      8,
		"torchrun --nnodes=4 --nproc-per-node=8":           32,
		"srun -N 16 --ntasks-per-node 4 python":            64,
		"srun -N16 --gres=gpu:a100:4 torchrun":             64,
		"srun -n 64 python":                                64,
		"mpirun -np 64 python":                             64,
		"srun -n 8 torchrun --nnodes 8 --nproc_per_node 8": 64,
	} {
		i, err := scripted(launcher + " x.py " + least)
		require.NoError(t, err, launcher)
		require.Equal(t, want, i.Config["parallel"].(map[string]any)["data"], launcher)
	}
	i, err := scripted("#SBATCH --nodes=2", "torchrun --nnodes $SLURM_NNODES --nproc_per_node 8 x.py "+least)
	require.NoError(t, err)
	require.Equal(t, 16, i.Config["parallel"].(map[string]any)["data"])
}

// TestStarts: of a log with several starts the last one counts, and of several batches that of the arguments.
func TestStarts(t *testing.T) {
	log := files(t, "train.log")[0]
	line := " iteration %d/ 100 | elapsed time per iteration (ms): %d.0 | global batch size: %d |\n"
	again := string(log.Data)
	for n := range 6 {
		again += fmt.Sprintf(line, 90+n, 700, 128)
	}
	i, err := launch.Read([]launch.Input{{Label: "log", Data: []byte(again)}}, launch.Options{})
	require.NoError(t, err)
	require.Equal(t, 512, i.Measured.Batch)
	require.InDelta(t, 5.2, i.Measured.StepTime, 1e-9)
	require.Equal(t, 7, i.Measured.Left)

	dump, _, _ := strings.Cut(string(log.Data), " iteration ")
	again += strings.Replace(dump, " 512\n", " 256\n", 1)
	for n := range 4 {
		again += fmt.Sprintf(line, 96+n, 2600, 256)
	}
	again += fmt.Sprintf(line, 100, 1<<40, 256) + "iteration 101/ 100 | elapsed time per iteration (ms): 1e300 |\n"
	i, err = launch.Read([]launch.Input{{Label: "log", Data: []byte(again)}}, launch.Options{})
	require.NoError(t, err)
	require.Equal(t, 256, i.Config["batch"].(map[string]any)["global"])
	require.Equal(t, 256, i.Measured.Batch)
	require.InDelta(t, 2.6, i.Measured.StepTime, 1e-9)
	require.Equal(t, 3, i.Measured.Lines, "without the first line of the start")
}

// TestLayout: a layout has the embedding, the blocks, and norm and head of a network, each once.
func TestLayout(t *testing.T) {
	for layout, want := range map[string][]int{
		"Ett|ttL":      {3, 4},
		"E|(t|)*3tL":   {1, 1, 1, 1, 3},
		"Et|t*3L":      {2, 5},
		"Et,t|(t|)*2L": {3, 1, 1, 2},
	} {
		i, err := scripted(training + " " + fmt.Sprint(len(want)) +
			" --pipeline-model-parallel-layout '" + layout + "'")
		require.NoError(t, err, layout)
		require.Equal(t, want, i.Config["schedule"].(map[string]any)["partition"], layout)
		var sum int
		for _, n := range want {
			sum += n
		}
		require.Equal(t, 4+3, sum, "embedding, four blocks, norm, head")
	}
}

// TestWindow, the sizes of attention and of experts are counted as Megatron counts them.
func TestSizes(t *testing.T) {
	mixture := " --num-experts 8 --moe-router-topk 2 --moe-ffn-hidden-size 512"
	for flags, want := range map[string][2]any{
		"--window-size 127,0": {"window", 128},
		"--kv-channels 128":   {"head_dim", 128},
		"--swiglu":            {"ffn_hidden", 640}, // ⌊256 · 8/3 / 64⌋ · 64
		"--squared-relu":      {"activation", "relu2"},
		mixture:               {"expert_hidden", 512},
		mixture + " --moe-layer-freq ([0]*1+[1]*3)":                           {"dense_layers", 1},
		mixture + " --moe-layer-freq 2":                                       {"moe_every", 2},
		mixture + " --moe-shared-expert-intermediate-size 1024":               {"shared_experts", 2},
		"--make-vocab-size-divisible-by 128 --tensor-model-parallel-size 2":   {"vocab", 1024},
		"--disable-bias-linear --add-qkv-bias --normalization RMSNorm --bf16": {"qkv_bias", true},
	} {
		i, err := scripted("python x.py " + least + " '" + strings.Join(strings.Fields(flags), "' '") + "'")
		require.NoError(t, err, flags)
		require.Equal(t, want[1], i.Config["model"].(map[string]any)[want[0].(string)], flags)
	}
}

// TestFLOPs: of a GPT, Megatron's count is that of Narayanan et al. 2021, section 5.1, without recomputation:
// 72 B s l h² (1 + s/6h + V/12lh).
func TestFLOPs(t *testing.T) {
	const b, s, l, h, v, step, devices = 1536.0, 2048.0, 96.0, 12288.0, 51200.0, 30.0, 1024.0
	flops := 72 * b * s * l * h * h * (1 + s/(6*h) + v/(12*l*h))
	log := "------------------------ arguments ------------------------\n"
	for name, value := range map[string]any{
		"num_layers": l, "hidden_size": h, "num_attention_heads": 96, "seq_length": s, "ffn_hidden_size": 4 * h,
		"padded_vocab_size": v, "kv_channels": 128, "micro_batch_size": 1, "global_batch_size": b, "world_size": devices,
		"tensor_model_parallel_size": 8, "pipeline_model_parallel_size": 64, "fp16": "True",
	} {
		log += fmt.Sprintf("  %s .... %v\n", name, value)
	}
	log += "-------------------- end of arguments ---------------------\n"
	for n := range 4 {
		log += fmt.Sprintf(
			" iteration %d/ 100 | elapsed time per iteration (ms): %.1f | global batch size: 1536 | throughput per GPU (TFLOP/s/GPU): %.1f |\n",
			n+1,
			step*1000,
			flops/step/devices/1e12,
		)
	}
	i, err := launch.Read([]launch.Input{{Label: "log", Data: []byte(log)}}, launch.Options{})
	require.NoError(t, err)
	require.InEpsilon(t, i.Measured.Throughput, i.Measured.Recomputed, 1e-3)
}

// FuzzRead: any bytes end in a configuration that psim writes, or in one error.
func FuzzRead(f *testing.F) {
	for _, file := range files(f, "run.sh", "common.sh", "train.log") {
		f.Add(file.Data)
	}
	f.Add([]byte("[job]\n[training]\nseq_len = 4096\n[model]\nflavor = \"8B\"\n[parallelism]\ntensor_parallel_degree = 2\n"))
	f.Add(bridgeYAML(bridgeNetworks["v3"], "model.seq_length=4096", "train.micro_batch_size=1", "train.global_batch_size=16"))
	f.Add([]byte("MODEL_ARGS:\n  --num-layers: 2\n  --swiglu: true\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		i, err := launch.Read([]launch.Input{{Label: "x", Data: data}}, launch.Options{})
		if err != nil {
			return
		}
		require.NoError(t, configs.WriteObject(&bytes.Buffer{}, nil, i.Config))
		require.NoError(t, i.WriteText(&bytes.Buffer{}))
	})
}

func ExampleRead() {
	script := `TP=2
torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 \
  --micro-batch-size 4 --global-batch-size 128 --tensor-model-parallel-size $TP --bf16 --vocab-size 50257`
	i, err := launch.Read([]launch.Input{{Label: "run.sh", Data: []byte(script)}}, launch.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(i.Config["parallel"], i.Config["model"].(map[string]any)["vocab"])
	// Output: map[data:4 overlap:false sequence:false tensor:2 zero:0] 50432
}
