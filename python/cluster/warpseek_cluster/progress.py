"""Progress messages on standard error while a command waits. This module does not use Ray."""

from __future__ import annotations

import sys
import time
from typing import Any, TextIO

#: Seconds after which a line is written even if nothing has changed.
AGAIN = 10.0


def waiting_for(status: dict[str, Any], version: int | None = None) -> list[str]:
    """Returns what is not ready yet: nodes of the version, and the aggregator."""
    version = status["version"] if version is None else version
    nodes = [node for node in status["nodes"] if node["version"] == version]
    ready = sum(bool(node["ready"]) for node in nodes)
    lines = [f"{ready} of {max(len(nodes), status['shards'] * status['replicas'])} nodes are ready"]
    lines += [f"shard {node['shard']}, replica {node['replica']}: {node['problem'] or 'not ready'}" for node in nodes if not node["ready"]]
    aggregator = status["aggregator"]
    if aggregator is not None and not aggregator["ready"]:
        lines.append(f"aggregator: {aggregator['problem'] or 'not ready'}")
    return lines


class Progress:
    """Writes what a command waits for whenever it changes, and regularly otherwise."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out
        self._began = time.monotonic()
        self._last: list[str] = []
        self._written = 0.0

    def show(self, lines: list[str]) -> None:
        """Writes the first line if anything is new, and those of the other lines that are new."""
        now = time.monotonic()
        if lines == self._last and now - self._written < AGAIN:
            return
        new = lines[1:] if lines == self._last else [line for line in lines[1:] if line not in self._last]
        out = self._out or sys.stderr
        print(f"{now - self._began:5.1f} s: {lines[0]}", file=out)
        for line in new:
            print(f"         {line}", file=out)
        out.flush()
        self._last, self._written = lines, now
