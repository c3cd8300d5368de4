TRAIN="--micro-batch-size 1 --global-batch-size 512 --bf16 --use-distributed-optimizer --overlap-grad-reduce \
  --overlap-param-gather --lr 3e-4 --train-iters 1000 --recompute-activations --log-interval 10"
