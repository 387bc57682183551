"""The Ray actors of a cluster.

There is an actor for each node and one for the aggregator, which watch their processes, and a
supervisor that decides which nodes run. Actors are detached and named, so they outlive the program
that starts them and are found again by name. If a machine dies, Ray starts its actors elsewhere. If
Ray itself dies, the processes keep running, and the next `up` adopts them.
"""

from __future__ import annotations

import math
import os
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray
import ray.exceptions
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from warpseek_cluster.config import CLUSTER_FILE, ClusterError, Config, check_counts, read_json, write_json, write_text
from warpseek_cluster.placement import place
from warpseek_cluster.process import Process, remove_older, stop_others
from warpseek_cluster.watcher import AGGREGATOR_FILE, STARTING, AggregatorWatcher, NodeWatcher, state_file

NAMESPACE = "warpseek"
#: Interval between the supervisor's checks of all nodes, and time limit of an actor, in seconds.
TEND_EVERY, ASK_TIMEOUT = 0.5, 2.0
#: Number of starts without any answer after which a process is given up.
HOPELESS = 4
#: Seconds for which a restarted supervisor waits for the nodes that it had.
SETTLE = 30.0
#: Key of a node: shard, replica, version.
Key = tuple[int, int, int]
#: Key that represents the aggregator.
AGGREGATOR: Key = (-1, 0, 0)


def supervisor_name(name: str) -> str:
    """Returns the name of the supervisor of a collection."""
    return f"supervisor-{name}"


def _node_name(name: str, key: Key) -> str:
    shard, replica, _ = key
    return f"node-{name}-{shard:05}-{replica}"


class Node:
    """Watches the processes of one replica of a shard on one machine, one for each version.

    A new version needs no new actor: starting one takes Ray seconds of CPU time, which busy nodes
    do not leave.
    """

    def __init__(self, config: dict[str, Any], shard: int, replica: int) -> None:
        self._config, self._place = Config(**config), (shard, replica)
        self._host = self._config.host or ray.util.get_node_ip_address()
        self._machine = ray.get_runtime_context().get_node_id()
        self._lock = threading.Lock()
        self._watchers: dict[int, NodeWatcher] = {}
        # Versions that were stopped and must not be watched again.
        self._stopped: set[int] = set()

    def watch(self, version: int, again: bool = False) -> None:
        """Watches the process of a version, which is adopted or started.

        `again` is set after Ray has restarted the actor: versions that were stopped since stay
        stopped.
        """
        with self._lock:
            if version in self._watchers or (again and version in self._stopped):
                return
            self._stopped.discard(version)
            self._watchers[version] = NodeWatcher(self._config, *self._place, version, self._host)

    def state(self, version: int) -> dict[str, Any] | None:
        """Returns the state of the process of a version, or None if it is not watched."""
        with self._lock:
            watcher = self._watchers.get(version)
        return None if watcher is None else {**watcher.state(), "machine": self._machine}

    def stop(self, version: int | None = None, keep: int | None = None) -> None:
        """Stops the process of a version, or of all versions except `keep`, permanently."""
        with self._lock:
            gone = [other for other in self._watchers if other != keep] if version is None else [version]
            self._stopped.update(gone)
            watchers = [self._watchers.pop(other) for other in gone if other in self._watchers]
        for watcher in watchers:
            watcher.stop()


class Aggregator:
    """Watches the process of the aggregator."""

    def __init__(self, config: dict[str, Any], shards: int) -> None:
        self._watcher = AggregatorWatcher(Config(**config), shards)

    def state(self) -> dict[str, Any]:
        """Returns the state of the aggregator."""
        return self._watcher.state()

    def stop(self) -> None:
        """Stops the process permanently."""
        self._watcher.stop()


def _stop_others(config: dict[str, Any], keep: list[str]) -> int:
    """Stops all processes on this machine except `keep`, including those without an actor."""
    settings = Config(**config)
    return stop_others(settings.state(), set(keep), max(settings.drain, 1.0))


