#!/bin/bash
# CS1390's project 1 with a process for every worker, as the course runs it: data
# parallel, FSDP, model and pipeline parallel, each checked against one worker. Further
# arguments go to psim. LAUNCH starts the processes: mpirun as root and on a machine of
# fewer slots unless it says otherwise; without MPI
#   LAUNCH= bash cs1390.sh --processes 2
set -euo pipefail
workers=${WORKERS:-2}
launch=${LAUNCH-mpirun --oversubscribe --allow-run-as-root -np $workers}
out=${OUT:-out}

run() { # a mode, and what it checks
	$launch psim exec "vgg16-cpu-$1" --gpus "$workers" --cores-per-worker 1 "${@:2}" --out "$out/cs1390-$1"
}
run ddp --strided --check weights,output --learning-rate 1e-3 "$@"
run fsdp --strided --check weights,output --learning-rate 1e-2 "$@"
run model --check output --learning-rate 1e-3 "$@"
run pipeline --check output --learning-rate 1e-2 "$@"
