"""Placement of nodes on machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence


def place(shard: int, hosts: Sequence[str], placed: Iterable[tuple[int, str]]) -> str | None:
    """Returns the machine for another replica of a shard.

    Replicas of a shard are placed on different machines as far as possible, so that the loss of a
    machine does not take a shard with it. Otherwise the machine with the fewest nodes is chosen,
    and among these the first. ``placed`` has the shard and the machine of each existing node.

    >>> place(0, ["a", "b"], [(0, "a"), (1, "b"), (1, "b")])
    'b'
    """
    nodes, replicas = Counter[str](), Counter[str]()
    for other, host in placed:
        nodes[host] += 1
        replicas[host] += other == shard
    return min(hosts, key=lambda host: (replicas[host], nodes[host]), default=None)
