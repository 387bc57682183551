"""Keeps a local `up` running: a process that starts it, and starts it again when it or Ray has died. Nothing here knows Ray, so nothing of Ray can take it along.

Nodes and the aggregator go on meanwhile, and are adopted.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import threading
from pathlib import Path

from warpseek_cluster.config import CLUSTER_FILE, read_json, write_text
from warpseek_cluster.process import started_at, stop_others

#: The exit code of an `up` that has lost its Ray cluster.
HEAD_IS_GONE = 75
#: Seconds before it is started again: the first and the longest.
PAUSE, LONGEST_PAUSE = 0.1, 10.0
#: Seconds for each process to finish what it has when Ray is not there to stop it.
GRACE = 2.0


def ray_file(options: argparse.Namespace) -> Path:
    """Where `up` notes the address of the local Ray cluster that it has started."""
    return Path(str(options.folder)) / "state" / str(options.name) / "ray.json"


def is_up(options: argparse.Namespace) -> bool:
    """Whether a local `up` of this collection runs."""
    known = read_json(ray_file(options))
    return isinstance(known, dict) and known.get("ticks") is not None and started_at(int(known["pid"])) == known["ticks"]


def was_up(options: argparse.Namespace, pid: int) -> bool:
    """Whether the `up` with this number had all nodes ready, and was not told to go."""
    known = read_json(ray_file(options))
    return isinstance(known, dict) and known.get("pid") == pid and bool(known.get("was_up"))


def stop_local(options: argparse.Namespace) -> bool:
    """Stops nodes and aggregator of this machine without Ray, which is gone. Whether there was anything to stop."""
    state = ray_file(options).parent
    known = read_json(state / CLUSTER_FILE)
    stopped = stop_others(state, set(), GRACE)
    if isinstance(known, dict):
        write_text(Path(str(known["nodes_file"])), f"# nodes of {options.name}\n")
    for name in (CLUSTER_FILE, "ray.json"):
        (state / name).unlink(missing_ok=True)
    return stopped > 0 or known is not None


def keep(options: argparse.Namespace, arguments: list[str]) -> int:
    """Runs `up` until it is told to end, and returns its exit code."""
    stop = threading.Event()
    child: subprocess.Popen[bytes] | None = None

    def end(number: int, _frame: object) -> None:
        stop.set()
        if child is not None:
            child.send_signal(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    kept, pause = "first", PAUSE
    while True:
        child = subprocess.Popen([sys.executable, "-m", "warpseek_cluster", *arguments, "--kept", kept])  # noqa: S603
        code = child.wait()
        worked = was_up(options, child.pid)
        if stop.is_set() and code != 0:
            # It was not there to be told, or could not do it any more.
            stop_local(options)
            return 0
        if code == 0 or (kept == "first" and not worked):
            return code if code >= 0 else 128 - code
        kept, pause = "again", PAUSE if worked else min(2 * pause, LONGEST_PAUSE)
        print(f"`up` has ended with {code} and is started again; nodes go on", file=sys.stderr, flush=True)
        if stop.wait(pause):
            stop_local(options)
            return 0
