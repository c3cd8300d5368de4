#!/bin/bash
# The flags and values of examples/mixtral/train_mixtral_8x7b_distributed.sh of NVIDIA/Megatron-LM at d98e8a6
# (BSD-3-Clause), in a script of our own.
#SBATCH --nodes=8
MODEL=(
    --use-mcore-models --disable-bias-linear --seq-length 4096 --max-position-embeddings 32768 --num-layers 32
    --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 --init-method-std 0.01 --attention-dropout 0.0
    --hidden-dropout 0.0 --normalization RMSNorm --position-embedding-type rope --swiglu
    --untie-embeddings-and-output-weights --group-query-attention --num-query-groups 8 --no-masked-softmax-fusion
    --no-position-embedding --rotary-base 1000000
)
MOE=(
    --num-experts 8 --moe-router-topk 2 --moe-router-load-balancing-type aux_loss --moe-aux-loss-coeff 1e-2
    --moe-grouped-gemm --moe-token-dispatcher-type alltoall --overlap-param-gather --overlap-grad-reduce
)
TRAINING=(--micro-batch-size 1 --global-batch-size 256 --lr 1e-4 --train-iters 500000 --clip-grad 1.0 --bf16)
GROUPS_OF=(
    --tensor-model-parallel-size 1 --pipeline-model-parallel-size 4 --expert-model-parallel-size 8
    --use-distributed-optimizer --sequence-parallel
)
if [ -n "${WANDB_API_KEY}" ]; then
    LOGGING=(--wandb-project ${WANDB_PROJECT:-"Mixtral"})
fi
torchrun --nproc_per_node 8 --nnodes ${SLURM_NNODES:-"8"} pretrain_gpt.py ${MODEL[@]} ${MOE[@]} ${TRAINING[@]} ${GROUPS_OF[@]} \
    --tokenizer-type Llama2Tokenizer --vocab-size 32000 --make-vocab-size-divisible-by 1 --mock-data ${LOGGING[@]}
