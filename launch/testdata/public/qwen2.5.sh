#!/bin/bash
# The flags and values of examples/qwen2_5/run_mcore_qwen.sh of alibaba/Pai-Megatron-Patch at a098ca5 (Apache-2.0), in a
# script of our own: SIZE BATCH GLOBAL LENGTH PRECISION TP PP CP SP DO FL AC are its arguments.
SIZE=$1 BATCH=$2 GLOBAL=$3 LENGTH=$4 PR=$5 TP=$6 PP=$7 CP=$8 SP=$9 DO=${10} FL=${11} AC=${12}
if [ $FL = true ]; then
    export NVTE_FLASH_ATTN=1 NVTE_FUSED_ATTN=0
    backend=" --attention-backend flash"
elif [ $FL = false ]; then
    export NVTE_FLASH_ATTN=0 NVTE_FUSED_ATTN=1
fi
if [ $SIZE = 0.5B ]; then
LAYERS=24 HIDDEN=896 HEADS=14 FFN=4864 GROUPS_OF=2 EXTRA=293
ties=""
elif [ $SIZE = 7B ]; then
LAYERS=28 HIDDEN=3584 HEADS=28 FFN=18944 GROUPS_OF=4 EXTRA=421
ties=" --untie-embeddings-and-output-weights"
elif [ $SIZE = 72B ]; then
LAYERS=80 HIDDEN=8192 HEADS=64 FFN=29568 GROUPS_OF=8 EXTRA=421
ties=" --untie-embeddings-and-output-weights"
fi
TP_OVERLAP=$(( ($TP > 1) ? 1 : 0 ))
overlap=" --overlap-grad-reduce --overlap-param-gather"
if [ $TP_OVERLAP -eq 1 ]; then
    overlap=" --tp-comm-overlap $overlap"
fi
if [ $AC = full ]; then
    check=$(( ($LAYERS / $PP) % ${MP_AC_LAYERS:-1} ))
    if [ $check != 0 ]; then
        exit -1
    fi
    recompute=" --recompute-method uniform --recompute-num-layers ${MP_AC_LAYERS:-1} --recompute-granularity full"
elif [ $AC = sel ]; then
    recompute=" --recompute-activations"
fi
case $PR in
  bf16) numbers=" --bf16" ;;
  fp8) numbers=" --bf16 --fp8-format hybrid --fp8-amax-compute-algo max --fp8-amax-history-len 1024" ;;
esac
if [ $DO = true ]; then
    optimizer=" --use-distributed-optimizer"
fi
if [ $SP = true ] && [ $TP -gt 1 ]; then
    sequence=" --sequence-parallel"
fi
options=" --clip-grad 1.0 --attention-dropout 0.0 --hidden-dropout 0.0 --micro-batch-size $BATCH --global-batch-size $GLOBAL \
  --num-layers $LAYERS --hidden-size $HIDDEN --num-attention-heads $HEADS --ffn-hidden-size $FFN --seq-length $LENGTH \
  --max-position-embeddings 131072 --max-padding-length $LENGTH --tensor-model-parallel-size $TP \
  --pipeline-model-parallel-size $PP --context-parallel-size $CP --extra-vocab-size $EXTRA \
  --patch-tokenizer-type Qwen2Tokenizer --swiglu --normalization RMSNorm --norm-epsilon 1e-6 --add-qkv-bias \
  --use-rotary-position-embeddings --position-embedding-type rope --disable-bias-linear --rotary-base 1000000 \
  --group-query-attention --num-query-groups $GROUPS_OF --transformer-impl transformer_engine"
run="torchrun --nproc_per_node 8 --nnodes ${NODES:-1} pretrain_qwen.py
 $options $numbers $recompute $optimizer $sequence $overlap $ties $backend --dataset MMAP --train-mode pretrain"
echo $run
eval $run
