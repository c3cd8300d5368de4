"""Counts parameters and FLOPs of configurations by transformers and PyTorch, without memory, and compares a file with them.

usage: python models.py FILE           recounts every entry of FILE; differences are printed and end it with status 1
       python models.py FILE --write   writes the counts and the versions to FILE

FILE is costmodel/hfconfig/testdata/transformers.json. Models are on the meta device, in eager attention with a mask of
four dimensions (transformers' own code for masks reads values, which such tensors lack), and their experts are batched
products, since a loop over tokens runs none there. Parameters are those of the network for text, without biases of
routers, which no gradient trains. FLOPs are of a forward pass over 1,024 tokens. Of modules with a scan the products with
weights are counted: transformers has no kernels for scans here, and its substitute computes them in another way.
"""
import argparse
import json
import re
import sys
import warnings

import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForImageTextToText

TOKENS = 1024
OTHERS = re.compile(r"visual|vision|audio|mm_|multi_modal|e_score_correction_bias")

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()
torch.cuda.is_current_stream_capturing = lambda: False  # CUDA's libraries may be empty (cudastubs.py)


def build(given):
    given = {k: v for k, v in given.items() if k not in ("quantization_config", "auto_map")}
    config = AutoConfig.for_model(**given)
    config._attn_implementation, config._experts_implementation = "eager", "batched_mm"
    for kind in (AutoModelForCausalLM, AutoModelForImageTextToText, AutoModel):
        try:
            with torch.device("meta"):
                return kind.from_config(config)
        except Exception as e:
            problem = e
    raise problem


def flops(model):
    """Returns the FLOPs of a forward pass, or 0 if the model does not run on the meta device."""
    for mask in ((1, 1, TOKENS, TOKENS), (1, TOKENS)):  # BLOOM makes biases of one of two dimensions
        try:
            with torch.device("meta"), torch.no_grad(), FlopCounterMode(display=False, depth=None) as counter:
                positions = {"position_ids": torch.arange(TOKENS)[None]} if len(mask) > 2 else {}
                model(input_ids=torch.zeros(1, TOKENS, dtype=torch.long), use_cache=False,
                      attention_mask=torch.zeros(*mask), **positions)
            break
        except Exception as e:
            problem = str(e)[:100]
    else:
        print(f"  no FLOPs: {problem}", file=sys.stderr)
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
        for key, number in counted.items():
            if entry.get(key) != number:
                wrong += 1
                print(f"{entry['name']}: {key} = {entry.get(key)}, transformers has {number}")
                entry[key] = number
    if a.write:
        data["transformers"], data["torch"] = transformers.__version__, torch.__version__.split("+")[0]
        order = ("name", "parameters", "flops", "config")
        rows = ",\n".join(json.dumps({k: e[k] for k in order if k in e}) for e in data["models"])
        head = json.dumps({k: data[k] for k in ("transformers", "torch")})[1:-1]
        open(a.file, "w").write("{" + head + ', "models": [\n' + rows + "\n]}\n")
    elif wrong:
        sys.exit(1)
    print(f"{len(data['models'])} configurations, {wrong} differences (transformers {transformers.__version__}, "
          f"PyTorch {torch.__version__})")


if __name__ == "__main__":
    main()
