"""What a cluster is to be."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

#: How `warpseek node` is called. Words in braces are replaced; there is also {folder}, that of the shard, and {replica}. A node that knows the store fetches files again that are damaged while it serves them.
NODE_COMMAND = [
    *("{program}", "node", "--listen", "{address}", "--store", "{store}", "--name", "{name}", "--cache", "{cache}"),
    *("--shard", "{shard}", "--collection-version", "{version}", "--status-file", "{status}"),
]

#: How `warpseek aggregate` is called, likewise.
AGGREGATOR_COMMAND = ["{program}", "aggregate", "--nodes", "{nodes}", "--shards", "{shards}", "--listen", "{address}"]

#: The name of the file with what was decided: shards, replicas and version. It is there from `up` to `down`.
CLUSTER_FILE = "cluster.json"

#: The most shards of a collection, as crates/collection has it.
MAX_SHARDS = 65_536
#: The most replicas of a shard.
MAX_REPLICAS = 64


class ClusterError(Exception):
    """Something that the caller should know and can act on."""


@dataclass(frozen=True)
class Config:
    """Everything that the actors of a cluster need to know; it is the same for all of them."""

    #: Where the collection is: a folder or the URL of an object store.
    store: str
    #: The collection.
    name: str
    #: The program `warpseek`, on every machine at the same path.
    program: str
    #: Folder of each machine for shards, logs and what is known of processes.
    folder: str
    #: The file that aggregators read, on the machine of the supervisor.
    nodes_file: str
    #: How a node is started.
    node_command: list[str] = field(default_factory=lambda: list(NODE_COMMAND))
    #: Further arguments of every node, such as those for certificates.
    node_arguments: list[str] = field(default_factory=list)
    #: Where an aggregator listens, on the machine of the supervisor; empty for none.
    listen: str = ""
    #: Further arguments of the aggregator.
    aggregator_arguments: list[str] = field(default_factory=list)
    #: Whether nodes speak TLS.
    tls: bool = False
    #: The address that nodes listen on; empty for that of their machine in the Ray cluster.
    host: str = ""
    #: CPUs and GPUs that Ray counts for a node; nodes are not held to it.
    cpus: float = 0.0
    gpus: float = 0.0
    #: Seconds between looks at a process, and until a look has failed.
    look_every: float = 0.5
    look_timeout: float = 1.0
    #: Looks in a row that must fail before a process counts as hung and is killed.
    failures: int = 3
    #: Seconds that a node that is no longer listed has for what it is doing.
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
        """The folder with what is known of the processes of this collection."""
        return Path(self.folder) / "state" / self.name

    def logs(self) -> Path:
        """The folder with the logs of nodes."""
        return Path(self.folder) / "logs" / self.name

    def cache(self) -> Path:
        """The folder with shards."""
        return Path(self.folder) / "cache"

    def to_json(self) -> dict[str, Any]:
        """As a dict that `Config(**d)` takes."""
        return asdict(self)


def check_counts(shards: int, replicas: int) -> None:
    """Refuses numbers that cannot be, before anything is done."""
    if not 1 <= shards <= MAX_SHARDS:
        raise ClusterError(f"a collection has 1 to {MAX_SHARDS} shards, not {shards}")
    if not 1 <= replicas <= MAX_REPLICAS:
        raise ClusterError(f"a shard has 1 to {MAX_REPLICAS} replicas, not {replicas}")


def write_json(path: Path, value: Any) -> None:
    """Writes a file of JSON as a whole."""
    write_text(path, json.dumps(value, indent=1) + "\n")


def write_text(path: Path, text: str) -> None:
    """Writes a file as a whole: readers see the old one or the new one."""
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
    """What a file says; None if there is none, or if it is no JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
