"""The commands of the command line. Import this after setting the environment variables of Ray."""

from __future__ import annotations

import argparse
import contextlib
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
from warpseek_cluster.config import CLUSTER_FILE, ClusterError, Config, check_counts, read_json, write_json
from warpseek_cluster.keeper import HEAD_IS_GONE, is_up, ray_file, stop_local
from warpseek_cluster.process import Process, answers, descendants, is_free, started_at
from warpseek_cluster.progress import Progress, waiting_for
from warpseek_cluster.watcher import AGGREGATOR_FILE

#: With these settings, a dead machine is noticed after about (2 + 1) * 0.5 s + 0.5 s, instead of
#: more than a minute by default.
HEALTH = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 500,
    "health_check_failure_threshold": 3,
}
#: Seconds between two checks of the head's process.
HEAD_EVERY = 0.1
#: Number of consecutive failed checks of the head, half a second apart, after which a local cluster
#: is started again.
HEAD_FAILURES = 3
#: Minimum size that Ray accepts; only small messages go through its object store.
OBJECT_STORE = 80 << 20


def connect(options: argparse.Namespace) -> None:
    """Connects to the Ray cluster that was named, or to the local one of `up`."""
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
    """Returns the complete versions of the collection."""
    listed = json.loads(call([program, "cluster", "list", "--store", store, "--name", options.name, "--json"]))
    found: list[dict[str, Any]] = listed["collections"][0]["versions"]
    return [version for version in found if version["state"] != "unfinished"]


def choose(options: argparse.Namespace, program: str, store: str) -> dict[str, Any]:
    """Returns the version that was requested, or the current one."""
    for version in versions(options, program, store):
        if version["version"] == options.version_number or (options.version_number is None and version["state"] == "current"):
            return version
    wanted = "a current version" if options.version_number is None else f"a complete version {options.version_number}"
    raise ClusterError(f"collection `{options.name}` does not have {wanted}; see `warpseek cluster list`")


def up(options: argparse.Namespace) -> None:
    """Starts a cluster. On a local Ray cluster, this function waits until it is interrupted."""
    local = options.address is None
    if local and is_up(options):
        raise ClusterError(f"a local cluster of collection `{options.name}` is up already; use `scale` and `roll`, or `down` first")
    shards, replicas, version = what_is_wanted(options)
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
        program=str(Path(shutil.which(options.program) or options.program).resolve()),
        folder=str(folder),
        nodes_file=str(Path(options.nodes or folder / f"{options.name}.nodes").resolve()),
        node_arguments=options.node_argument,
        listen="" if options.listen == "none" else options.listen or ("127.0.0.1:9200" if local else ""),
        aggregator_arguments=options.aggregator_argument,
        tls=options.tls,
        host=options.host or ("127.0.0.1" if local else ""),
        cpus=options.cpus,
        gpus=options.gpus,
        drain=options.drain,
        **more,
    )
    aggregator = Process(config.state() / AGGREGATOR_FILE, Path(os.devnull))
    if config.listen and not aggregator.adopt() and not is_free(config.listen):
        raise ClusterError(f"no aggregator can listen on {config.listen}: it is not an address of this machine, or is in use; choose another one with --listen, or `none`")
    fresh = not (config.state() / CLUSTER_FILE).exists()
    stop, progress = threading.Event(), Progress()
    progress.show(["Ray is starting" if local else f"connecting to Ray at {options.address}"])
    if local:
        ray.init(
            namespace=NAMESPACE,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            object_store_memory=OBJECT_STORE,
            _system_config=HEALTH,
        )
        # These handlers replace Ray's own.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        address = ray.get_runtime_context().gcs_address
        note = {"address": address, "pid": os.getpid(), "ticks": started_at(os.getpid())}
        write_json(ray_file(options), note)
    else:
        connect(options)
    progress.show([f"starting {shards * replicas} nodes: {shards} shards of version {version}, {replicas} replicas"])
    supervisor = start_supervisor(config, shards, replicas, version)
    found = ask(supervisor.status.remote())
    if (found["shards"], found["replicas"], found["version"]) != (shards, replicas, version):
        raise ClusterError(
            f"a cluster of version {found['version']} with {found['shards']} shards and {found['replicas']} replicas is up already; use `scale` and `roll`, or `down` first"
        )
    settings = ask(supervisor.settings.remote())
    other = sorted(name for name, value in config.to_json().items() if settings.get(name) != value)
    if other:
        raise ClusterError(f"a cluster with different settings ({', '.join(other)}) is up already; use `down` first")
    starting = supervisor.up.remote(options.timeout)
    watch(supervisor, starting, progress, version, stop)
    if not stop.is_set():
        try:
            show(ask(starting))
        except ClusterError as error:
            if not local:
                raise
            if not fresh:
                raise ClusterError(f"{error}; nodes that were running keep running, and `down` stops them") from None
            # No supervisor would watch the nodes that have started.
            ask(supervisor.down.remote())
            ray_file(options).unlink(missing_ok=True)
            raise
    if local:
        write_json(ray_file(options), note | {"was_up": True})
        print("interrupt to stop, or use `down`", flush=True)
        if stay(options, stop, address, head_process()):
            ask(supervisor.down.remote())
            ray_file(options).unlink(missing_ok=True)


