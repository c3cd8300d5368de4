"""Prints what transformers and accelerate understood of args.yaml and accelerate.yaml in a folder, as a JSON object."""
import contextlib, io, json, os, sys

import torch
torch.cuda.is_bf16_supported = torch.cuda.is_available = lambda *_: False  # without a GPU
os.environ["ACCELERATE_USE_CPU"] = "true"
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from transformers import HfArgumentParser, TrainingArguments

folder = sys.argv[1]
keys = HfArgumentParser(TrainingArguments)
# The classes check what this machine has; what they take is compared.
TrainingArguments.__post_init__ = lambda self: None
(args,) = keys.parse_yaml_file(os.path.join(folder, "args.yaml"))  # an unknown key is an error
with contextlib.redirect_stdout(io.StringIO()):
    config = load_config_from_file(os.path.join(folder, "accelerate.yaml"))  # an unknown key is one, too
    launch = launch_command_parser().parse_args(["--config_file", os.path.join(folder, "accelerate.yaml"), "train.py"])
    launch, _, _ = _validate_launch_command(launch)
flags = {k.removeprefix("fsdp_"): v for k, v in (config.fsdp_config or {}).items()}
for key in flags:  # the launcher knows each of them
    assert hasattr(launch, "fsdp_" + key), key
print(json.dumps({
    "distributed_type": str(getattr(config.distributed_type, "value", config.distributed_type)),
    "fsdp": {k: str(getattr(launch, "fsdp_" + k)) for k in ("auto_wrap_policy", "reshard_after_forward", "version") if k in flags},
    "micro": args.per_device_train_batch_size, "rounds": args.gradient_accumulation_steps, "bf16": args.bf16, "fp16": args.fp16,
    "processes": config.num_processes, "mixed_precision": str(config.mixed_precision), "optim": str(getattr(args.optim, "value", args.optim)),
    "clip": float(args.max_grad_norm), "checkpointing": args.gradient_checkpointing, "checkpointing_kwargs": args.gradient_checkpointing_kwargs,
}))
