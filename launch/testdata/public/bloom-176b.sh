#!/bin/bash
# The flags and values of train/tr11-176B-ml/tr11-176B-ml.slurm of bigscience-workshop/bigscience at 003b250 (Apache-2.0), in
# a script of our own.
#SBATCH --nodes=48
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:8
EACH=8
NODES=$SLURM_NNODES
MICRO=2
GLOBAL=2048
ZERO=0 # bf16 divides the optimizer's state by itself
SETTINGS="./ds_config.$SLURM_JOB_ID.json"
cat <<END > $SETTINGS
{"train_micro_batch_size_per_gpu": $MICRO, "train_batch_size": $GLOBAL, "gradient_clipping": 1.0,
 "zero_optimization": {"stage": $ZERO}, "bf16": {"enabled": true}, "steps_per_print": 2000}
END
NETWORK=" \
    --pp-partition-method 'type:transformer|embedding' --num-layers 70 --hidden-size 14336 --num-attention-heads 112 \
    --seq-length 2048 --max-position-embeddings 2048 --micro-batch-size $MICRO --rampup-batch-size 192 16 9_765_625 \
    --global-batch-size $GLOBAL --train-samples 220_000_000 --init-method-std 0.0048 --embed-layernorm --bf16 --seed 42 \
    --position-embedding-type alibi --checkpoint-activations --pad-vocab-size-to 250880 --optimizer adam --clip-grad 1.0 \
    "
export LAUNCHER="python -u -m torch.distributed.run --nproc_per_node $EACH --nnodes $NODES --max_restarts 0 --tee 3"
export CMD=" \
    `pwd`/pretrain_gpt.py --tensor-model-parallel-size 4 --pipeline-model-parallel-size 12 $NETWORK --data-impl mmap \
    --deepspeed --deepspeed_config $SETTINGS --zero-stage $ZERO --deepspeed-activation-checkpointing \
    "
echo $CMD
clear; srun --wait=60 --kill-on-bad-exit=1 --jobid $SLURM_JOB_ID bash -c "$LAUNCHER --node_rank \$SLURM_PROCID $CMD" 2>&1 | tee -a log.txt
