"""Trains a small GPT on two processes of gloo and writes a trace of each rank: profiles/testdata.

usage: OMP_NUM_THREADS=1 python ddp.py FOLDER
"""
import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile, schedule


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.norm1, self.norm2 = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.norm1(x)).chunk(3, -1))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Network(nn.Module):
    def __init__(self, width=256, vocab=1000, length=128):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocab, width), nn.Parameter(torch.zeros(length, width))
        self.block, self.norm = Block(width, 4), nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)

    def forward(self, x):
        return self.head(self.norm(self.block(self.tokens(x) + self.places)))


def train(rank, ranks, folder):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29533")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(Network())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
    x = torch.randint(0, 1000, (4, 129))
    with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=2, warmup=1, active=2),
                 on_trace_ready=lambda p: p.export_chrome_trace(f"{folder}/rank{rank}.json.gz")) as p:
        for _ in range(5):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
            loss.backward()
            optimizer.step()
            p.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(train, (2, sys.argv[1]), 2)
