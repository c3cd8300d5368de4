"""Prints what torchtitan understood of command lines, one JSON object a line: python torchtitan_config.py FILE..., with a word a line."""
import contextlib, io, json, sys, warnings

warnings.simplefilter("ignore")
with contextlib.redirect_stdout(io.StringIO()):
    from torchtitan.config import ConfigManager

for name in sys.argv[1:]:
    words = open(name).read().splitlines()
    with contextlib.redirect_stdout(io.StringIO()):
        c = ConfigManager().parse_args(words)
    p, t = c.parallelism, c.training
    print(json.dumps({
        "replicate": p.data_parallel_replicate_degree, "shard": p.data_parallel_shard_degree,
        "reshard": p.fsdp_reshard_after_forward, "tensor": p.tensor_parallel_degree, "context": p.context_parallel_degree,
        "experts": p.expert_parallel_degree, "stages": p.pipeline_parallel_degree,
        "schedule": p.pipeline_parallel_schedule, "micro": p.pipeline_parallel_microbatch_size,
        "local": t.local_batch_size, "global": t.global_batch_size, "length": t.seq_len,
        "bits": t.mixed_precision_param, "sums": t.mixed_precision_reduce, "graphs": not t.disable_cuda_graphs,
        "compile": c.compile.enable, "again": type(c.activation_checkpoint).__qualname__,
    }))
