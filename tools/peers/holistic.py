"""Prints what HolisticTraceAnalysis says of the traces below a folder: a line of JSON each, in nanoseconds.

usage: python holistic.py FOLDER

Its reader wants microseconds and rounds them to whole ones. So times count from the first event, multiplied by 1,000:
it then computes with nanoseconds, without rounding. Only kernels and copies of the device are given to it, since it
takes every event with a stream for work, and calls of ROCm and records of waits (cuda_sync) have one too. Steps are not
cut: the whole trace counts.
"""
import glob
import gzip
import json
import logging
import os
import sys
import tempfile
from decimal import Decimal

logging.disable(logging.CRITICAL)
from hta.analyzers.breakdown_analysis import BreakdownAnalysis
from hta.common.trace import Trace

DEVICE = {"kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset"}


def said(path):
    with gzip.open(path) as f:
        trace = json.loads(f.read(), parse_float=Decimal)
    events = [e for e in trace.get("traceEvents", []) if e.get("cat") in DEVICE and e.get("ph") == "X"]
    if not events:
        return {"error": "no event of a GPU"}
    first = min(e["ts"] for e in events)
    for e in events:
        e["ts"], e["dur"] = int((e["ts"] - first) * 1000), int(e["dur"] * 1000)
    trace = {"traceEvents": events, "distributedInfo": {"rank": 0}}
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "trace.json")
        with open(copy, "w") as f:
            json.dump(trace, f, default=float)
        t = Trace(trace_files={0: copy}, trace_dir=folder)
        t.parse_traces(use_multiprocessing=False, use_memory_profiling=False)
    whole = BreakdownAnalysis.get_temporal_breakdown(t, visualize=False).iloc[0]
    kinds, _ = BreakdownAnalysis.get_gpu_kernel_breakdown(t, visualize=False)
    kinds = dict(zip(kinds["kernel_type"], kinds["sum"]))
    return {
        "span": int(whole["kernel_time(us)"]), "idle": int(whole["idle_time(us)"]),
        "compute": int(whole["compute_time(us)"]), "exposed": int(kinds.get("COMMUNICATION", 0)),
    }


folder = sys.argv[1]
for path in sorted(glob.glob("**/*.json.gz", root_dir=folder, recursive=True)):
    print(json.dumps({"trace": path} | said(os.path.join(folder, path))), flush=True)
