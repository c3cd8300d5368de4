package keyed_test

import (
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/launch"
)

// started reads a script with a line that starts a training, with a config.json and those of further files that the
// line names.
func started(line string, o launch.Options, more ...launch.Input) (*launch.Import, error) {
	script := "#!/bin/bash\n#SBATCH --nodes=2 --gpus-per-node=8\n" + line + "\n"
	files := []launch.Input{
		{Label: "run.sh", Data: []byte(script)},
		{Label: "config.json", Data: []byte(`{"model_type": "llama", "hidden_size": 64}`)},
	}
	for _, f := range more {
		if strings.Contains(line, path.Base(f.Label)) {
			files = append([]launch.Input{files[0], f}, files[1:]...)
		}
	}
	return launch.Read(files, o)
}

// TestTrainerCommand: flags are keys of TrainingArguments or of accelerate's file, and files that they name are read.
func TestTrainerCommand(t *testing.T) {
	sharded := launch.Input{Label: "conf/acc.yaml", Data: []byte("distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 4\n" +
		"fsdp_config:\n  fsdp_sharding_strategy: FULL_SHARD\n")}
	engine := launch.Input{Label: "ds.json", Data: []byte(`{"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": "auto"}`)}
	arguments := launch.Input{Label: "args.yaml", Data: []byte("gradient_accumulation_steps: 4\nmax_length: 512\noutput_dir: x\n")}
	for _, c := range []struct {
		line, key string
		want      any
	}{
		{"torchrun --nproc_per_node 8 run_clm.py --per_device_train_batch_size 2 --gradient_accumulation_steps=3", "batch.global", 16 * 2 * 3},
		{"torchrun run.py --per-device-train-batch-size 2 --bf16 --block_size 1024", "train.precision", "bf16"},
		{"torchrun run.py --per-device-train-batch-size 2 --bf16 --block_size 1024", "model.sequence_length", 1024},
		{"deepspeed --num_gpus 8 run.py --per_device_train_batch_size 2 --deepspeed ds.json", "parallel.zero", 2},
		{"accelerate launch --config_file acc.yaml run.py --per_device_train_batch_size 2", "parallel.data", 4},
		{"accelerate launch --config_file acc.yaml --num_processes 8 run.py --per_device_train_batch_size 2", "parallel.data", 8},
		{"accelerate launch --config_file acc.yaml --fsdp_sharding_strategy=SHARD_GRAD_OP run.py --per_device_train_batch_size 2",
			"parallel.zero", 2},
		{"python -m accelerate.commands.launch --use_fsdp --num_processes 2 -m me.train --per_device_train_batch_size 2", "parallel.zero", 3},
		{"accelerate launch --num_processes 2 -m me.train --per_device_train_batch_size 2", "parallel.zero", 0},
		{"accelerate launch run.py --per_device_train_batch_size 2", "parallel.data", 16},
		{"python sft.py --config args.yaml --per_device_train_batch_size 2", "batch.global", 16 * 2 * 4},
		{"python sft.py --config args.yaml --per_device_train_batch_size 2", "model.sequence_length", 512},
		{"python sft.py --config args.yaml --gradient_accumulation_steps 1 --per_device_train_batch_size 2", "batch.global", 16 * 2},
		{"python sft.py --per_device_train_batch_size 2 --use_peft --lora_target_modules q_proj v_proj", "train.adapter.targets", []string{"q_proj", "v_proj"}},
		{`python sft.py --per_device_train_batch_size 2 --packing --gradient_checkpointing_kwargs '{"use_reentrant": false}'`, "train.stop_early", true},
		{"python sft.py --per_device_train_batch_size 2 --packing --no_gradient_checkpointing", "train.recompute", "none"},
		{`python sft.py --per_device_train_batch_size 2 --fsdp "full_shard auto_wrap"`, "parallel.zero", 3},
		{"python sft.py --per_device_train_batch_size 2 --fsdp shard_grad_op auto_wrap", "parallel.zero", 2},
		{"deepspeed --include localhost:0,1 run.py --per_device_train_batch_size 2", "parallel.data", 2},
		{"torchrun --nproc_per_node gpu run.py --per_device_train_batch_size 2", "parallel.data", 1},
		{"torchrun --nnodes 6148914691236517206 run.py --per_device_train_batch_size 2", "parallel.data", 1},
		{"python run_clm.py --model_type gpt2 --per_device_train_batch_size 2 --bf16 Yes", "train.precision", "bf16"},
		{"trl sft --config args.yaml --per_device_train_batch_size 3", "batch.micro", 3},
		{"torchrun run.py --per_device_train_batch_size 2 --bf16 --torch_dtype bfloat16", "train.master_weights", "none"},
		{"trl sft --accelerate_config acc.yaml --per_device_train_batch_size 3", "parallel.data", 4},
		{"accelerate launch sft.py --config args.yaml", "batch.global", 16 * 8 * 4},
		{"accelerate launch sft.py --run_name args.yaml", "batch.global", 16 * 8 * 4},
		{"python -m torch.distributed.run --nnodes=2 --nproc-per-node=4 run.py --per_device_train_batch_size 2", "parallel.data", 8},
		{`torchrun --nnodes=2 --nproc-per-node=4 run.py --fsdp "hybrid_shard auto_wrap" --per_device_train_batch_size 2`, "parallel.zero_group", 4},
		{`srun bash -c "torchrun run.py --per_device_train_batch_size 2"`, "batch.micro", 2},
	} {
		i, err := started(c.line, launch.Options{}, sharded, engine, arguments)
		require.NoError(t, err, c.line)
		require.Equal(t, c.want, valueOf(i, c.key), c.line)
		require.Zero(t, i.Unknown, "%s: %v", c.line, i.Ignored)
	}
	i, err := started("python run.py --per_device_train_batch_size 2 --mine 5", launch.Options{Devices: 4})
	require.NoError(t, err)
	require.Equal(t, 4, valueOf(i, "parallel.data"), "--devices counts before a header of sbatch")
	require.Contains(t, fmt.Sprint(i.Ignored), "{mine ")
	i, err = launch.Read([]launch.Input{sharded, {Label: "run.sh", // which a script beside a file is, in any order
		Data: []byte("accelerate launch --config_file acc.yaml run.py --per_device_train_batch_size 7\n")},
		{Label: "config.json", Data: []byte(`{"model_type": "llama", "hidden_size": 64}`)}}, launch.Options{})
	require.NoError(t, err)
	require.Equal(t, 7, valueOf(i, "batch.micro"))
}

