"""Trains a network by a plan of psim, with PyTorch alone, and measures the steps.

    python train.py [--steps N] [--warmup N] [--out DIR] [--profile] [--precision bf16] [--threads N]
    torchrun --nproc-per-node N train.py …

Needs torch >= 2.8 and nothing else. By itself it starts a process for every rank on this machine;
torchrun, or any launcher that sets RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, may do that
instead. With a GPU for every process it runs on them, over nccl; otherwise on CPUs, over gloo.
It writes result.json and trace.csv as psim exec does: psim compare PREDICTED MEASURED reads them.
--alone N also times every kind of task N times, between the steps, in alone.csv. --start FILE begins with the
weights and the batch of a safetensors file, and --record writes losses, the gradients of the first step
and the last weights of every rank: psim exec --engine torch uses these.

What was not tried: no GPU has run this program yet; on CPUs it was. On GPUs, messages and collectives are not
in trace.csv.
"""
import argparse
import concurrent.futures
import contextlib
import functools
import itertools
import json
import os
import socket
import statistics
import struct
import sys
import tempfile
import time
import zlib

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import nn
from torch.nn import functional

# The plan: the network by its layers, how it is cut into stages, and the order of every rank.
PLAN = json.loads("""{}""")


# The network. Parameters have psim's names, shapes and deviations.


class Linear(nn.Module):
    """x·W + b of a weight [in, out], as in Hugging Face's GPT-2; as_rows has W as [out, in]."""

    def __init__(self, weight, bias=None, as_rows=False):
        super().__init__()
        self.weight, self.bias, self.as_rows = weight, bias, as_rows

    def forward(self, x):
        return functional.linear(x, self.weight if self.as_rows else self.weight.t(), self.bias)


class Norm(nn.Module):
    def __init__(self, weight, bias):
        super().__init__()
        self.weight, self.bias = weight, bias

    def forward(self, x):
        return functional.layer_norm(x, self.weight.shape, self.weight, self.bias)


