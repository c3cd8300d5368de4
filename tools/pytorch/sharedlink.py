"""Do all-reduces of two groups of processes share a link, or do they queue for it?

Times one all-reduce alone, one in each of two gloo groups begun together, two in one group, and the
second group's begun when the first is half way. Two processes, one for each end of a link of 400 Mbit/s:

    unshare -n sh          # as root: a network of its own, which ends with the shell
    ip link set lo up; ip link add v0 type veth peer name v1
    unshare -n sleep 9999 & other=$!; sleep 3; ip link set v1 netns $other
    ip addr add 10.9.0.1/24 dev v0; ip link set v0 up
    tc qdisc add dev v0 root tbf rate 400mbit burst 128kb latency 200ms
    nsenter -t $other -n sh -c "ip link set lo up; ip addr add 10.9.0.2/24 dev v1; ip link set v1 up;
        tc qdisc add dev v1 root tbf rate 400mbit burst 128kb latency 200ms"
    nsenter -t $other -n python sharedlink.py 1 v1 & python sharedlink.py 0 v0
"""
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist

MIB, ROUNDS = 8, 5


def timed(handles):
    """Starts all-reduces, each after a pause, and returns when each has ended, in milliseconds."""
    dist.barrier()
    begin, works, ends = time.perf_counter(), [], {}
    for pause, tensor, group in handles:
        time.sleep(pause)
        works.append(dist.all_reduce(tensor, group=group, async_op=True))
    while len(ends) < len(works):
        for i, work in enumerate(works):
            if i not in ends and work.is_completed():
                ends[i] = 1e3 * (time.perf_counter() - begin)
        time.sleep(0.0003)
    return [ends[i] for i in range(len(works))]


def main(rank, interface):
    os.environ.update(MASTER_ADDR="10.9.0.1", MASTER_PORT="29611", GLOO_SOCKET_IFNAME=interface)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    a, b = dist.new_group(backend="gloo"), dist.new_group(backend="gloo")
    x, y = torch.ones(MIB << 18), torch.ones(MIB << 18)
    timed([(0, x, a)]), timed([(0, y, b)])  # connect
    ends = {}
    for _ in range(ROUNDS):
        alone = timed([(0, x, a)])
        for name, got in {
            "alone": alone,
            "two groups": timed([(0, x, a), (0, y, b)]),
            "one group": timed([(0, x, a), (0, y, a)]),
            "two groups, the second begun half way": timed([(0, x, a), (alone[0] / 2e3, y, b)]),
        }.items():
            ends.setdefault(name, []).append(got)
    for name, rounds in ends.items() if rank == 0 else ():
        print(name, *(f"{statistics.median(end):.0f} ms" for end in zip(*rounds)), sep="\t")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