// TestTrainerCommandErrors: each has one line that names the script and the flag.
func TestTrainerCommandErrors(t *testing.T) {
	odd := launch.Input{Label: "acc.yaml", Data: []byte("compute: mine\n")}
	for _, c := range []struct{ line, want string }{
		{"accelerate launch --config_file a.yaml run.py --per_device_train_batch_size 2", "run.sh: --config_file a.yaml: name that file as well"},
		{"accelerate launch --config_file acc.yaml run.py --per_device_train_batch_size 2", "run.sh: --config_file acc.yaml: is not such a file"},
		{"python run.py --per_device_train_batch_size x", `run.sh: per_device_train_batch_size = "x": must be a whole number`},
		{"python run.py --per_device_train_batch_size", "run.sh: per_device_train_batch_size = true: has no value; it must be a whole number"},
		{"python run.py --per_device_train_batch_size $(nproc)", "has no value; it must be a whole number; "},
		{"python run.py --per_device_train_batch_size nan", `per_device_train_batch_size = "nan": must be a whole number`},
		{"accelerate launch --num_processes inf run.py --per_device_train_batch_size 1", `num_processes = "inf": must be a whole number`},
		{"accelerate launch --use_fsdp --use_deepspeed run.py --per_device_train_batch_size 1", "run.sh: --use_deepspeed --use_fsdp: accelerate launch takes one of them"},
		{"python run.py --per_device_train_batch_size 1 --deepspeed ds.json --deepspeed.zero_optimization.stage 3", "run.sh: --deepspeed.zero_optimization.stage: goes not with --deepspeed"},
		{"python run.py --per_device_train_batch_size 1 --distributed_type FSDP", "run.sh: --distributed_type: is a key of accelerate's file"},
		{"python run.py --per_device_train_batch_size 1 --fsdp full_shard --fsdp_config config.json", "is not a configuration of it in JSON"},
		{"python run.py --per_device_train_batch_size 1 --deepspeed ds.json", `run.sh: deepspeed = "ds.json": name that file as well`},
		{"accelerate launch run.py --lr 3", "run.sh: starts a program that is given no TrainingArguments, such as --per_device_train_batch_size"},
		{"python run.py --lr 3", "run.sh: starts no training that psim knows"},
	} {
		_, err := started(c.line, launch.Options{Devices: 2}, odd)
		require.ErrorContains(t, err, c.want, c.line)
	}
}
