#!/bin/bash
# A script of our own, in the manner of those that start Megatron-LM.
#SBATCH --nodes=8
set -euo pipefail
export CUDA_DEVICE_MAX_CONNECTIONS=1
CONFIG=${1:-8b}
TP=${TP:-2}
GPUS=8
WORLD=$((GPUS * 8))
source common.sh

MODEL=(--seq-length 4096 --max-position-embeddings 4096)
case $CONFIG in
  8b) MODEL+=(--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32
        --group-query-attention --num-query-groups 8) ;;
  *) echo "no such model"; exit 1 ;;
esac
MODEL+=(--swiglu --normalization RMSNorm --position-embedding-type rope --disable-bias-linear
  --untie-embeddings-and-output-weights --hidden-dropout 0 --attention-dropout 0.0 --vocab-size 128256)

parallel() {
  PARALLEL="--tensor-model-parallel-size $TP --pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 4"
}
parallel
if [[ $TP -gt 1 ]]; then
  PARALLEL="$PARALLEL --sequence-parallel"
fi
if [ -d /data ]; then
  DATA="--data-path /data"
fi
srun bash -c "torchrun --nproc-per-node $GPUS --nnodes \$SLURM_NNODES pretrain_gpt.py ${MODEL[*]} $PARALLEL $TRAIN \
  --tokenizer-model $(ls /nowhere | head -1) --my-own-flag 3"
