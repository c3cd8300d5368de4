"""Times PyTorch's kernels on one thread. It reads lines of a kernel's name and a number of
repetitions, and answers each with a line of the milliseconds of CPU that one took."""

import math
import re
import sys
import time

import torch
from torch import nn
from torch.nn import functional

torch.manual_seed(1)
torch.set_num_threads(1)


class Block(nn.Module):
    """A block of GPT-2 without dropout, as Hugging Face computes it eagerly."""

    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.attn, self.proj = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.fc, self.out = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        x = x + self.proj(attend(self.attn(self.ln_1(x)), self.heads))
        return x + self.out(gelu(self.fc(self.ln_2(x))))


class GPT(nn.Module):
    """GPT-2 with its table of words used twice, and the loss of every token."""

    def __init__(self, layers, hidden, heads, vocab, positions):
        super().__init__()
        self.words, self.places = nn.Embedding(vocab, hidden), nn.Embedding(positions, hidden)
        self.blocks = nn.Sequential(*(Block(hidden, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(hidden)

    def forward(self, tokens, targets):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        logits = functional.linear(self.norm(self.blocks(x)), self.words.weight)
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def attend(x, heads):
    """The causal core of an attention, of queries, keys and values side by side."""
    n, tokens, hidden = x.shape[0], x.shape[1], x.shape[2] // 3
    q, k, v = (p.view(n, tokens, heads, -1).transpose(1, 2) for p in x.split(hidden, 2))
    scores = q @ k.transpose(2, 3) / math.sqrt(hidden // heads)
    later = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
    p = scores.masked_fill(later, -1e9).softmax(-1)
    return (p @ v).transpose(1, 2).reshape(n, tokens, hidden)


def gelu(x):
    return functional.gelu(x, approximate="tanh")


def both(call, *inputs):
    """A forward and backward of call; gradients of what asks for them are made anew."""
    wanted = [p for p in call.parameters()] if isinstance(call, nn.Module) else []
    wanted += [x for x in inputs if x.requires_grad]
    dy = torch.randn_like(call(*inputs)) / 1000

    def run():
        for p in wanted:
            p.grad = None
        call(*inputs).backward(dy)

    return run


def matrix(*shape):
    return torch.randn(*shape, requires_grad=True)


def head(rows):
    norm, words = nn.LayerNorm(768), nn.Linear(768, 50257, bias=False)
    targets = torch.randint(50257, (rows,))
    loss = lambda x: functional.cross_entropy(words(norm(x)), targets, reduction="sum")
    module = nn.ModuleList([norm, words])
    module.forward = loss
    return both(module, matrix(rows, 768))


def embedding():
    words, places = nn.Embedding(50257, 768), nn.Embedding(1024, 768)
    tokens, order = torch.randint(50257, (8, 128)), torch.arange(128)
    module = nn.ModuleList([words, places])
    module.forward = lambda x: words(x) + places(order)
    return both(module, tokens)


def cross_entropy(rows, classes):
    targets = torch.randint(classes, (rows,))
    return both(lambda x: functional.cross_entropy(x, targets, reduction="sum"), matrix(rows, classes))


def convolution(n, size, channels):
    return both(nn.Conv2d(channels, channels, 3, padding=1), matrix(n, channels, size, size))


def vgg():
    """VGG16's features; 0 is a pooling."""
    layers, channels = [], 3
    for out in (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0):
        layers += [nn.Conv2d(channels, out, 3, padding=1), nn.ReLU()] if out else [nn.MaxPool2d(2)]
        channels = out or channels
    return both(nn.Sequential(*layers), torch.randn(16, 3, 32, 32))


def adam():
    p = matrix(10240, 1000)
    p.grad = torch.randn_like(p)
    return torch.optim.Adam([p]).step


def step():
    model = GPT(4, 256, 4, 1000, 64)
    optimizer = torch.optim.Adam(model.parameters())
    tokens, targets = torch.randint(1000, (8, 64)), torch.randint(1000, (8, 64))

    def run():
        optimizer.zero_grad()
        model(tokens, targets).backward()
        optimizer.step()

    return run


KERNELS = {
    "block": lambda: both(Block(768, 12), matrix(8, 128, 768)),
    "attention": lambda: both(lambda x: attend(x, 12), matrix(8, 128, 3 * 768)),
    "norm": lambda: both(nn.LayerNorm(768), matrix(1024, 768)),
    "GELU": lambda: both(gelu, matrix(1024, 3072)),
    "head": lambda: head(512),
    "entropy": lambda: cross_entropy(512, 50257),
    "embedding": embedding,
    "conv56": lambda: convolution(4, 56, 64),
    "conv28": lambda: convolution(4, 28, 128),
    "conv14": lambda: convolution(4, 14, 256),
    "conv7": lambda: convolution(4, 7, 512),
    "vgg": vgg,
    "Adam": adam,
    "step": step,
}


def blas():
    """Names the library that multiplies matrices; "" if there is none."""
    found = re.search(r"BLAS_INFO=(\w+)", torch.__config__.show())
    return f"{found[1]}, {torch.backends.cpu.get_cpu_capability()}" if found else ""


def main():
    print(torch.__version__, blas(), sep="\t", flush=True)
    made = {}
    for line in sys.stdin:
        name, times = line.rstrip("\n").split("\t")
        if name not in made:
            made = {name: KERNELS[name]()}  # of one kernel at a time, for its memory
            made[name]()
        begin = time.process_time()
        for _ in range(int(times)):
            made[name]()
        print((time.process_time() - begin) * 1000 / int(times), flush=True)


main()
