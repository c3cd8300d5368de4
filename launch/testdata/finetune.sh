#!/bin/bash
# A script of our own, in the form of those that start run_clm.py of transformers.
export OMP_NUM_THREADS=8
accelerate launch --config_file accelerate.yaml run_clm.py \
  --model_name_or_path meta-llama/Llama-3.1-8B \
  --dataset_name wikitext --output_dir out \
  --per_device_train_batch_size 2 --gradient_accumulation_steps 8 \
  --block_size 4096 --bf16 --gradient_checkpointing --learning_rate 2e-5