def what_is_wanted(options: argparse.Namespace) -> tuple[int, int, int]:
    """Returns the numbers of shards and replicas, and the version.

    After a loss of Ray they are the last ones, as changed by `scale` and `roll`, even if the store
    cannot be reached.
    """
    if options.kept == "again":
        known = read_json(Path(options.folder).resolve() / "state" / options.name / CLUSTER_FILE)
        if isinstance(known, dict):
            return int(known["shards"]), int(known["replicas"]), int(known["version"])
    version = choose(options, options.program, options.store)
    shards = int(version["shards"])
    if options.shards not in (None, shards):
        raise ClusterError(f"version {version['version']} has {shards} shards, not {options.shards}")
    check_counts(shards, options.replicas)
    return shards, options.replicas, int(version["version"])


def head_process() -> tuple[int, int] | None:
    """Returns the pid and start time of the head of the local Ray cluster, or None."""
    for pid in descendants(os.getpid()):
        with contextlib.suppress(OSError):
            program = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]
            if program.endswith(b"gcs_server") and (ticks := started_at(pid)) is not None:
                return pid, ticks
    return None


def stay(options: argparse.Namespace, stop: threading.Event, head: str, process: tuple[int, int] | None) -> bool:
    """Waits until it is interrupted (True) or `down` was called (False).

    If Ray is gone, this process ends at once, and what is left of Ray with it; `keeper` starts both
    again.
    """
    failures, looked = 0, 0.0
    while not stop.wait(HEAD_EVERY):
        if read_json(ray_file(options)) is None:
            return False
        # A head that does not answer may be busy; one whose process has ended is gone.
        is_gone = process is not None and started_at(process[0]) != process[1]
        if not is_gone and time.monotonic() - looked >= 0.5:
            looked = time.monotonic()
            # Ray's own calls block if the head is gone.
            failures = 0 if answers(head, 1.0) and any(node["Alive"] for node in ray.nodes()) else failures + 1
        if is_gone or failures >= HEAD_FAILURES:
            print("the head of the Ray cluster is gone", file=sys.stderr, flush=True)
            # Some processes of Ray would wait for the head for another minute.
            for pid in descendants(os.getpid()):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            os._exit(HEAD_IS_GONE)
    return True


def watch(supervisor: Any, reference: Any, progress: Progress, version: int | None = None, stop: threading.Event | None = None) -> None:
    """Shows what is waited for until the result is available or the command is interrupted."""
    asked = None
    while not ray.wait([reference], timeout=0.2)[0] and not (stop and stop.is_set()):
        asked = asked or supervisor.status.remote()
        if ray.wait([asked], timeout=0)[0]:
            # If this fails, the result that is waited for reports why.
            with contextlib.suppress(ray.exceptions.RayError):
                progress.show(waiting_for(ray.get(asked), version))
            asked = None


def ask(reference: Any) -> Any:
    """Returns the result of an actor. A ClusterError of the actor is raised as one."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, ClusterError):
            raise ClusterError(str(error.cause)) from None
        raise


def show(status: dict[str, Any]) -> None:
    """Prints a table of nodes."""
    print(f"{status['name']}: version {status['version']}, {status['shards']} shards, {status['replicas']} replicas; {status['nodes_file']}")
    if aggregator := status["aggregator"]:
        print(f"aggregator: http://{aggregator['address']}, pid {aggregator['pid']}, {'ready' if aggregator['ready'] else aggregator['problem']}")
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
    """Runs the command of the command line."""
    if options.verb == "up":
        return up(options)
    if options.verb == "build":
        if options.address or read_json(ray_file(options)):
            connect(options)
        else:
            ray.init(namespace=NAMESPACE, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR, object_store_memory=OBJECT_STORE)
        inputs = [str(Path(path).resolve()) for path in options.inputs]
        store = options.store if "://" in options.store else str(Path(options.store).resolve())
        program = str(Path(shutil.which(options.program) or options.program).resolve())
        target = ["--store", store, "--name", options.name]
        version = build(program, target, inputs, options.option, options.shards, options.cpus)
        print(version)
        return None
    if options.verb == "down" and options.address is None and not is_up(options) and stop_local(options):
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
        scaling = supervisor.scale.remote(options.replicas, options.timeout)
        watch(supervisor, scaling, Progress())
        show(ask(scaling))
    elif options.verb == "roll":
        config = ask(supervisor.settings.remote())
        new = choose(options, config["program"], config["store"])
        if new["shards"] != status["shards"]:
            raise ClusterError(f"version {new['version']} has {new['shards']} shards, but the cluster has {status['shards']}; start another cluster with another --folder")
        start = time.monotonic()
        rolling = supervisor.roll.remote(int(new["version"]), options.timeout)
        watch(supervisor, rolling, Progress(), int(new["version"]))
        show(ask(rolling))
        print(f"rolled in {time.monotonic() - start:.1f} s")
    elif options.verb == "down":
        ask(supervisor.down.remote())
        ray.kill(supervisor, no_restart=True)
        # Tells a local `up` that it can end.
        ray_file(options).unlink(missing_ok=True)
    return None


def end() -> None:
    """Disconnects from the Ray cluster, if connected."""
    if ray.is_initialized():
        ray.shutdown()
