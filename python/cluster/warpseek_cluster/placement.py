"""Which machine a node goes to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence


def place(shard: int, hosts: Sequence[str], placed: Iterable[tuple[int, str]]) -> str | None:
    """The machine for one more replica of a shard, given the shard and machine of each node that there is.

    Replicas of a shard go to different machines as far as there are enough, so that a dead machine takes no shard with it; after that the machine with the fewest nodes is taken, and of these the first.

    >>> place(0, ["a", "b"], [(0, "a"), (1, "b"), (1, "b")])
    'b'
    """
    nodes, replicas = Counter[str](), Counter[str]()
    for of, host in placed:
        nodes[host] += 1
        replicas[host] += of == shard
    return min(hosts, key=lambda host: (replicas[host], nodes[host]), default=None)
