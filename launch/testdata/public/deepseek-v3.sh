#!/bin/bash
# The flags and values of examples/deepseek_v3/run_mcore_deepseek.sh of alibaba/Pai-Megatron-Patch at a098ca5 (Apache-2.0) for
# the size A37B, in a script of our own: NODES TP PP EP are its arguments.
NODES=$1 TP=$2 PP=$3 EP=$4
LAYERS=61
EXPERT=2048
moe=" --moe-grouped-gemm --moe-token-dispatcher-type alltoall --moe-router-topk 8 --moe-router-group-topk 4 \
  --moe-router-num-groups 8 --num-experts 256 --expert-model-parallel-size ${EP} --expert-tensor-parallel-size 1 \
  --moe-ffn-hidden-size ${EXPERT} --moe-router-load-balancing-type seq_aux_loss --moe-router-topk-scaling-factor 2.5 \
  --moe-shared-expert-overlap --moe-router-enable-expert-bias --mscale 1.0 --mscale-all-dim 1.0 \
  --moe-router-score-function sigmoid --moe-router-bias-update-rate 0.001 --moe-aux-loss-coeff 0.001 \
  --moe-layer-freq '([0]*3+[1]*58)' --moe-shared-expert-intermediate-size $((${EXPERT} * 1 )) \
  --q-lora-rank 1536 --kv-lora-rank 512 --qk-nope-head-dim 128 --qk-rope-head-dim 64 --v-head-dim 128"
if [ -z ${FIRST_LAYERS} ];then
    uneven=""
elif [ ${PP} -gt 1 ]; then
    uneven=" --decoder-first-pipeline-num-layers ${FIRST_LAYERS}"
fi
options=" --clip-grad 1.0 --attention-dropout 0.0 --hidden-dropout 0.0 --micro-batch-size 1 --global-batch-size 512 \
  --num-layers ${LAYERS} --hidden-size 7168 --num-attention-heads 128 --ffn-hidden-size 18432 --seq-length 4096 \
  --max-position-embeddings 163840 --tensor-model-parallel-size ${TP} --pipeline-model-parallel-size ${PP} \
  --extra-vocab-size 467 --patch-tokenizer-type DeepSeekV2Tokenizer --swiglu --normalization RMSNorm \
  --use-rotary-position-embeddings --no-rope-fusion --position-embedding-type rope \
  --untie-embeddings-and-output-weights --disable-bias-linear --rotary-base 10000 --kv-channels 128 --qk-layernorm \
  --multi-latent-attention --transformer-impl transformer_engine --no-masked-softmax-fusion"
run="torchrun --nproc_per_node 8 --nnodes $NODES pretrain_deepseek.py
 $options --bf16 --use-distributed-optimizer $moe $uneven"
eval $run
