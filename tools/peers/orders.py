"""What PyTorch's own loader says of order files.

usage: python orders.py FILE...

A file has compute actions only, or messages too if its name ends in .comms.csv. For each it prints a
line of JSON: {"file", "error"} if the loader refuses it, otherwise {"file", "slots"}: the number of
activations that every rank has to hold by PyTorch's analysis, which is what psim calls in flight.
"""
import json
import sys

import torch
from torch.distributed.pipelining import schedules
from torch.distributed.pipelining.stage import _PipelineStageBase


class Stage(_PipelineStageBase):
    """Has what a schedule asks of a stage before it runs."""

    def __init__(self, index, stages, ranks):
        self.stage_index, self.num_stages, self.group_size, self.group_rank = index, stages, ranks, 0
        self.submod, self.has_backward, self.device, self.group = None, True, torch.device("cpu"), None
        self.stage_index_to_group_rank = {i: i % ranks for i in range(stages)}


Stage.__abstractmethods__ = frozenset()


def parts(action):
    return action.sub_actions or (action,)


def load(path):
    """Loads a file as every rank does and returns the slots of each."""
    cells = [[schedules._Action.from_str(cell) for cell in line.split(",")] for line in open(path).read().split()]
    flat = [[part for action in row for part in parts(action)] for row in cells]
    ranks = len(flat)
    stages = 1 + max(a.stage_index for row in flat for a in row)
    microbatches = 1 + max(a.microbatch_index for row in flat for a in row if a.microbatch_index is not None)
    form = "compute_comms" if path.endswith(".comms.csv") else "compute_only"
    slots = []
    for rank, row in enumerate(flat):
        own = sorted({a.stage_index for a in row})
        schedule = schedules._PipelineScheduleRuntime(
            [Stage(i, stages, ranks) for i in own], microbatches, loss_fn=lambda output, target: output)
        schedule._load_csv(path, form)
        liveness = schedules.analyze_pipeline_activation_liveness(
            schedule, pp_rank=rank, stage_indices=own, granularity="stage_microbatch")
        slots.append(liveness.num_slots)
    return slots


def main():
    for path in sys.argv[1:]:
        try:
            answer = {"file": path, "slots": load(path)}
        except (AssertionError, ValueError, RuntimeError) as error:
            answer = {"file": path, "error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


main()
