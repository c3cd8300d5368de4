"""Counts parameters and FLOPs of configurations by transformers and PyTorch, without memory, and compares a file with them.

usage: python models.py FILE           recounts every entry of FILE; differences are printed and end it with status 1
       python models.py FILE --write   writes the counts and the versions to FILE

FILE is costmodel/hfconfig/testdata/transformers.json. Models are on the meta device, in eager attention with a mask of
four dimensions (transformers' own code for masks reads values, which such tensors lack), and their experts are batched
products, since a loop over tokens runs none there. Parameters are those of the network for text, without biases of
routers, which no gradient trains. FLOPs are of a forward pass over 1,024 tokens. Of modules with a scan the products with
weights are counted: transformers has no kernels for scans here, and its substitute computes them in another way.

"kept" is what autograd keeps of each block for its backward, in bytes, for 4,096 tokens in bf16: a list of [bytes, blocks],
in their order, with 0 bytes for blocks that are not counted. Storages count once, parameters and what all blocks share (masks, positions) do not. Attention stands for a flash kernel, which keeps
q, k, v, its result and a number in fp32 for each row and head; where a type has no other attention than its own, it is that
one. Blocks with scans, types with an indexer and what follows a loop over experts are not counted: transformers'
substitutes for the first two are not what trains, and the third reads values.
"""
import argparse
import collections
import itertools
import json
import re
import sys
import warnings

import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForImageTextToText, AutoModelForMaskedLM
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

TOKENS, KEPT_TOKENS = 1024, 4096
OTHERS = re.compile(r"visual|vision|audio|mm_|multi_modal|e_score_correction_bias")

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()
torch.cuda.is_current_stream_capturing = lambda: False  # CUDA's libraries may be empty (cudastubs.py)


class Flash(torch.autograd.Function):
    """Keeps what a flash kernel keeps, in its layout: tokens before heads."""

    calls = 0

    @staticmethod
    def forward(ctx, q, k, v):
        Flash.calls += 1
        batch, heads, tokens, _ = q.shape
        out = q.new_empty(batch, tokens, heads, v.shape[-1]).transpose(1, 2)
        ctx.save_for_backward(q, k, v, out, torch.empty(q.shape[:-1], dtype=torch.float32, device=q.device))
        return out

    @staticmethod
    def backward(ctx, _):
        raise NotImplementedError


ALL_ATTENTION_FUNCTIONS.register(
    "counted", lambda module, q, k, v, mask, **_: (Flash.apply(q, k, v).transpose(1, 2).contiguous(), None))


def build(given, attention="eager", experts=("batched_mm",), dtype=None):
    given = {k: v for k, v in given.items() if k not in ("quantization_config", "auto_map")}
    config = AutoConfig.for_model(**given)
    config._attn_implementation = attention
    for part in (config, config.get_text_config()) if attention != "eager" else ():
        for key in [k for k, v in vars(part).items() if isinstance(v, float) and ("dropout" in k or "pdrop" in k)]:
            setattr(part, key, 0.0)
    for implementation in experts:
        config._experts_implementation = implementation
        for kind in (AutoModelForCausalLM, AutoModelForImageTextToText, AutoModelForMaskedLM, AutoModel):
            try:
                with torch.device("meta"):
                    return kind.from_config(config, dtype=dtype)
            except Exception as e:
                problem = e
    raise problem


def run(model, tokens):
    """Runs a forward pass; BLOOM makes biases of a mask of two dimensions."""
    for mask in ((1, 1, tokens, tokens), (1, tokens)):
        try:
            with torch.device("meta"):
                positions = {"position_ids": torch.arange(tokens)[None]} if len(mask) > 2 else {}
                model(input_ids=torch.zeros(1, tokens, dtype=torch.long), use_cache=False,
                      attention_mask=torch.zeros(*mask), **positions)
            return
        except Exception as e:
            problem = e
    raise problem


def tensors(values):
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors(value)