def _remove_older(config: dict[str, Any], version: int) -> int:
    """Removes older versions from the cache of this machine."""
    settings = Config(**config)
    return remove_older(settings.cache() / settings.name, version)


class Supervisor:
    """Decides which nodes run, and writes the file that aggregators read."""

    def __init__(self, config: dict[str, Any], shards: int, replicas: int, version: int) -> None:
        check_counts(shards, replicas)
        self.config = Config(**config)
        self.shards, self.replicas, self.version = shards, replicas, version
        self._file = self.config.state() / CLUSTER_FILE
        self._nodes: dict[Key, Any] = {}
        self._aggregator: Any = None
        self._states: dict[Key, dict[str, Any]] = {}
        # Nodes that are not listed: they are about to be stopped, or not ready yet.
        self._hidden: set[Key] = set()
        # The addresses in the file. A node whose watcher has not reported yet keeps its address,
        # since its process may have been running all the time.
        self._listed = _read_nodes(Path(self.config.nodes_file))
        self._written = ""
        # The file is not changed until all nodes are ready or the time for that is up: the nodes
        # in it may be those that are about to be adopted.
        self._settled = False
        self._settle_by = math.inf
        self._changing = threading.Lock()
        self._lock = threading.RLock()
        self._ended = threading.Event()
        if ray.get_runtime_context().was_current_actor_reconstructed:
            self._restore()
        threading.Thread(target=self._tend, name="tend", daemon=True).start()

    def _restore(self) -> None:
        """Restores the state after a restart: the last decisions and their actors, and no others."""
        known = read_json(self._file)
        if not isinstance(known, dict):
            return
        self.replicas, self.version = int(known["replicas"]), int(known["version"])
        wanted = self._keys(self.version, self.replicas)
        names = {_node_name(self.config.name, key) for key in wanted}
        for other in ray.util.list_named_actors(all_namespaces=False):
            if other.startswith(f"node-{self.config.name}-") and other not in names:
                _end([ray.get_actor(other, namespace=NAMESPACE)], self.config.drain)
        for key in wanted:
            self._start(key).stop.remote(None, self.version)
        self._start_aggregator()
        self._settle_by = time.monotonic() + SETTLE

    def _save(self) -> None:
        known = {"shards": self.shards, "replicas": self.replicas, "version": self.version, "nodes_file": self.config.nodes_file}
        write_json(self._file, known)

    # Calls from the command line

    def up(self, timeout: float) -> dict[str, Any]:
        """Starts missing nodes, waits until all are ready, and then starts the aggregator."""
        with self._changing:
            self._save()
            wanted = self._keys(self.version, self.replicas)
            for key in wanted:
                self._start(key)
            # An aggregator that is running has its list of nodes, so its actor can start now.
            if Process(self.config.state() / AGGREGATOR_FILE, Path(os.devnull)).adopt():
                self._start_aggregator()
            try:
                self._wait_ready(wanted, timeout)
            finally:
                self._settle_by = 0.0
                self._look()
            # The aggregator reads the file of nodes, which is complete now.
            if self._start_aggregator():
                self._wait_ready([AGGREGATOR], timeout)
            # Stops processes that an earlier Ray cluster has left and that are not needed.
            self._stop_others([state_file(*key) for key in wanted] + [AGGREGATOR_FILE] * bool(self.config.listen))
            return self.status()

    def scale(self, replicas: int, timeout: float) -> dict[str, Any]:
        """Changes the number of replicas of all shards while they serve."""
        check_counts(self.shards, replicas)
        with self._changing:
            before = self.replicas
            more = self._keys(self.version, replicas)
            if replicas > before:
                new = [key for key in more if key not in self._nodes]
                self._add(new, timeout)
            self.replicas = replicas
            self._save()
            self._drop([key for key in list(self._nodes) if key not in more])
            return self.status()

    def roll(self, version: int, timeout: float) -> dict[str, Any]:
        """Switches to another version.

        Its nodes are started beside the old ones. When all of them are ready, they are listed and
        the old ones are stopped. If a node fails, the old ones keep serving.
        """
        with self._changing:
            if version == self.version:
                return self.status()
            before, new = self.version, self._keys(version, self.replicas)
            self._add(new, timeout)
            self.version = version
            self._save()
            # Aggregators see both versions now, and switch to the newer one once they know all
            # its shards.
            time.sleep(self.config.drain)
            self._drop([key for key in list(self._nodes) if key not in new])
            # The previous version stays on the disks, to return to it; older ones would fill
            # them.
            self._on_all_machines(_remove_older, min(before, version))
            return self.status()

    def down(self) -> int:
        """Stops all nodes. Returns the number of stopped processes that had no actor."""
        # Calls that wait for nodes give up.
        self._ended.set()
        with self._changing:
            with self._lock:
                self._nodes, nodes = {}, self._nodes
                self._aggregator, aggregator = None, self._aggregator
                self._hidden = set()
            # The aggregator is stopped first, since it calls the nodes.
            if aggregator is not None:
                _end([aggregator], self.config.drain)
            self._write({})
            _end(list({id(actor): actor for actor in nodes.values()}.values()), self.config.drain)
            self._file.unlink(missing_ok=True)
            return self._stop_others([])

    def settings(self) -> dict[str, Any]:
        """Returns the settings that the cluster was started with."""
        return self.config.to_json()

    def status(self) -> dict[str, Any]:
        """Returns the state of all nodes."""
        with self._lock:
            states = [self._states.get(key, _unknown(key)) | {"listed": key not in self._hidden} for key in sorted(self._nodes)]
            return {
                "name": self.config.name,
                "version": self.version,
                "shards": self.shards,
                "replicas": self.replicas,
                "nodes_file": self.config.nodes_file,
                "aggregator": self._states.get(AGGREGATOR),
                "nodes": states,
            }

    # Helpers

    def _keys(self, version: int, replicas: int) -> list[Key]:
        return [(shard, replica, version) for replica in range(replicas) for shard in range(self.shards)]

    def _start(self, key: Key) -> Any:
        """Lets an actor watch a node: the one that watches another version of it, or a new one."""
        shard, replica, version = key
        with self._lock:
            if key in self._nodes:
                return self._nodes[key]
            for other, actor in self._nodes.items():
                if other[:2] == key[:2]:
                    actor.watch.remote(version)
                    self._nodes[key] = actor
                    self._states[key] = _unknown(key) | {"machine": self._states[other]["machine"]}
                    return actor
            taken = [(other[0], str(state.get("machine"))) for other, state in self._states.items() if other in self._nodes]
        machine = place(shard, _machines(), taken)
        if machine is None:
            raise ClusterError("the Ray cluster has no machines")
        options: dict[str, Any] = {
            **_actor_options(_node_name(self.config.name, key), machine),
            "max_concurrency": 8,
            "num_cpus": self.config.cpus,
            "num_gpus": self.config.gpus,
            # If the machine dies, the actor may start on another one.
            "scheduling_strategy": NodeAffinitySchedulingStrategy(machine, soft=True),
        }
        made: Any = ray.remote(Node).options(**options).remote(self.config.to_json(), shard, replica)
        made.watch.remote(version)
        with self._lock:
            self._nodes[key] = made
            self._states[key] = _unknown(key) | {"machine": machine}
        return made

    def _start_aggregator(self) -> bool:
        """Starts the aggregator on this machine. Returns False if no address is configured."""
        if not self.config.listen:
            return False
        with self._lock:
            if self._aggregator is None:
                options = _actor_options(f"aggregator-{self.config.name}", ray.get_runtime_context().get_node_id())
                self._aggregator = ray.remote(Aggregator).options(max_concurrency=4, **options).remote(self.config.to_json(), self.shards)
                self._states[AGGREGATOR] = _unknown(AGGREGATOR)
        return True

    def _stop_others(self, keep: list[str]) -> int:
        return self._on_all_machines(_stop_others, keep)

    def _on_all_machines(self, function: Callable[[dict[str, Any], Any], int], argument: Any) -> int:
        """Calls a function on every machine, and returns the sum of the results."""
        task, here = ray.remote(function), ray.get_runtime_context().get_node_id()
        left = []
        for machine in _machines():
            # On this machine the function runs without a worker, which would have to be started.
            if machine != here:
                there = NodeAffinitySchedulingStrategy(machine, soft=False)
                left.append(task.options(num_cpus=0, scheduling_strategy=there).remote(self.config.to_json(), argument))
        others: list[int] = ray.get(left)
        return function(self.config.to_json(), argument) + sum(others)

    def _add(self, keys: list[Key], timeout: float) -> None:
        """Starts nodes and lists them once all are ready. If one fails, all are stopped again."""
        with self._lock:
            self._hidden.update(keys)
        try:
            for key in keys:
                self._start(key)
            self._wait_ready(keys, timeout)
        except BaseException:
            self._drop(keys)
            raise
        with self._lock:
            self._hidden.difference_update(keys)
        self._look()

    def _drop(self, keys: list[Key]) -> None:
        """Removes nodes from the list, lets them finish, and stops them."""
        if not keys:
            return
        with self._lock:
            self._hidden.update(keys)
        self._look()
        time.sleep(self.config.drain)
        with self._lock:
            gone = [(key, self._nodes.pop(key)) for key in keys if key in self._nodes]
            for key in keys:
                self._states.pop(key, None)
                self._hidden.discard(key)
            still = {id(actor) for actor in self._nodes.values()}
        # First those whose actors continue with another version.
        stopping = [actor.stop.remote(key[2]) for key, actor in gone if id(actor) in still]
        if stopping:
            ray.wait(stopping, num_returns=len(stopping), timeout=self.config.drain + 15)
        _end([actor for _, actor in gone if id(actor) not in still], self.config.drain)

    def _wait_ready(self, keys: list[Key], timeout: float) -> None:
        give_up = time.monotonic() + timeout
        while True:
            self._look()
            with self._lock:
                waiting = [self._states[key] for key in keys if not self._states[key]["ready"]]
            if not waiting:
                return
            if self._ended.is_set():
                raise ClusterError("the cluster was stopped")
            hopeless = [state for state in waiting if state["starts"] > HOPELESS and not state["was_ready"]]
            if hopeless or time.monotonic() > give_up:
                first = min(hopeless or waiting, key=lambda state: bool(state["problem"] == STARTING))
                timeout -= max(give_up - time.monotonic(), 0)
                if keys == [AGGREGATOR]:
                    raise ClusterError(f"the aggregator was not ready after {timeout:.0f} s: {first['problem']}")
                raise ClusterError(
                    f"{len(waiting)} of {len(keys)} nodes were not ready after {timeout:.0f} s; "
                    f"shard {first['shard']}, replica {first['replica']}: {first['problem']}"
                )
            time.sleep(0.1)

    def _look(self) -> None:
        """Asks all actors for their state, and writes the file if something has changed."""
        with self._lock:
            actors = dict(self._nodes)
            if self._aggregator is not None:
                actors[AGGREGATOR] = self._aggregator
        asked = {key: actor.state.remote(*([] if key == AGGREGATOR else [key[2]])) for key, actor in actors.items()}
        done, _ = ray.wait(list(asked.values()), num_returns=len(asked), timeout=ASK_TIMEOUT) if asked else ([], [])
        answered = set(done)
        for key, reference in asked.items():
            state, problem, is_new = None, "its watcher does not answer", False
            if reference in answered:
                try:
                    state = ray.get(reference)
                    is_new = state is None
                except ray.exceptions.RayError as error:
                    problem = f"its watcher is down: {type(error).__name__}"
            with self._lock:
                if is_new and key in self._nodes:
                    # Ray has restarted the actor, which does not know its processes.
                    self._nodes[key].watch.remote(key[2], True)
                if key in self._states:
                    self._states[key] = state or self._states[key] | {"ready": False, "problem": problem}
        if not self._ended.is_set():
            with self._lock:
                listed = [self._states[key] for key in sorted(self._nodes) if key not in self._hidden]
                all_ready = bool(listed) and all(state["ready"] for state in listed)
                self._settled = self._settled or all_ready or time.monotonic() > self._settle_by
            if not self._settled:
                return
            addresses = ((_key(state), _address(state, self._listed)) for state in listed)
            self._write({key: address for key, address in addresses if address})

    def _write(self, addresses: dict[Key, str]) -> None:
        # One address per line, as `warpseek aggregate --nodes` reads it.
        lines = [f"# nodes of {self.config.name}, {self.shards} shards"]
        for (shard, replica, version), address in addresses.items():
            lines.append(f"# shard {shard}, replica {replica}, version {version}")
            lines.append(address)
        contents = "\n".join(lines) + "\n"
        with self._lock:
            self._listed = addresses
            if contents != self._written:
                write_text(Path(self.config.nodes_file), contents)
                self._written = contents

    def _tend(self) -> None:
        """Checks all nodes at regular intervals."""
        while not self._ended.wait(TEND_EVERY):
            try:
                self._look()
            except Exception as error:  # noqa: BLE001 - the next look may be better
                print(f"warpseek: the nodes could not be checked: {error}", flush=True)


