"""The configuration of a cluster."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

#: The command of a node. Names in braces are replaced; `folder`, that of the shard, and `replica`
#: are also available. A node that knows the store fetches files again that are damaged while it
#: serves them.
NODE_COMMAND = [
    *("{program}", "node", "--listen", "{address}", "--store", "{store}", "--name", "{name}", "--cache", "{cache}"),
    *("--shard", "{shard}", "--collection-version", "{version}", "--status-file", "{status}"),
]

#: The command of an aggregator, with names in braces.
AGGREGATOR_COMMAND = ["{program}", "aggregate", "--nodes", "{nodes}", "--shards", "{shards}", "--listen", "{address}"]

#: Name of the file with the current shards, replicas and version. It exists from `up` to `down`.
CLUSTER_FILE = "cluster.json"

#: Maximum number of shards of a collection, as in crates/collection.
MAX_SHARDS = 65_536
#: Maximum number of replicas of a shard.
MAX_REPLICAS = 64


class ClusterError(Exception):
    """An error that is reported to the user."""


@dataclass(frozen=True)
class Config:
    """The settings that all actors of a cluster share."""

    #: Store of the collection: a folder or the URL of an object store.
    store: str
    #: Name of the collection.
    name: str
    #: Path of the program `warpseek`, the same on every machine.
    program: str
    #: Folder on each machine for shards, logs and the state of processes.
    folder: str
    #: Path of the file that aggregators read, on the machine of the supervisor.
    nodes_file: str
    #: Command that starts a node.
    node_command: list[str] = field(default_factory=lambda: list(NODE_COMMAND))
    #: Further arguments of every node, such as those for certificates.
    node_arguments: list[str] = field(default_factory=list)
    #: Address of an aggregator on the machine of the supervisor; empty for none.
    listen: str = ""
    #: Further arguments of the aggregator.
    aggregator_arguments: list[str] = field(default_factory=list)
    #: True if nodes use TLS.
    tls: bool = False
    #: Address that nodes listen on; empty for that of their machine in the Ray cluster.
    host: str = ""
    #: Numbers of CPUs and GPUs that Ray counts for a node; it does not enforce them.
    cpus: float = 0.0
    gpus: float = 0.0
    #: Interval between checks of a process, and time limit of a check, in seconds.
    look_every: float = 0.5
    look_timeout: float = 1.0
    #: Number of consecutive failed checks after which a process counts as hung and is killed.
    failures: int = 3
    #: Seconds for a node that is no longer listed to finish requests in progress.
    drain: float = 2.0

    def __post_init__(self) -> None:
        for name in ("look_every", "look_timeout"):
            if not 0 < getattr(self, name) <= 60:
                raise ClusterError(f"{name} must be above 0 and at most 60 seconds")
        if not 0 <= self.drain <= 3600:
            raise ClusterError("drain must be from 0 to 3600 seconds")
        if not 1 <= self.failures <= 100:
            raise ClusterError("failures must be from 1 to 100")

    def state(self) -> Path:
        """Returns the folder with the state of the processes of this collection."""
        return Path(self.folder) / "state" / self.name

    def logs(self) -> Path:
        """Returns the folder with the logs of nodes."""
        return Path(self.folder) / "logs" / self.name

    def cache(self) -> Path:
        """Returns the folder with shards."""
        return Path(self.folder) / "cache"

    def to_json(self) -> dict[str, Any]:
        """Returns the settings as a dict that `Config(**d)` accepts."""
        return asdict(self)


def check_counts(shards: int, replicas: int) -> None:
    """Checks the numbers of shards and replicas."""
    if not 1 <= shards <= MAX_SHARDS:
        raise ClusterError(f"the number of shards must be 1 to {MAX_SHARDS}, but is {shards}")
    if not 1 <= replicas <= MAX_REPLICAS:
        raise ClusterError(f"the number of replicas must be 1 to {MAX_REPLICAS}, but is {replicas}")


def write_json(path: Path, value: Any) -> None:
    """Writes a JSON file atomically."""
    write_text(path, json.dumps(value, indent=1) + "\n")


def write_text(path: Path, text: str) -> None:
    """Writes a file atomically: readers see the old contents or the new ones."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def read_json(path: Path) -> Any:
    """Returns the contents of a JSON file, or None if it is missing or not valid."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
