#!/bin/bash
# The flags and values of examples_deepspeed/pretrain_llama2_distributed.sh of microsoft/Megatron-DeepSpeed at f4157be
# (BSD-3-Clause), in a script of our own.
SETTINGS=deepspeed.json
ZERO=0
recompute="false"
cat <<END > $SETTINGS
{"train_batch_size": 32, "train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": $ZERO}, "bf16": {"enabled": true}}
END
engine=" --deepspeed --zero-stage=$ZERO --deepspeed_config=$SETTINGS"
if [ "${recompute}" = "true" ]; then
  engine="--recompute-granularity full --recompute-method uniform ${engine}"
fi
torchrun --nproc_per_node 8 --nnodes 1 pretrain_gpt.py --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 \
  --num-layers 24 --hidden-size 2048 --ffn-hidden-size 5504 --num-attention-heads 16 --micro-batch-size 4 \
  --global-batch-size 32 --seq-length 2048 --max-position-embeddings 2048 --tokenizer-type GPTSentencePieceTokenizer \
  --bf16 --no-query-key-layer-scaling --attention-dropout 0 --hidden-dropout 0 --use-rotary-position-embeddings \
  --untie-embeddings-and-output-weights --swiglu --normalization rmsnorm --disable-bias-linear --num-key-value-heads 4 \
  --optimizer adam --clip-grad 1 --data-impl mmap --train-iters 250000 $engine
