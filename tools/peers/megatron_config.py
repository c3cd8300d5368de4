"""Builds megatron-core's TransformerConfig of the model in a run_config.yaml, which refuses what is not legal, and prints what
it understood as a JSON object, with the keys that it does not know and the interleaved order of the first rank."""
import dataclasses, json, sys, warnings

warnings.simplefilter("ignore")
import torch
import yaml
from megatron.core.pipeline_parallel import schedules
from megatron.core.transformer.transformer_config import MLATransformerConfig, TransformerConfig

with open(sys.argv[1]) as f:
    config = yaml.safe_load(f)
model, numbers = config["model"], config.get("mixed_precision", {})
kind = MLATransformerConfig if model.get("multi_latent_attention") else TransformerConfig
known = {f.name for f in dataclasses.fields(kind)}
functions = {"torch.nn.functional.silu": torch.nn.functional.silu, "torch.nn.functional.gelu": torch.nn.functional.gelu}


def value(v):
    if isinstance(v, dict) and "_target_" in v:
        return functions.get(v["_target_"], torch.nn.functional.gelu)
    return v


given = {k: value(v) for k, v in model.items() if k in known}
given |= {k: v for k, v in numbers.items() if k in known and k in ("bf16", "fp16", "fp8", "fp8_recipe")}
dtype = torch.bfloat16 if given.get("bf16") else torch.float16 if given.get("fp16") else torch.float32
given |= {"params_dtype": dtype, "pipeline_dtype": dtype}
made = kind(**given)
order = []
chunks = made.virtual_pipeline_model_parallel_size or 1
if chunks > 1:
    ranks = made.tensor_model_parallel_size * made.pipeline_model_parallel_size * made.context_parallel_size
    rounds = config["train"]["global_batch_size"] // config["train"]["micro_batch_size"]
    data = int(sys.argv[2]) // ranks
    order = schedules.get_schedule_table(rounds // data, chunks, made.microbatch_group_size_per_vp_stage)
keys = ("num_layers", "hidden_size", "num_attention_heads", "num_query_groups", "ffn_hidden_size", "kv_channels",
        "tensor_model_parallel_size", "pipeline_model_parallel_size", "virtual_pipeline_model_parallel_size",
        "context_parallel_size", "expert_model_parallel_size", "sequence_parallel", "bf16", "fp8", "fp8_recipe",
        "recompute_granularity", "recompute_modules", "num_moe_experts", "moe_router_topk", "cpu_offloading_num_layers")
print(json.dumps({"understood": {k: getattr(made, k, None) for k in keys}, "unknown": sorted(set(model) - known),
                  "order": [list(cell) for cell in order]}))
