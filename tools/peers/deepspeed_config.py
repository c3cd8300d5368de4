"""Prints what DeepSpeed understood of configurations, one JSON object a line: python deepspeed_config.py FILE..."""
import contextlib, io, json, os, sys

os.environ["DS_ACCELERATOR"] = "cpu"
with contextlib.redirect_stdout(io.StringIO()):
    import deepspeed.runtime.config as config

for name in sys.argv[1:]:
    given = json.load(open(name))
    replicas = given["train_batch_size"] // (given["train_micro_batch_size_per_gpu"] * given["gradient_accumulation_steps"])
    config.dist.get_rank, config.dist.get_world_size = lambda: 0, lambda: replicas  # without a process group
    with contextlib.redirect_stdout(io.StringIO()):
        c = config.DeepSpeedConfig(given)
    z = c.zero_config
    print(json.dumps({
        "batch": c.train_batch_size, "micro": c.train_micro_batch_size_per_gpu, "rounds": c.gradient_accumulation_steps,
        "zero": z.stage, "overlap": z.overlap_comm, "bucket": z.reduce_bucket_size, "scatter": z.reduce_scatter,
        "bf16": c.bfloat16_config.enabled, "fp16": c.float16_config.enabled, "sums": c.grad_accum_dtype,
        "optimizer": c.optimizer_name, "clip": c.gradient_clipping, "tensor": c.tensor_parallel_config.autotp_size,
    }))