def kept(given):
    """Returns [bytes, blocks] in order and whether attention was the flash kernel, or nothing if no block is counted."""
    if "index_topk" in given or "index_topk" in given.get("text_config", {}):
        return None, None
    ended = set()
    try:
        model = build(given, "counted", ("grouped_mm", None), torch.bfloat16).train()
        text = model.config.get_text_config()
        blocks = next(m for name, m in model.named_modules() if isinstance(m, torch.nn.ModuleList)
                      and len(m) == text.num_hidden_layers and not OTHERS.search(name))
        shared = {t.untyped_storage()._cdata for t in [*model.parameters(), *model.buffers()]}
        storages, total, current = {}, collections.Counter(), [None]

        def before(i, args, kwargs):
            current[0], total[i] = i, 0  # a first run may have failed
            for t in tensors([*args[1:], *(v for k, v in kwargs.items() if k != "hidden_states")]):
                storages[t.untyped_storage()._cdata] = t

        def after(*_):
            ended.add(current[0])
            current[0] = None

        def pack(t):
            s = t.untyped_storage()
            if s._cdata not in shared and s._cdata not in storages:
                storages[s._cdata] = s  # held, so that no other has its address
                total[current[0]] += s.nbytes()
            return t

        for i, b in enumerate(blocks):
            b.register_forward_pre_hook(lambda _, args, kwargs, i=i: before(i, args, kwargs), with_kwargs=True)
            b.register_forward_hook(after)
        Flash.calls = 0
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            run(model, KEPT_TOKENS)
    except Exception as e:
        print(f"  not all kept: {str(e)[:100]}", file=sys.stderr)
        if not ended:
            return None, None
    scans = {i for i, b in enumerate(blocks)
             for m in b.modules() if isinstance(getattr(m, "conv1d", None), torch.nn.Conv1d)}
    each = [total[i] if i in ended and i not in scans else 0 for i in range(len(blocks))]
    return [[n, len(list(same))] for n, same in itertools.groupby(each)], Flash.calls > 0


def flops(model):
    """Returns the FLOPs of a forward pass, or 0 if the model does not run on the meta device."""
    try:
        with torch.no_grad(), FlopCounterMode(display=False, depth=None) as counter:
            run(model, TOKENS)
    except Exception as e:
        print(f"  no FLOPs: {str(e)[:100]}", file=sys.stderr)
        return 0
    total, by_module = counter.get_total_flops(), counter.get_flop_counts()
    name = type(model).__name__
    for path, module in model.named_modules():
        if isinstance(getattr(module, "conv1d", None), torch.nn.Conv1d):
            total -= sum(by_module.get(f"{name}.{path}", {}).values())
            total += sum(2 * TOKENS * l.weight.numel() for l in module.modules() if isinstance(l, torch.nn.Linear))
    return total


def main():
    p = argparse.ArgumentParser()
    p.add_argument("file")
    p.add_argument("--write", action="store_true")
    a = p.parse_args()
    data, wrong = json.load(open(a.file)), 0
    for entry in data["models"]:
        print(entry["name"], file=sys.stderr)
        model = build(entry["config"])
        counted = {
            "parameters": sum(t.numel() for name, t in model.named_parameters() if not OTHERS.search(name)),
            "flops": flops(model) if entry.get("flops") != 0 or a.write else 0,
        }
        sizes, flash = kept(entry["config"]) if "kept" in entry or a.write else (None, None)
        if sizes:
            counted["kept"], counted["flash"] = sizes, flash
        for key, number in counted.items():
            if entry.get(key) != number:
                wrong += 1
                print(f"{entry['name']}: {key} = {entry.get(key)}, transformers has {number}")
                entry[key] = number
    if a.write:
        data["transformers"], data["torch"] = transformers.__version__, torch.__version__.split("+")[0]
        order = ("name", "parameters", "flops", "kept", "flash", "config")
        rows = ",\n".join(json.dumps({k: e[k] for k in order if k in e}) for e in data["models"])
        head = json.dumps({k: data[k] for k in ("transformers", "torch")})[1:-1]
        open(a.file, "w").write("{" + head + ', "models": [\n' + rows + "\n]}\n")
    elif wrong:
        sys.exit(1)
    print(f"{len(data['models'])} configurations, {wrong} differences (transformers {transformers.__version__}, "
          f"PyTorch {torch.__version__})")


if __name__ == "__main__":
    main()
