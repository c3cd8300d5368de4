#!/bin/bash
# Homework 4 with a process for every GPU, as its scripts start them: gradients of the
# data-parallel part equal to those of the whole batch, outputs of the pipeline equal to
# the model's. Further arguments go to psim: --backend xla where there are GPUs. LAUNCH
# starts the processes, as in cs1390.sh.
set -euo pipefail
gpus=${GPUS:-2}
launch=${LAUNCH-mpirun --oversubscribe --allow-run-as-root -np $gpus}
out=${OUT:-out}

$launch psim exec gpt2-4090d-data-parallel --gpus "$gpus" --check grads --save-gradients "$out/tests" --out "$out/hw4-data-parallel" "$@"
$launch psim exec gpt2-4090d-pipeline --gpus "$gpus" --check output --out "$out/hw4-pipeline" "$@"
