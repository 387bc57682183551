"""Builds the shards of a collection as Ray tasks, one each."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import ray
import ray.exceptions

from warpseek_cluster.config import ClusterError


def call(command: list[str]) -> str:
    """Runs a program and returns what it prints; what it says when it fails is the error."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    except OSError as error:
        raise ClusterError(f"{command[0]}: {error.strerror}; name the program with --program") from None
    if done.returncode != 0:
        raise ClusterError(done.stderr.strip().removeprefix("error: ") or f"{command[0]} ended with {done.returncode}")
    return done.stdout


def build(program: str, target: list[str], inputs: list[str], options: list[str], shards: int, cpus: float) -> int:
    """Cuts the inputs, builds each shard as a task that is tried again if its machine dies, and publishes them. Inputs must be at the same paths on all machines. Returns the version."""
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
        raise ClusterError(f"version {version} is not finished, and the current one is as it was: {error.cause}") from None
    call([program, "cluster", "publish", *target, "--build", str(version)])
    return version
