"""Writes empty libraries in place of CUDA's, which PyTorch's wheel is linked to and a CPU never calls.

usage: python cudastubs.py SITE_PACKAGES/torch

They go beside PyTorch's own libraries, which look for others there. CUDA's packages take 4 GB, these
320 KB. Every function returns 35, cudaErrorInsufficientDriver, so PyTorch finds no GPU. Needs gcc,
nm and readelf.
"""
import collections
import glob
import os
import re
import subprocess
import sys
import tempfile

SYSTEM = re.compile(r"lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s|z|quadmath)\.so|ld-linux")
CUDA = re.compile(r"^(cu|nv|nccl|_ZN?8nvshmem)")  # names of functions that have no version


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def scan(folder):
    """Returns the libraries and functions that are needed, those that are there, and who has which version."""
    needed, undefined, defined, owner = set(), set(), set(), {}
    for path in glob.glob(folder + "/*.so*"):
        needed |= set(re.findall(r"NEEDED.*\[(.*)\]", output("readelf", "-d", path)))
        library = None
        for line in output("readelf", "-VW", path).splitlines():
            if match := re.search(r"File: (\S+)", line):
                library = match.group(1)
            elif library and (match := re.search(r"Name: (\S+)", line)):
                owner[match.group(1)] = library
        for line in output("nm", "-D", path).splitlines():
            *_, kind, name = line.split()
            if kind == "U":
                undefined.add(name)
            elif kind not in "wv":
                defined.add(name.split("@")[0])
    missing = {n for n in needed if not os.path.exists(f"{folder}/{n}") and not SYSTEM.match(n)}
    return missing, undefined, defined, owner


def deal(missing, undefined, defined, owner):
    """Returns the functions of every missing library by version."""
    functions = collections.defaultdict(lambda: collections.defaultdict(set))
    # Every process loads NCCL, so it takes the functions without a version.
    plain = next(name for name in sorted(missing) if name.startswith("libnccl"))
    for full in undefined:
        name, _, version = full.partition("@")
        version = version.lstrip("@")
        if name in defined:
            continue
        if version and owner.get(version) in missing:
            functions[owner[version]][version].add(name)
        elif not version and CUDA.match(name):
            functions[plain][""].add(name)
    return functions


def build(library, versions, folder):
    with tempfile.TemporaryDirectory() as work:
        with open(f"{work}/s.c", "w") as code, open(f"{work}/s.map", "w") as script:
            for version, names in versions.items():
                for name in sorted(names):
                    code.write(f"int {name}(void) {{ return 35; }}\n")
                if version:
                    listed = " ".join(name + ";" for name in sorted(names))
                    script.write(f"{version} {{ global: {listed} }};\n")
        command = ["gcc", "-w", "-fno-builtin", "-shared", "-fPIC", "-o", f"{folder}/{library}", f"{work}/s.c",
                   f"-Wl,-soname,{library}"]
        if any(versions):
            command.append(f"-Wl,--version-script={work}/s.map")
        subprocess.check_call(command)


def main():
    folder = sys.argv[1] + "/lib"
    missing, *symbols = scan(folder)
    functions = deal(missing, *symbols) if missing else {}
    for library in sorted(missing):
        build(library, functions[library], folder)


main()
