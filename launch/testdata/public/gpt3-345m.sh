#!/bin/bash
# The flags and values of examples/pretrain_gpt_distributed.sh of NVIDIA/Megatron-LM at 090e141 (BSD-3-Clause), in a script
# of our own.
NODES=${NNODES:-1}
EACH=${GPUS_PER_NODE:-8}
LAUNCH="--nproc_per_node $EACH --nnodes $NODES --node_rank ${NODE_RANK:-0}"
python -m torch.distributed.launch $LAUNCH pretrain_gpt.py --fp16 --checkpoint-activations --distributed-backend nccl \
  --num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --max-position-embeddings 1024 \
  --micro-batch-size 8 --global-batch-size 64 --clip-grad 1.0 --train-iters 500000 --lr-decay-iters 320000 --lr 0.00015 \
  --lr-decay-style cosine --min-lr 1.0e-5 --weight-decay 1e-2 --lr-warmup-fraction .01 --data-path ${DATA_PATH:-data} \
  --vocab-file gpt2-vocab.json --merge-file gpt2-merges.txt --data-impl mmap --split 949,50,1 --log-interval 100
