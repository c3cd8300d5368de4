#!/bin/bash
# The flags and values of examples/llama/train_llama3_8b_h100_fp8.sh of NVIDIA/Megatron-LM at d98e8a6 (the license of Megatron-LM, BSD-3-Clause), in a
# script of our own.
TOKENIZER=${3:-"MOCK"}
DTYPE="fp8"
MODEL=(
    --use-mcore-models --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32
    --group-query-attention --num-query-groups 8 --kv-channels 128 --seq-length 8192 --max-position-embeddings 8192
    --position-embedding-type rope --rotary-base 1000000 --rotary-percent 1.0 --attention-dropout 0.0 --hidden-dropout 0.0
    --swiglu --init-method-std 0.0134 --attention-backend fused --apply-layernorm-1p --disable-bias-linear
    --untie-embeddings-and-output-weights
)
TRAINING=(
    --micro-batch-size 1 --global-batch-size 128 --train-samples 1953125000 --lr 0.00015 --clip-grad 1.0 --weight-decay 0.1
    --bf16 --grad-reduce-in-bf16 --cross-entropy-loss-fusion --calculate-per-token-loss --manual-gc
)
FORMAT=()
if [[ "$DTYPE" == "fp8" ]]; then
    FORMAT+=("--fp8-format hybrid" "--fp8-amax-history-len 1024" "--fp8-amax-compute-algo max" "--fp8-param-gather")
fi
TRAINING+=(--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather)
if [[ "$TOKENIZER" == "MOCK" ]] || [[ -z "$TOKENIZER" ]]; then
    DATA=("--mock-data" "--tokenizer-type NullTokenizer" "--vocab-size 128256" "--num-workers 1")
else
    DATA=("--tokenizer-type HuggingFaceTokenizer" "--tokenizer-model $TOKENIZER" "--vocab-size 128256")
fi
[ -f pretrain_gpt.py ] || { echo "run it in the folder of Megatron-LM"; exit 1; }
torchrun --nproc_per_node 8 --nnodes 1 pretrain_gpt.py ${MODEL[@]} ${TRAINING[@]} ${FORMAT[@]} \
    --tensor-model-parallel-size 1 --context-parallel-size 1 --sequence-parallel ${DATA[@]} --log-interval 1 --log-throughput
