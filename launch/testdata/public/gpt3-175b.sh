#!/bin/bash
# The flags and values of examples/gpt3/train_gpt3_175b_distributed.sh of NVIDIA/Megatron-LM at d98e8a6 (the license of Megatron-LM, BSD-3-Clause),
# in a script of our own.
export CUDA_DEVICE_MAX_CONNECTIONS=1
LAUNCH=(--nproc_per_node 8 --nnodes ${NUM_NODES:-128})
MODEL=(
    --num-layers 96 --hidden-size 12288 --num-attention-heads 96 --seq-length 2048 --max-position-embeddings 2048
    --attention-backend auto # or flash, fused, unfused, local
)
TRAINING=(
    --micro-batch-size 1 --global-batch-size 1536 --rampup-batch-size 16 16 5859375 --train-iters 500000 --fp16
    --weight-decay 0.1 --adam-beta1 0.9 --adam-beta2 0.95 --init-method-std 0.006 --clip-grad 1.0 --lr 6.0e-5
)
GROUPS_OF=(--tensor-model-parallel-size 8 --pipeline-model-parallel-size 16)
torchrun ${LAUNCH[@]} pretrain_gpt.py "${MODEL[@]}" ${TRAINING[@]} ${GROUPS_OF[@]} --data-path $5 --vocab-file $3 \
    --merge-file $4 --split 949,50,1 --log-interval 100 --save $1