def _unknown(key: Key) -> dict[str, Any]:
    shard, replica, version = key
    return {
        "shard": shard,
        "replica": replica,
        "version": version,
        "host": "",
        "machine": "",
        "address": "",
        "pid": None,
        "ready": False,
        "was_ready": False,
        "adopted": False,
        "starts": 0,
        "problem": STARTING,
    }


def _key(state: dict[str, Any]) -> Key:
    return state["shard"], state["replica"], state["version"]


def _address(state: dict[str, Any], listed: dict[Key, str]) -> str:
    """Returns the address of a node for the file, or an empty string if it must not be listed."""
    if state["was_ready"]:
        return str(state["address"])
    # The process was listed before, and its watcher has not reported yet. A process that was
    # started since is listed once it is ready.
    return listed.get(_key(state), "") if state["starts"] == 0 else ""


def _read_nodes(file: Path) -> dict[Key, str]:
    """Reads the nodes in a file of this module.

    Returns none if the file does not exist or was written by something else.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    found = {}
    for head, address in zip(lines, lines[1:]):
        named = re.fullmatch(r"# shard (\d+), replica (\d+), version (\d+)", head)
        if named and not address.startswith("#"):
            shard, replica, version = map(int, named.groups())
            found[shard, replica, version] = address
    return found


def _actor_options(name: str, machine: str) -> dict[str, Any]:
    """Returns the options of an actor that is detached, named, and restarted on its machine."""
    return {
        "name": name,
        "namespace": NAMESPACE,
        "lifetime": "detached",
        "get_if_exists": True,
        "max_restarts": -1,
        "num_cpus": 0,
        "scheduling_strategy": NodeAffinitySchedulingStrategy(machine, soft=False),
    }


def _machines() -> list[str]:
    return [str(node["NodeID"]) for node in ray.nodes() if node["Alive"]]


def _end(actors: list[Any], drain: float) -> None:
    """Stops actors and their processes. An actor that does not answer is killed."""
    stopping = [actor.stop.remote() for actor in actors]
    if stopping:
        ray.wait(stopping, num_returns=len(stopping), timeout=drain + 15)
    for actor in actors:
        ray.kill(actor, no_restart=True)


def start_supervisor(config: Config, shards: int, replicas: int, version: int) -> Any:
    """Returns the supervisor of a collection, and starts it on this machine if there is none.

    It must run here because the file that it writes is here.
    """
    here = ray.get_runtime_context().get_node_id()
    options = _actor_options(supervisor_name(config.name), here)
    return ray.remote(Supervisor).options(max_concurrency=8, **options).remote(config.to_json(), shards, replicas, version)


def find_supervisor(name: str) -> Any:
    """Returns the supervisor of a collection."""
    try:
        return ray.get_actor(supervisor_name(name), namespace=NAMESPACE)
    except ValueError:
        raise ClusterError(f"no cluster of collection `{name}` is up on this Ray cluster; start it with `up`") from None
