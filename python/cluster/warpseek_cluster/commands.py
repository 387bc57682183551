"""What the command line does. It is imported when the environment is as Ray is to find it."""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import ray
import ray.exceptions

from warpseek_cluster.actors import NAMESPACE, find_supervisor, start_supervisor
from warpseek_cluster.build import build, call
from warpseek_cluster.config import ClusterError, Config, check_counts, read_json, write_json

#: A machine that is gone is noticed after about (2 + 1) * 0.5 s + 0.5 s, instead of more than a minute by default.
HEALTH = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 500,
    "health_check_failure_threshold": 3,
}
#: The least that Ray takes; nothing but small answers goes through its store of objects.
OBJECT_STORE = 80 << 20


def ray_file(options: argparse.Namespace) -> Path:
    """Where `up` notes the address of the local Ray cluster that it has started."""
    return Path(str(options.folder)) / "state" / str(options.name) / "ray.json"


def connect(options: argparse.Namespace) -> None:
    """Connects to the Ray cluster that was asked for, or to the local one of `up`."""
    address = options.address
    if address is None:
        known = read_json(ray_file(options))
        if not isinstance(known, dict):
            raise ClusterError(f"no local cluster of collection `{options.name}` is up; start it with `up`, or name a Ray cluster with --address")
        address = known["address"]
    try:
        ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR)
    except ConnectionError as error:
        raise ClusterError(f"there is no Ray cluster at {address}: {error}") from None


def versions(options: argparse.Namespace, program: str, store: str) -> list[dict[str, Any]]:
    """The versions of the collection that are complete."""
    listed = json.loads(call([program, "cluster", "list", "--store", store, "--name", options.name, "--json"]))
    found: list[dict[str, Any]] = listed["collections"][0]["versions"]
    return [version for version in found if version["state"] != "unfinished"]


def choose(options: argparse.Namespace, program: str, store: str) -> dict[str, Any]:
    """The version that was asked for, or the current one."""
    for version in versions(options, program, store):
        if version["version"] == options.version_number or (options.version_number is None and version["state"] == "current"):
            return version
    wanted = "a current version" if options.version_number is None else f"a complete version {options.version_number}"
    raise ClusterError(f"collection `{options.name}` has not {wanted}; look at `warpseek cluster list`")


def up(options: argparse.Namespace) -> None:
    """Starts a cluster. On a local Ray cluster it stays until it is interrupted."""
    version = choose(options, options.program, options.store)
    shards = int(version["shards"])
    if options.shards not in (None, shards):
        raise ClusterError(f"version {version['version']} has {shards} shards, not {options.shards}")
    check_counts(shards, options.replicas)
    local = options.address is None
    folder = Path(options.folder).resolve()
    more: dict[str, Any] = {}
    if options.node_command:
        try:
            more["node_command"] = [str(word) for word in json.loads(options.node_command)]
        except (ValueError, TypeError):
            raise ClusterError("--node-command must be a JSON array of strings") from None
    config = Config(
        # Actors have other working directories.
        store=options.store if "://" in options.store else str(Path(options.store).resolve()),
        name=options.name,
        program=shutil.which(options.program) or options.program,
        folder=str(folder),
        nodes_file=str(Path(options.nodes or folder / f"{options.name}.nodes").resolve()),
        node_arguments=options.node_argument,
        tls=options.tls,
        host=options.host or ("127.0.0.1" if local else ""),
        cpus=options.cpus,
        gpus=options.gpus,
        drain=options.drain,
        **more,
    )
    stop = threading.Event()
    if local:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        ray.init(
            namespace=NAMESPACE,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            object_store_memory=OBJECT_STORE,
            _system_config=HEALTH,
        )
        write_json(ray_file(options), {"address": ray.get_runtime_context().gcs_address, "pid": os.getpid()})
    else:
        connect(options)
    supervisor = start_supervisor(config, shards, options.replicas, int(version["version"]))
    found = ask(supervisor.status.remote())
    wanted = (shards, options.replicas, int(version["version"]))
    if (found["shards"], found["replicas"], found["version"]) != wanted:
        raise ClusterError(
            f"a cluster of version {found['version']} with {found['shards']} shards and {found['replicas']} replicas is up already; use `scale` and `roll`, or `down` first"
        )
    show(ask(supervisor.up.remote(options.timeout)))
    if local:
        print("interrupt to stop, or use `down`", flush=True)
        while not stop.wait(0.5):
            if read_json(ray_file(options)) is None:
                return
        ask(supervisor.down.remote())
        ray_file(options).unlink(missing_ok=True)


def ask(reference: Any) -> Any:
    """The answer of an actor; what it could not do is an error of ours."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, ClusterError):
            raise ClusterError(str(error.cause)) from None
        raise


def show(status: dict[str, Any]) -> None:
    """Prints a table of nodes."""
    print(f"{status['name']}: version {status['version']}, {status['shards']} shards, {status['replicas']} replicas; {status['nodes_file']}")
    rows: list[tuple[str, ...]] = [("shard", "replica", "version", "address", "pid", "starts", "state")]
    for node in status["nodes"]:
        state = "ready" if node["ready"] else node["problem"] or "not ready"
        state += "" if node["listed"] else ", not listed"
        rows.append(tuple(str(value) for value in (node["shard"], node["replica"], node["version"], node["address"], node["pid"], node["starts"], state)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    sys.stdout.flush()


def run(options: argparse.Namespace) -> None:
    """Does what a command line asks for."""
    if options.verb == "up":
        return up(options)
    if options.verb == "build":
        if options.address or read_json(ray_file(options)):
            connect(options)
        else:
            ray.init(namespace=NAMESPACE, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR, object_store_memory=OBJECT_STORE)
        inputs = [str(Path(path).resolve()) for path in options.inputs]
        store = options.store if "://" in options.store else str(Path(options.store).resolve())
        program = shutil.which(options.program) or options.program
        target = ["--store", store, "--name", options.name]
        version = build(str(Path(program).resolve()), target, inputs, options.option, options.shards, options.cpus)
        print(version)
        return None
    connect(options)
    supervisor = find_supervisor(options.name)
    status = ask(supervisor.status.remote())
    if options.verb == "status":
        if options.json:
            print(json.dumps(status, indent=1))
        else:
            show(status)
    elif options.verb == "scale":
        show(ask(supervisor.scale.remote(options.replicas, options.timeout)))
    elif options.verb == "roll":
        config = ask(supervisor.settings.remote())
        new = choose(options, config["program"], config["store"])
        if new["shards"] != status["shards"]:
            raise ClusterError(f"version {new['version']} has {new['shards']} shards, and the cluster {status['shards']}; start one of its own under another --folder")
        start = time.monotonic()
        show(ask(supervisor.roll.remote(int(new["version"]), options.timeout)))
        print(f"rolled in {time.monotonic() - start:.1f} s")
    elif options.verb == "down":
        ask(supervisor.down.remote())
        ray.kill(supervisor, no_restart=True)
        # Tells a local `up` that it can go.
        ray_file(options).unlink(missing_ok=True)
    return None


def end() -> None:
    """Leaves the Ray cluster, if we are in one."""
    if ray.is_initialized():
        ray.shutdown()
