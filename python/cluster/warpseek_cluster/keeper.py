"""Keeps a local `up` running: starts it in a child process, and again if it or Ray has died.

This module does not use Ray, so it survives when Ray fails. Nodes and the aggregator keep running
in the meantime, and the next `up` adopts them.
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

#: Exit code of an `up` that has lost its Ray cluster.
HEAD_IS_GONE = 75
#: First and longest pause before `up` is started again, in seconds.
PAUSE, LONGEST_PAUSE = 0.1, 10.0
#: Seconds for each process to finish its work when Ray is not there to stop it.
GRACE = 2.0


def ray_file(options: argparse.Namespace) -> Path:
    """Returns the file in which `up` stores the address of the local Ray cluster."""
    return Path(str(options.folder)) / "state" / str(options.name) / "ray.json"


def is_up(options: argparse.Namespace) -> bool:
    """Returns True if a local `up` of this collection is running."""
    known = read_json(ray_file(options))
    return isinstance(known, dict) and known.get("ticks") is not None and started_at(int(known["pid"])) == known["ticks"]


def was_up(options: argparse.Namespace, pid: int) -> bool:
    """Returns True if all nodes of the `up` with this pid were ready, and it was not stopped."""
    known = read_json(ray_file(options))
    return isinstance(known, dict) and known.get("pid") == pid and bool(known.get("was_up"))


def stop_local(options: argparse.Namespace) -> bool:
    """Stops the nodes and the aggregator of this machine without Ray, which is gone.

    Returns True if there was anything to stop.
    """
    state = ray_file(options).parent
    known = read_json(state / CLUSTER_FILE)
    stopped = stop_others(state, set(), GRACE)
    if isinstance(known, dict):
        write_text(Path(str(known["nodes_file"])), f"# nodes of {options.name}\n")
    for name in (CLUSTER_FILE, "ray.json"):
        (state / name).unlink(missing_ok=True)
    return stopped > 0 or known is not None


def keep(options: argparse.Namespace, arguments: list[str]) -> int:
    """Runs `up` until it is stopped, and returns its exit code."""
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
            # The child had already died, or could not stop the cluster any more.
            stop_local(options)
            return 0
        if code == 0 or (kept == "first" and not worked):
            return code if code >= 0 else 128 - code
        kept, pause = "again", PAUSE if worked else min(2 * pause, LONGEST_PAUSE)
        print(f"`up` has ended with code {code} and is started again; nodes keep running", file=sys.stderr, flush=True)
        if stop.wait(pause):
            stop_local(options)
            return 0
