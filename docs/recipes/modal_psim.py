"""Homework 4 on two A10Gs of Modal: what psim predicts of them, and the same trained.

From psim's folder, with an account (pip install modal; modal setup):

    modal run docs/recipes/modal_psim.py --world-size 2 --n-epochs 5
    modal run docs/recipes/modal_psim.py --world-size 2 --n-epochs 5 --mode pipeline

The results stay in the volume psim-workdir: modal volume get psim-workdir out
"""

import subprocess

import modal

# psim is built in the image, with XLA; its CUDA plugin is that of JAX.
image = (
    modal.Image.from_registry("golang:1.26", add_python="3.11")
    .pip_install("jax[cuda12]")
    .add_local_dir(".", "/src", copy=True)
    .workdir("/src")
    .run_commands("GOEXPERIMENT=simd CGO_ENABLED=1 go build -tags xla -o /usr/local/bin/psim ./cmd/psim")
)
app = modal.App("psim", image=image)
workdir = modal.Volume.from_name("psim-workdir", create_if_missing=True)

EPOCHS = "--backend xla --gpus {world_size} --epochs {n_epochs} --validation 100 --set data.samples=5000"
COMMANDS = {
    "data-parallel": [
        "psim doctor",
        "psim run gpt2-4090d-data-parallel --set machine.file=modal-a10g-x2 --set parallel.data={world_size} --out out/predicted",
        f"psim exec gpt2-4090d-data-parallel {EPOCHS} --out out/data-parallel",
        "psim compare out/data-parallel",
    ],
    "pipeline": [
        "psim doctor",
        "psim run gpt2-4090d-pipeline --set machine.file=modal-a10g-x2 --set schedule.stages={world_size} --out out/predicted-pipeline",
        f"psim exec gpt2-4090d-model-parallel {EPOCHS} --out out/model-parallel",
        f"psim exec gpt2-4090d-pipeline {EPOCHS} --out out/pipeline",
        "psim compare out/model-parallel out/pipeline",
    ],
}


@app.function(gpu="A10G:2", cpu=16, memory=64 * 1024, timeout=4 * 60 * 60, volumes={"/workdir": workdir})
def run(commands: list[str]):
    for command in commands:
        print("$", command, flush=True)
        subprocess.run(command.split(), cwd="/workdir", check=True)
        workdir.commit()


@app.local_entrypoint()
def main(world_size: int = 2, n_epochs: int = 5, mode: str = "data-parallel"):
    run.remote([c.format(world_size=world_size, n_epochs=n_epochs) for c in COMMANDS[mode]])