class RMSNorm(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = weight

    def forward(self, x):
        return functional.rms_norm(x, self.weight.shape, self.weight, 1e-5)


class Embedding(nn.Module):
    """A table of tokens, and GPT's of positions."""

    def __init__(self, layer, tensors):
        super().__init__()
        self.token, self.position = tensors if len(tensors) == 2 else (*tensors, None)

    def forward(self, tokens):
        x = functional.embedding(tokens, self.token)
        return x if self.position is None else x + self.position[: tokens.shape[-1]]


class Block(nn.Module):
    def __init__(self, layer, t):
        super().__init__()
        self.heads = layer["heads"]
        self.norm1, self.qkv, self.project = Norm(t[0], t[1]), Linear(t[2], t[3]), Linear(t[4], t[5])
        self.norm2, self.up, self.down = Norm(t[6], t[7]), Linear(t[8], t[9]), Linear(t[10], t[11])

    def forward(self, x):
        split = lambda y: y.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        q, k, v = map(split, self.qkv(self.norm1(x)).chunk(3, -1))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(mixed.transpose(1, 2).flatten(2))
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


def rotate(x):
    """Llama's rotary positions, of a base of 10,000."""
    half = x.shape[-1] // 2
    rates = 10000 ** (-torch.arange(half, device=x.device) / half)
    angles = torch.outer(torch.arange(x.shape[-2], device=x.device), rates)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class LlamaBlock(nn.Module):
    """Attention with grouped queries over all earlier tokens, and a gated MLP."""

    def __init__(self, layer, tensors):
        super().__init__()
        t = {known["name"].split(".", 2)[2]: tensor for known, tensor in zip(layer["tensors"], tensors)}
        linear = lambda name: Linear(t[name + ".weight"], t.get(name + ".bias"), as_rows=True)
        norm = lambda name: RMSNorm(t[name + ".weight"]) if name + ".weight" in t else nn.Identity()
        self.width = t["self_attn.q_proj.weight"].shape[0] // layer["heads"]
        self.norm1, self.norm2 = norm("input_layernorm"), norm("post_attention_layernorm")
        self.q, self.k, self.v = (linear(f"self_attn.{c}_proj") for c in "qkv")
        self.q_norm, self.k_norm = norm("self_attn.q_norm"), norm("self_attn.k_norm")
        self.project, self.gate = linear("self_attn.o_proj"), linear("mlp.gate_proj")
        self.up, self.down = linear("mlp.up_proj"), linear("mlp.down_proj")

    def forward(self, x):
        split = lambda y: y.unflatten(-1, (-1, self.width)).transpose(1, 2)
        y = self.norm1(x)
        q, k, v = self.q_norm(split(self.q(y))), self.k_norm(split(self.k(y))), split(self.v(y))
        mixed = functional.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True, enable_gqa=True)
        x = x + self.project(mixed.transpose(1, 2).flatten(2))
        y = self.norm2(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Convolution(nn.Module):
    """3×3, with padding; pictures are channels × rows × columns."""

    def __init__(self, weight, bias):
        super().__init__()
        self.weight, self.bias = weight, bias

    def forward(self, x):
        return functional.conv2d(x, self.weight, self.bias, padding=1)


class Spread(nn.Module):
    """One pixel repeated over 7×7: the average pooling of torchvision's VGG16, of a small picture."""

    def forward(self, x):
        return x.expand(-1, -1, 7, 7).contiguous()


# Operations that a chain is made of, from their parameters.
OPERATIONS = {"linear": lambda *tensors: Linear(*tensors, as_rows=True), "layer norm": Norm, "rms norm": RMSNorm,
              "convolution": Convolution, "relu": nn.ReLU, "max pool": lambda: nn.MaxPool2d(2), "spread": Spread,
              "flatten": nn.Flatten}


class Chain(nn.Module):
    """Operations one after another."""

    def __init__(self, layer, tensors):
        super().__init__()
        given = iter(tensors)
        made = (OPERATIONS[o["kind"]](*itertools.islice(given, o["tensors"])) for o in layer["chain"])
        self.steps = nn.Sequential(*made)

    def forward(self, x):
        return self.steps(x)


LAYERS = {"embedding": Embedding, "block": Block, "llama": LlamaBlock, "chain": Chain}


# What --start gave: parameters, inputs and targets by name.
GIVEN = {}


def read_tensors(path):
    """Reads a safetensors file."""
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = bytearray(f.read())
    kinds = {"F32": torch.float32, "I64": torch.int64}
    tensors = {}
    for name, t in header.items():
        begin, end = t["data_offsets"]
        kind = kinds[t["dtype"]]
        flat = torch.frombuffer(data, dtype=kind, offset=begin, count=(end - begin) // kind.itemsize)
        tensors[name] = flat.reshape(t["shape"])
    return tensors


def write_tensors(path, tensors):
    """Writes a safetensors file of float32 tensors."""
    header, at = {}, 0
    for name, t in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [at, at + 4 * t.numel()]}
        at += 4 * t.numel()
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for t in tensors.values():
            f.write(t.detach().to("cpu", torch.float32).contiguous().numpy().tobytes())


def draw(tensor, device):
    """Returns a parameter. It depends only on seed, name and shape, so every cut begins alike."""
    if tensor["name"] in GIVEN:
        return nn.Parameter(GIVEN[tensor["name"]].to(device, copy=True))
    values = torch.zeros(tensor["shape"], device=device)
    if tensor["deviation"] > 0:
        generator = torch.Generator(device).manual_seed(PLAN["seed"] ^ zlib.crc32(tensor["name"].encode()))
        values.normal_(0, tensor["deviation"], generator=generator)
    elif tensor["ones"]:
        values.fill_(1)
    return nn.Parameter(values)


class Stage(nn.Module):
    """A run of layers. shared has the parameters of this process that other layers may use."""

    def __init__(self, layers, device, shared):
        super().__init__()
        self.narrow = False  # whether what it passes on is of 16 bits
        self.layers = nn.ModuleList()
        for layer in layers:
            for t in layer["tensors"]:
                if t["name"] not in shared:
                    shared[t["name"]] = draw(t, device)
            self.layers.append(LAYERS[layer["kind"]](layer, [shared[t["name"]] for t in layer["tensors"]]))
        known = {id(shared[t["name"]]): t["name"] for layer in layers for t in layer["tensors"]}
        # Where every parameter is: fully_shard puts another tensor there.
        self.places = [(known[id(p)], m, attr)
                       for m in self.modules() for attr, p in m._parameters.items() if p is not None]

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x.to(torch.bfloat16) if self.narrow else x

    def parameter(self, name):
        return next((getattr(m, attr) for known, m, attr in self.places if known == name), None)


def whole(tensor):
    """Returns a copy of a tensor, all of it where it is sharded."""
    return (tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor).detach().to("cpu", copy=True)


def values(modules, prefix, of):
    """Returns a tensor of every parameter of some modules, by name."""
    stages = [m for module in modules for m in module.modules() if isinstance(m, Stage)]
    return {prefix + name: whole(of(getattr(m, attr))) for s in stages for name, m, attr in s.places}


def loss_of(output, target):
    return functional.cross_entropy(output.flatten(0, -2), target.flatten())


# The samples: psim's made-up ones, the same batch in every step.


class SplitMix:
    """Random numbers of a seed, from the one on that is called first."""

    def __init__(self, seed, first=0):
        self.state = seed + first * 0x9E3779B97F4A7C15

    def below(self, n):
        mask = 2**64 - 1
        self.state = (self.state + 0x9E3779B97F4A7C15) & mask
        z = self.state
        z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & mask
        return (z ^ z >> 31) * n >> 64


def batch(replica, device):
    """Returns inputs and targets of a replica for a step."""
    samples, replicas = PLAN["samples"], PLAN["data_parallel"]
    own = slice(replica * samples, (replica + 1) * samples)
    if "inputs" in GIVEN:
        inputs = GIVEN["inputs"][own].unflatten(-1, PLAN["input"])
        return inputs.to(device), GIVEN["targets"][own].to(device)
    if not PLAN["sequence"]:
        inputs, targets = pictures(samples * replicas)
        return inputs[own].to(device), targets[own].to(device)
    random, words = SplitMix(1234), min(64, PLAN["classes"])
    following = list(range(words))
    for i in range(words):
        j = random.below(i + 1)
        following[i], following[j] = following[j], i
    rows = []
    for _ in range(samples * replicas):
        row, word = [], random.below(words)
        for _ in range(PLAN["sequence"] + 1):
            row.append(word * PLAN["classes"] // words)
            word = random.below(words) if random.below(8) == 0 else following[word]
        rows.append(row)
    tokens = torch.tensor(rows[own], device=device)
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def pictures(samples):
    """Returns pictures of classes, each with a pattern of 4×4 grey fields in every channel, and their labels."""
    channels, height, width = PLAN["input"] if len(PLAN["input"]) == 3 else (*PLAN["input"], 1, 1)
    pixels = [(c * 4 + y * 4 // height) * 4 + x * 4 // width
              for c in range(channels) for y in range(height) for x in range(width)]
    random, patterns = SplitMix(1234, PLAN["classes"] * channels * 16), {}  # after those of all fields
    rows, labels = [], []
    for _ in range(samples):
        label = random.below(PLAN["classes"])
        if label not in patterns:
            patterns[label] = {f: 64 + SplitMix(1234, label * channels * 16 + f).below(128) for f in set(pixels)}
        rows.append([patterns[label][f] + random.below(97) - 48 for f in pixels])
        labels.append(label)
    values = (torch.tensor(rows) / 255 - 0.5) / 0.2
    return values.unflatten(-1, PLAN["input"]), torch.tensor(labels)


# Times of tasks, by events on a GPU.


class Recorder:
    def __init__(self, device):
        self.device, self.spans, self.begun = device, [], None
        # On CPUs, lists of kind, stage, microbatch, bytes, begin and end: collectives, messages that were sent
        # ("SENT_F" …) and messages that came ("SEND_F" …). An end of None is still to come.
        self.events = []

    def now(self):
        if self.device.type != "cuda":
            return time.perf_counter_ns()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def start(self):
        self.spans, self.events, self.begun = [], [], self.now()

    @contextlib.contextmanager
    def span(self, kind, stage="", microbatch=""):
        begin = self.now()
        yield
        self.spans.append((kind, stage, microbatch, begin, self.now()))

    def extend(self):
        """Makes the last span end now."""
        self.spans[-1] = (*self.spans[-1][:4], self.now())

    def rows(self):
        """Returns the spans since start, in nanoseconds after it."""
        if self.device.type != "cuda":
            return [(k, s, m, a - self.begun, b - self.begun) for k, s, m, a, b in self.spans]
        after = lambda event: round(self.begun.elapsed_time(event) * 1e6)
        return [(k, s, m, after(a), after(b)) for k, s, m, a, b in self.spans]


    def exchanges(self):
        """Returns the events since start, in nanoseconds after it."""
        waited = time.monotonic() + 1
        while any(e[-1] is None for e in self.events) and time.monotonic() < waited:
            time.sleep(1e-4)
        return [(*e[:4], e[4] - self.begun, e[5] - self.begun) for e in self.events if e[-1] is not None]


# Times of messages and collectives, on CPUs: on a GPU they are the device's.


class Awaited:
    """A message that a thread waits for, so that its end is known while this process still computes."""

    def __init__(self, work, pool, event):
        def wait():
            work.wait()
            event[-1] = time.perf_counter_ns()

        self.done = pool.submit(wait)

    def wait(self):
        return self.done.result()


def record_messages(schedules, stages, recorder):
    """Records when a message is sent and when it has come."""
    pool = concurrent.futures.ThreadPoolExecutor(64)

    def named(get, kind, sender):
        def operations(chunk):
            list_ = get(chunk)
            for op in list_:
                op.message = (kind, sender, chunk)
            return list_

        return operations

    for stage in stages:
        i = stage.stage_index
        stage.get_fwd_send_ops = named(stage.get_fwd_send_ops, "SENT_F", i)
        stage.get_bwd_send_ops = named(stage.get_bwd_send_ops, "SENT_B", i)
        stage.get_fwd_recv_ops = named(stage.get_fwd_recv_ops, "SEND_F", i - 1)
        stage.get_bwd_recv_ops = named(stage.get_bwd_recv_ops, "SEND_B", i + 1)
    batch_p2p = schedules._batch_p2p

    def recorded(ops, *args, **kwargs):
        now = time.perf_counter_ns()
        events = [[*op.message, op.tensor.nbytes, now, now if op.message[0].startswith("SENT") else None] for op in ops]
        recorder.events += events
        works = batch_p2p(ops, *args, **kwargs)
        return [Awaited(w, pool, e) if e[-1] is None else w for w, e in zip(works, events, strict=True)]

    schedules._batch_p2p = recorded


def record_collectives(recorder):
    """Records the collectives that Python starts."""
    def recorded(call, kind):
        def run(*args, **kwargs):
            tensors = [t for t in (*args, *kwargs.values()) if torch.is_tensor(t)]
            event = [kind, "", "", max(t.nbytes for t in tensors), time.perf_counter_ns(), None]
            recorder.events.append(event)
            work = call(*args, **kwargs)

            def ended(_=None):
                event[-1] = time.perf_counter_ns()

            if work is None:
                ended()
            else:
                work.get_future().add_done_callback(ended)
            return work

        return run

    # fully_shard calls the names with single since PyTorch 2.15.
    for name, kind in (("all_reduce", "ALL_REDUCE"), ("all_gather_into_tensor", "ALL_GATHER"),
                       ("all_gather_single", "ALL_GATHER"), ("reduce_scatter_tensor", "REDUCE_SCATTER"),
                       ("reduce_scatter_single", "REDUCE_SCATTER")):
        if hasattr(dist, name):
            setattr(dist, name, recorded(getattr(dist, name), kind))


def sum_bucket(replicas, bucket):
    """Sums a bucket of DistributedDataParallel as it would itself, by a collective that is recorded."""
    work = dist.all_reduce(bucket.buffer().div_(replicas), async_op=True)
    return work.get_future().then(lambda done: done.value()[0])


def exchanged(ranks):
    """Returns rows of a trace for the messages and collectives of a step, by rank. A message begins when it is sent
    and the one before it to the same rank has come; a collective when the one before it has ended."""
    came = {(rank // PLAN["stages"], *e[:3]): e for rank, (_, _, events) in enumerate(ranks) for e in events}
    to = {(m["kind"], m["stage"]): m["to"] % PLAN["stages"] for m in PLAN["messages"]}
    rows = []
    for rank, (_, _, events) in enumerate(ranks):
        rows.append([])
        free = {}
        for kind, stage, microbatch, size, begin, end in sorted(events, key=lambda e: e[4]):
            stream, peer = "gradients", ""
            if kind.startswith("SEND"):
                continue
            if kind.startswith("SENT"):
                kind = kind.replace("SENT", "SEND")
                arrival = came.get((rank // PLAN["stages"], kind, stage, microbatch))
                if arrival is None:
                    continue
                end, peer = arrival[5], rank // PLAN["stages"] * PLAN["stages"] + to[kind, stage]
                stream = f"send {kind[-1]} to {peer}"
            begin = max(begin, free.get(stream, 0))
            free[stream] = end = max(begin, end)
            rows[-1].append((stream, kind, stage, microbatch, begin, end, size, 0 if peer == "" else "", peer))
    return rows


# The ways to train. Each returns what has parameters, and a function that does all passes of a step; alone,
# it does this process's passes without messages and collectives.


def pipeline(rank, device, recorder, narrow):
    """A pipeline by the plan's order, or replicas of one, whose gradients are summed after the last microbatch."""
    from torch.distributed.pipelining import PipelineStage, schedules

    replica, rank = divmod(rank, PLAN["stages"])
    line = replicated = None  # the group of a replica's ranks, and that of the replicas of a rank
    if PLAN["data_parallel"] > 1:
        shape, names = (PLAN["data_parallel"], PLAN["stages"]), ("replica", "rank")
        mesh = dist.init_device_mesh(device.type, shape, mesh_dim_names=names)
        line, replicated = mesh.get_group("rank"), mesh.get_group("replica")
    rows = [line.split(",") for line in PLAN["order"]]
    own = [sorted({int(cell[: next(i for i, c in enumerate(cell) if not c.isdigit())]) for cell in row})
           for row in rows]
    ends, count = [0], len(PLAN["cut"])
    for n in PLAN["cut"]:
        ends.append(ends[-1] + n)
    modules, stages, reductions = [], [], []
    for i in own[rank]:
        modules.append(Stage(PLAN["layers"][ends[i]:ends[i + 1]], device, {}))
        modules[-1].narrow = narrow and i < count - 1
        stages.append(PipelineStage(modules[-1], i, count, device, group=line))
        # All stages know who has which, as the order says.
        stages[-1].stage_index_to_group_rank = {s: r for r, list_ in enumerate(own) for s in list_}
        if replicated:
            reductions.append(Reduction(modules[-1], i, replicated))
        record(stages[-1], i, recorder, reductions[-1] if replicated and PLAN["overlap"] else None)
    # Sums of gradients may begin before the end, so they are scaled after those.
    runtime = schedules._PipelineScheduleRuntime(stages, PLAN["microbatches"], loss_fn=loss_of, scale_grads=False)
    record_loss(runtime, recorder)
    if device.type == "cpu":
        record_messages(schedules, stages, recorder)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "order.csv")
        with open(path, "w") as f:
            f.write("\n".join(PLAN["order"]) + "\n")
        runtime._load_csv(path, "compute_only")
    inputs, targets = batch(replica, device)
    tied = tied_tensors(modules, own, rank)
    first, last = 0 in own[rank], count - 1 in own[rank]

    def passes(alone=False):
        losses = []
        for reduction in reductions:
            reduction.alone = alone
        with made_up_messages(schedules) if alone else contextlib.nullcontext():
            runtime.step(*([inputs] if first else []), **({"target": targets, "losses": losses} if last else {}))
        for gradients, group in tied():
            for other in gradients[1:]:
                gradients[0] += other
            if group and not alone:
                dist.all_reduce(gradients[0], group=group)
            for other in gradients[1:]:
                other.copy_(gradients[0])
        average(modules, reductions)
        return sum(loss.detach() for loss in losses) / len(losses) if losses else None

    return modules, passes


class Reduction:
    """The sums of a stage's gradients over the replicas of a pipeline, by psim's buckets; not those of tied tensors."""

    def __init__(self, module, index, group):
        self.module, self.names, self.group, self.pending = module, PLAN["buckets"][index], group, []
        self.alone = False  # nothing is summed

    def start(self):
        for names in self.names:
            gradients = [self.module.parameter(name).grad for name in names if name != PLAN["tied"]]
            if gradients:
                flat = torch.cat([g.flatten() for g in gradients])
                work = None if self.alone else dist.all_reduce(flat, group=self.group, async_op=True)
                self.pending.append((work, flat, gradients))

    def finish(self):
        for work, flat, gradients in self.pending:
            if work:
                work.wait()
            for g, part in zip(gradients, flat.split([g.numel() for g in gradients])):
                g.copy_(part.view_as(g))
        self.pending = []


def average(modules, reductions):
    """Ends the sums over microbatches and replicas, and makes means of them."""
    for reduction in reductions:
        if not PLAN["overlap"]:
            reduction.start()
        reduction.finish()
    gradients = [p.grad for m in modules for p in m.parameters() if p.grad is not None]
    if gradients:
        torch._foreach_div_(gradients, PLAN["microbatches"] * PLAN["data_parallel"])


def record(stage, index, recorder, reduction):
    """Times the passes of a stage. Waits for messages are before them. A reduction starts after the last one."""
    forward, backward, weights = stage.forward_one_chunk, stage.backward_one_chunk, stage.backward_weight_one_chunk
    backwards = itertools.count(1)

    def ended():
        if reduction and next(backwards) % PLAN["microbatches"] == 0:
            reduction.start()

    def forward_one_chunk(chunk, *args, **kwargs):
        with recorder.span("F", index, chunk):
            return forward(chunk, *args, **kwargs)

    def backward_one_chunk(chunk, loss=None, full_backward=True, **kwargs):
        with recorder.span("B" if full_backward else "I", index, chunk):
            result = backward(chunk, loss=loss, full_backward=full_backward, **kwargs)
        if full_backward:
            ended()
        return result

    def backward_weight_one_chunk(chunk, *args, **kwargs):
        with recorder.span("W", index, chunk):
            result = weights(chunk, *args, **kwargs)
        ended()
        return result

    stage.forward_one_chunk, stage.backward_one_chunk = forward_one_chunk, backward_one_chunk
    stage.backward_weight_one_chunk = backward_weight_one_chunk


def record_loss(runtime, recorder):
    """Times the loss as a part of the last stage's forward."""
    compute = runtime._maybe_compute_loss

    def maybe_compute_loss(stage, *args):
        compute(stage, *args)
        if stage.is_last:
            recorder.extend()

    runtime._maybe_compute_loss = maybe_compute_loss


@contextlib.contextmanager
def made_up_messages(schedules):
    """Sends nothing; what would arrive is noise."""
    noise = {}

    def batch_p2p(ops):
        for op in ops:
            if op.op is dist.irecv:
                shape = op.tensor.shape
                with torch.no_grad():
                    op.tensor.copy_(noise.setdefault(shape, 0.01 * torch.randn(shape, device=op.tensor.device)))
        return []

    sent, schedules._batch_p2p = schedules._batch_p2p, batch_p2p
    try:
        yield
    finally:
        schedules._batch_p2p = sent


def tied_tensors(modules, own, rank):
    """Returns a function that lists the gradients of a table that the first and last stage both hold."""
    count = len(PLAN["cut"])
    if not PLAN["tied"]:
        return list
    ranks = sorted({r + first for r, list_ in enumerate(own) if 0 in list_ or count - 1 in list_
                    for first in range(0, dist.get_world_size(), PLAN["stages"])})
    group = dist.new_group(ranks) if len(ranks) > 1 else None  # all processes make it
    tables = [m.parameter(PLAN["tied"]) for m, i in zip(modules, own[rank]) if i in (0, count - 1)]
    return lambda: [([t.grad for t in tables], group)] if tables else []


def replicas(rank, device, recorder, narrow):
    """DistributedDataParallel, or with zero = 3 fully_shard by psim's units; one process alone without both."""
    model, whole, sharded = in_units(device), PLAN["data_parallel"], PLAN["zero"] == 3
    if sharded:
        group = PLAN["zero_group"] or whole  # copies of a group sum shares: hybrid sharding
        sizes, names = ((whole // group, group), ("replicate", "shard")) if group < whole else ((whole,), ("shard",))
        mesh = dist.init_device_mesh(device.type, sizes, mesh_dim_names=names)
        shard(model, mesh, narrow)
    elif whole > 1:
        model = nn.parallel.DistributedDataParallel(
            model, device_ids=[device.index] if device.type == "cuda" else None, bucket_cap_mb=PLAN["bucket_mb"])
        if device.type == "cpu":
            model.register_comm_hook(whole, sum_bucket)
    inputs, targets = batch(rank, device)

    @functools.cache
    def single():
        """A process that shards by itself: hooks and copies of fully_shard are a part of its passes."""
        group = dist.new_group([rank], use_local_synchronization=True)
        return shard(in_units(device), dist.DeviceMesh.from_group(group, device.type), narrow)

    def passes(alone=False):
        total, count = 0, PLAN["microbatches"]
        net = model if not alone else single() if sharded else getattr(model, "module", model)
        for m, (x, y) in enumerate(zip(inputs.chunk(count), targets.chunk(count))):
            last = m == count - 1
            if sharded:
                net.set_requires_gradient_sync(last)
            synchronized = whole == 1 or sharded or last or alone  # alone, the replica itself runs
            quiet = contextlib.nullcontext() if synchronized else model.no_sync()
            with quiet:
                with recorder.span("F", 0, m):
                    loss = loss_of(net(x), y) / count
                with recorder.span("B", 0, m):
                    loss.backward()
            total = total + loss.detach()
        if sharded and alone:
            net.zero_grad()
            for p in model.parameters():
                p.grad = torch.zeros_like(p)
        return total

    return [model], passes


def in_units(device):
    """Returns the whole network, by psim's units."""
    shared, ends = {}, list(itertools.accumulate(PLAN["cut"], initial=0))
    return nn.Sequential(*(Stage(PLAN["layers"][a:b], device, shared) for a, b in itertools.pairwise(ends)))


def shard(model, mesh, narrow):
    """Shards each unit of a network over the processes of a mesh, and returns the network."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if narrow else MixedPrecisionPolicy()
    for unit in model:
        if any(True for _ in unit.parameters()):
            fully_shard(unit, mesh=mesh, mp_policy=policy)
    return fully_shard(model, mesh=mesh, mp_policy=policy)


def optimizer(modules, args):
    o = {"name": "sgd", "learning_rate": 1e-3, "momentum": 0} if args.plain_sgd else PLAN["optimizer"]
    parameters = list({id(p): p for m in modules for p in m.parameters()}.values()) or [nn.Parameter(torch.zeros(0))]
    if o["name"].startswith("adam"):
        kind = torch.optim.AdamW if o["name"] == "adamw" else torch.optim.Adam
        return kind(parameters, lr=o["learning_rate"], foreach=True)
    return torch.optim.SGD(parameters, lr=o["learning_rate"], momentum=o["momentum"], foreach=True)


# Times of tasks by themselves.


def round_of(n, step, rank, device, narrow):
    """Returns the times of this process's tasks: of a step without messages while the other processes wait,
    and while they all do the same; and of messages and collectives, which need several."""
    world = dist.get_world_size()
    for turn in range(world):
        dist.barrier()
        if turn == rank:
            quiet = tasks_of(step(alone=True)[0])
    dist.barrier()
    beside = tasks_of(step(alone=True)[0])
    rows = [(n, rank, *task, 0, ns, beside[task]) for task, ns in quiet.items()]
    for message in PLAN["messages"]:
        if rank in (message["from"], message["to"]):
            kind = torch.bfloat16 if narrow else torch.float32
            buffer = torch.zeros(message["bytes"] // 4, dtype=kind, device=device)
            ns = median(lambda: pass_on(message, rank, buffer), device, lambda: None) // 2
            rows.append((n, rank, message["kind"], message["stage"], message["bytes"], ns, ns))
        dist.barrier()
    for c in PLAN["collectives"]:
        groups = [(ranks, group_of(tuple(ranks))) for ranks in c["groups"]]
        for ranks, group in groups:
            if rank in ranks:
                ns = collective_time(
                    collective_of(c, device, group), c["bytes"], device, functools.partial(dist.barrier, group))
                rows.append((n, rank, c["kind"], "", c["bytes"], ns, ns))
        dist.barrier()
    return rows


def quiet_rounds(step, rank, device, modules, update, args):
    """Times tasks and steps in turns, so that both see the same machine. Rounds in which other programs took
    more than 2 % of the cores do not count, and are repeated, as far as three times as many rounds do."""
    rounds, count, kept = [], min(args.alone, args.steps), Kept(modules, update)
    while len(rounds) < 3 * count and sum(taken <= 0.02 for taken, _, _ in rounds) < count:
        if rank == 0:
            again = sum(taken > 0.02 for taken, _, _ in rounds)
            print(f"round {len(rounds) + 1 - again} of {count}" + f", {again} were disturbed" * (again > 0), flush=True)
        dist.barrier()
        before, begin = used_by_others(device), time.monotonic()
        kept.save()
        rows = round_of(len(rounds), step, rank, device, args.narrow)
        kept.restore()
        steps = [step() for _ in range(-(-args.steps // count))]
        taken = (used_by_others(device) - before) / (time.monotonic() - begin) / os.cpu_count()
        whole = torch.tensor([taken], device=device)  # the first process's figure is everybody's
        dist.broadcast(whole, 0)
        rounds.append((whole.item(), rows, steps))
    chosen = sorted(sorted(range(len(rounds)), key=lambda n: max(0.02, rounds[n][0]))[:count])
    steps = [s for n in chosen for s in rounds[n][2]][:args.steps]
    return steps, [row for n in chosen for row in rounds[n][1]], max(rounds[n][0] for n in chosen) > 0.02


def used_by_others(device):
    """Returns the seconds for which cores were busy with anything but these processes; 0 if that is unknown."""
    own = torch.tensor([time.process_time()], dtype=torch.float64, device=device)
    dist.all_reduce(own)
    if not os.path.exists("/proc/stat"):
        return 0.0
    with open("/proc/stat") as f:
        spent = [int(n) for n in f.readline().split()[1:9]]
    return (sum(spent) - spent[3] - spent[4]) / os.sysconf("SC_CLK_TCK") - own.item()


def tasks_of(rows):
    """Returns the mean times of tasks by kind and stage. Python's time before a task is the task's."""
    times, before = {}, 0
    for kind, stage, _, _, end in rows:
        times.setdefault((kind, stage), []).append(end - before)
        before = end
    return {task: int(statistics.fmean(list_)) for task, list_ in times.items()}


def median(task, device, meet=dist.barrier):
    """Returns the median time of something that several processes do together, after they have met."""
    times = []
    for _ in range(4):  # the first warms up
        meet()
        begin = time.perf_counter_ns()
        task()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter_ns() - begin)
    return int(statistics.median(times[1:]))


class Kept:
    """Parameters and the optimizer's state, and copies of them. Memory for these is taken once: if it were taken
    and freed in every round, tasks would get theirs anew from the system, which takes time."""

    def __init__(self, modules, update):
        state = [t for values in update.state.values() for t in values.values() if torch.is_tensor(t)]
        self.pairs = [(t, t.detach().clone()) for t in [*(p for m in modules for p in m.parameters()), *state]]

    @torch.no_grad()
    def save(self):
        for t, copy in self.pairs:
            copy.copy_(t)

    @torch.no_grad()
    def restore(self):
        for t, copy in self.pairs:
            t.copy_(copy)


def pass_on(message, rank, buffer):
    """Sends a buffer to the other rank of a message and back."""
    first = rank == message["from"]
    peer = message["to"] if first else message["from"]
    for kind in (dist.isend, dist.irecv) if first else (dist.irecv, dist.isend):
        for request in dist.batch_isend_irecv([dist.P2POp(kind, buffer, peer)]):
            request.wait()


@functools.cache
def group_of(ranks):
    """Returns the group of some ranks. All processes ask for the same ones, in the same order."""
    return dist.group.WORLD if len(ranks) == dist.get_world_size() else dist.new_group(ranks)


def collective_of(c, device, group):
    """Returns a function that runs a collective over the ranks of a group."""
    world = dist.get_world_size(group)
    n = -(-c["bytes"] // 4 // world)
    whole, part = torch.zeros(n * world, device=device), torch.zeros(n, device=device)
    return {
        "ALL_REDUCE": functools.partial(dist.all_reduce, whole, group=group),
        "ALL_GATHER": functools.partial(dist.all_gather_into_tensor, whole, part, group=group),
        "REDUCE_SCATTER": functools.partial(dist.reduce_scatter_tensor, part, whole, group=group),
    }[c["kind"]]


def collective_time(call, size, device, meet, times=8):
    """Returns the time that a collective adds to computing; on a GPU, its own. After a barrier all processes would
    sleep, and to wake takes longer than a small collective. fully_shard waits for each on the cores that compute;
    others have threads of their own, whose waits computing hides: it takes longer here than they do."""
    if device.type == "cuda":
        return median(call, device, meet)
    square, behind = torch.full((256, 256), 1e-3), PLAN["zero"] == 3
    count = 4 if behind else 4 + size // 250_000  # of products of about half a millisecond

    def total(called):
        call()
        meet()
        begin = time.perf_counter_ns()
        for _ in range(times):
            work = call(async_op=True) if called and not behind else None
            for _ in range(count):
                square @ square
            if work:
                work.wait()
            elif called:
                call()
        return time.perf_counter_ns() - begin

    return max(0, total(True) - total(False)) // times


def write_alone(everyone, folder):
    with open(os.path.join(folder, "alone.csv"), "w") as f:
        f.write("round,rank,kind,stage,bytes,ns,beside_ns\n")
        for _, _, rows in everyone:
            for row in rows:
                f.write(",".join(map(str, row)) + "\n")


# The run.


def work(local, rank, world, args):
    torch.set_num_threads(args.threads)
    gpus = torch.cuda.is_available() and torch.cuda.device_count() >= int(os.environ.get("LOCAL_WORLD_SIZE", world))
    device = torch.device("cuda", local) if gpus else torch.device("cpu")
    if gpus:
        torch.cuda.set_device(device)  # before the process group: otherwise all processes open the first GPU
    else:
        stay_on_cores(local, int(os.environ.get("LOCAL_WORLD_SIZE", world)), args.threads)
    options = {"device_id": device} if gpus else {}
    dist.init_process_group("nccl" if gpus else "gloo", rank=rank, world_size=world, **options)
    recorder = Recorder(device)
    if not gpus:
        record_collectives(recorder)
    if args.start:
        GIVEN.update(read_tensors(args.start))
    args.narrow = (args.precision or (PLAN["precision"] if gpus else "fp32")) == "bf16"
    modules, passes = (pipeline if PLAN["stages"] > 1 else replicas)(rank, device, recorder, args.narrow)
    update = optimizer(modules, args)

    def wait():
        if gpus:
            torch.cuda.synchronize()

    def step(kept=None, alone=False):
        if not alone:
            dist.barrier()
        wait()
        recorder.start()
        # Parameters, their gradients and the sums of these are of 32 bits; products and messages of 16.
        with torch.autocast(device.type, torch.bfloat16, enabled=args.narrow):
            loss = passes(alone)
        if kept is not None:
            kept.update(values(modules, "gradient/", lambda p: p.grad))
        with recorder.span("OPTIMIZER"):
            update.step()
            update.zero_grad()
        wait()
        return recorder.rows(), None if loss is None else float(loss), recorder.exchanges()

    kept, steps, times, disturbed = {}, [], [], False
    for n in range(args.warmup + (0 if args.alone else args.steps)):
        steps.append(step(kept if args.record and n == 0 else None))
    if args.alone:
        more, times, disturbed = quiet_rounds(step, rank, device, modules, update, args)
        steps += more
    if args.record:
        kept.update(values(modules, "weight/", lambda p: p))
        write_tensors(os.path.join(args.out, f"record-rank{rank}.safetensors"), kept)
    peak = torch.cuda.max_memory_allocated() if gpus else 0
    if args.profile:
        with torch.profiler.profile() as profile:
            step()
        profile.export_chrome_trace(os.path.join(args.out, f"profile-rank{rank}.json.gz"))
    everyone = [None] * world
    dist.all_gather_object(everyone, (steps, peak, times))
    if rank == 0:
        if args.alone:
            write_alone(everyone, args.out)
        everyone = [(run, peak) for run, peak, _ in everyone]
        describe(modules[0])
        write(everyone, args, disturbed, str(torch.cuda.get_device_name()) if gpus else "cpu")
    dist.barrier()  # the others wait for what the first writes: none closes connections that another one uses
    if gpus:
        dist.destroy_process_group()
        return
    # Everything is written. A thread of gloo's may outlive its group, which aborts a process that ends as usual
    # ("terminate called without an active exception", once in some sixty starts of PyTorch 2.15).
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def stay_on_cores(local, world, threads):
    """Keeps this process on cores of its own, if there are enough: the system would move it during a step."""
    if not hasattr(os, "sched_setaffinity"):
        return
    cores = sorted(os.sched_getaffinity(0))
    if world * threads <= len(cores):
        os.sched_setaffinity(0, cores[local * threads:(local + 1) * threads])


def describe(model):
    """Prints the buckets of DistributedDataParallel: the first is of 1 MB, all are made anew after a step."""
    if isinstance(model, nn.parallel.DistributedDataParallel):
        data = model._get_ddp_logging_data()
        print("buckets, in bytes:", data.get("bucket_sizes"), "after the first step:", data.get("rebuilt_bucket_sizes"))


def seconds(ns):
    return ns // 10**9 + ns % 10**9 / 1e9


def write(everyone, args, disturbed, device):
    steps = list(zip(*(run for run, _ in everyone)))  # by step, then by rank
    losses = [statistics.fmean(loss for _, loss, _ in ranks if loss is not None) for ranks in steps]
    measured = steps[args.warmup:]
    times = [seconds(max(row[4] for rows, _, _ in ranks for row in rows)) for ranks in measured]  # as the trace ends
    middle = sorted(range(len(times)), key=times.__getitem__)[(len(times) - 1) // 2]
    mean, samples = statistics.fmean(times), PLAN["samples"] * PLAN["data_parallel"]
    passes = [[row for row in rows if row[0] in "FBIW"] for rows, _, _ in measured[middle]]
    exchanges = exchanged(measured[middle])
    makespan = max(row[4] for rows in passes for row in rows) / 1e9
    spans = [(rows[-1][4] - rows[0][3]) / 1e9 for rows in passes]
    busy = [sum(b - a for _, _, _, a, b in rows) / 1e9 for rows in passes]
    result = {
        "schema": 1, "kind": "measured", "name": PLAN["name"], "schedule": PLAN["schedule"],
        **({"fully_sharded": True} if PLAN["zero"] == 3 else {}),
        "stages": PLAN["stages"], "virtual_stages": PLAN["virtual_stages"], "microbatches": PLAN["microbatches"],
        "data_parallel": PLAN["data_parallel"], "tensor_parallel": 1, "devices": len(everyone),
        "step_time_s": mean, "makespan_s": makespan,
        "bubble": {"makespan": 1 - sum(busy) / len(busy) / makespan,
                   "span": 1 - statistics.fmean(busy) / max(spans)},
        "throughput": {"samples_per_s": samples / mean, "tokens_per_s": samples * PLAN["sequence"] / mean},
        "ranks": [share(rank, measured, mean, peak) for rank, (_, peak) in enumerate(everyone)],
        "fits_memory": True, "tasks": sum(len(rows) + len(more) for (rows, _, _), more in zip(measured[middle], exchanges)),
        "steps": times, "step_time_mean_s": mean, "step_time_median_s": statistics.median(times),
        "step_time_std_s": statistics.stdev(times) if len(times) > 1 else 0.0, "losses": losses,
        "disturbed": disturbed, "runs_made": 1, "backend": "pytorch", "times_comparable": True,
        "engine": {"name": "pytorch", "version": torch.__version__, "device": device},
        "warnings": ["messages and collectives are idle time of ranks" + (
            ": only passes and the optimizer were timed" if device != "cpu" else ", and tasks of trace.csv")],
        "config": PLAN["config"],
    }
    with open(os.path.join(args.out, "result.json"), "w") as f:
        json.dump(result, f, indent=2)
        f.write("\n")
    with open(os.path.join(args.out, "trace.csv"), "w") as f:
        f.write("rank,stream,kind,stage,microbatch,start_ns,end_ns,bytes,part,peer\n")
        for rank, (rows, _, _) in enumerate(measured[middle]):
            for kind, stage, microbatch, begin, end in rows:
                f.write(f"{rank},compute,{kind},{stage},{microbatch},{begin},{end},0,,\n")
            for row in exchanges[rank]:
                f.write(f"{rank}," + ",".join(map(str, row)) + "\n")
    print(f"step {statistics.median(times):.4f} s (median of {len(times)}), loss {losses[0]:.4f} to {losses[-1]:.4f}; "
          f"wrote {args.out}/result.json and trace.csv")


def share(rank, measured, mean, peak):
    """Returns a rank's part of a step: means over the steps."""
    total = lambda kinds: sum(b - a for ranks in measured for k, _, _, a, b in ranks[rank][0] if k in kinds) / 1e9
    compute, update = total("FBIW") / len(measured), total(["OPTIMIZER"]) / len(measured)
    idle = max(0.0, mean - compute - update)
    return {"rank": rank, "compute_s": compute, "communication_s": 0, "exposed_communication_s": 0,
            "optimizer_s": update, "idle_s": idle, **({"peak_memory_bytes": peak} if peak else {})}


def start(local, world, args):
    os.environ.update(LOCAL_WORLD_SIZE=str(world))
    work(local, local, world, args)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10, help="steps to measure")
    parser.add_argument("--warmup", type=int, default=3, help="steps before those")
    parser.add_argument("--out", default=os.path.dirname(os.path.abspath(__file__)), help="folder for the results")
    parser.add_argument("--profile", action="store_true", help="also write PyTorch's own trace of a step")
    parser.add_argument("--alone", type=int, default=0, help="how often to time every task by itself, between the steps")
    parser.add_argument("--start", help="a safetensors file of the first weights, and of inputs and targets")
    parser.add_argument("--record", action="store_true", help="write gradients of the first step, and the last weights")
    parser.add_argument("--plain-sgd", action="store_true", help="update by SGD with a learning rate of 0.001")
    parser.add_argument("--precision", choices=["fp32", "bf16"], help="default: the plan's on GPUs, fp32 on CPUs")
    parser.add_argument("--threads", type=int, default=1, help="threads of a process on a CPU")
    args = parser.parse_args()
    if args.steps < 1 or args.warmup < 0:
        parser.error("--steps must be at least 1, and --warmup at least 0")
    if args.alone and args.warmup < 1:
        parser.error("--alone needs a step of --warmup before")
    os.makedirs(args.out, exist_ok=True)
    os.environ.setdefault("OMP_NUM_THREADS", str(args.threads))
    world = PLAN["stages"] * PLAN["data_parallel"]
    if "RANK" in os.environ:
        if int(os.environ["WORLD_SIZE"]) != world:
            parser.error(f"this plan is for {world} processes, and {os.environ['WORLD_SIZE']} were started")
        work(int(os.environ["LOCAL_RANK"]), int(os.environ["RANK"]), world, args)
        return
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(s.getsockname()[1]))
    torch.multiprocessing.spawn(start, (world, args), nprocs=world)


if __name__ == "__main__":
    main()
