"""Builds the shards of a collection, each as a Ray task."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import ray
import ray.exceptions

from warpseek_cluster.config import ClusterError


def call(command: list[str]) -> str:
    """Runs a program and returns its output. If it fails, its message becomes the error."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    except OSError as error:
        raise ClusterError(f"{command[0]}: {error.strerror}; name the program with --program") from None
    if done.returncode != 0:
        raise ClusterError(done.stderr.strip().removeprefix("error: ") or f"{command[0]} ended with {done.returncode}")
    return done.stdout


def build(program: str, target: list[str], inputs: list[str], options: list[str], shards: int, cpus: float) -> int:
    """Builds a version of a collection and returns its number.

    The inputs are cut, each shard is built as a task that is retried if its machine fails, and the
    version is published. Inputs must have the same paths on all machines.
    """
    cut = json.loads(call([program, "cluster", "cut", *inputs, *target, "--shards", str(shards), "--json", "--quiet", *options]))
    version = int(cut["version"])
    task = ray.remote(call).options(num_cpus=cpus, max_retries=3)
    base = [program, "cluster", "build", *inputs, *target, "--build", str(version), "--quiet", *options]
    running: list[Any] = [task.remote([*base, "--only-shard", str(shard)]) for shard in range(len(cut["shards"]))]
    try:
        ray.get(running)
    except ray.exceptions.RayTaskError as error:
        for other in running:
            ray.cancel(other)
        raise ClusterError(f"version {version} could not be finished, and the current one is unchanged: {error.cause}") from None
    call([program, "cluster", "publish", *target, "--build", str(version)])
    return version
