"""Keeps a process running: starts it, checks it, and restarts it when it dies or hangs.

The shard of a node is fetched first. This module does not use Ray.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from warpseek_cluster.config import AGGREGATOR_COMMAND, Config, read_json
from warpseek_cluster.process import Process, answers, answers_http, free_address

#: First and longest pause before a process that died at once is started again, in seconds. A shard
#: that did not fit on the disk has to be there within ten seconds after there is enough space.
PAUSE, LONGEST_PAUSE = 0.2, 5.0
#: Problem of a process of which nothing else is known yet.
STARTING = "it is starting"
#: Name of the file with the state of the aggregator's process.
AGGREGATOR_FILE = "aggregator.json"


def state_file(shard: int, replica: int, version: int) -> str:
    """Returns the name of the file with the state of a node's process."""
    return f"node-{shard:05}-{replica}-{version:08}.json"


class Watcher(ABC):
    """A thread that keeps a process running until it is stopped."""

    def __init__(self, config: Config, file: str) -> None:
        self.config = config
        state = config.state() / file
        self.process = Process(state, config.logs() / f"{state.stem}.log")
        self.stopping = threading.Event()
        self._lock = threading.Lock()
        self._ready = False
        self._was_ready = False
        self._adopted = False
        self._starts = 0
        self._problem: str | None = STARTING
        self._thread = threading.Thread(target=self._run, name=state.stem, daemon=True)
        self._thread.start()

    @abstractmethod
    def choose_address(self) -> str:
        """Returns the address that the process is to listen on."""

    @abstractmethod
    def command(self, address: str) -> list[str]:
        """Prepares what the process needs, and returns the command that starts it."""

    @abstractmethod
    def looks_well(self) -> bool:
        """Returns True if the process answers."""

    def trouble(self) -> str | None:
        """Returns why a process that answers does not serve, or None if it does."""
        return None

    def state(self) -> dict[str, Any]:
        """Returns the current state."""
        with self._lock:
            return {
                "address": self.process.address,
                "pid": self.process.pid,
                "ready": self._ready,
                "was_ready": self._was_ready,
                "adopted": self._adopted,
                "starts": self._starts,
                "problem": self._problem,
            }

    def stop(self) -> None:
        """Stops the process permanently."""
        self.stopping.set()
        self._thread.join(timeout=60)
        self.process.stop(max(self.config.drain, 1.0))
        self._set(ready=False, problem="stopped")

    def _set(self, ready: bool, problem: str | None) -> None:
        with self._lock:
            self._ready, self._problem = ready, problem
            self._was_ready = self._was_ready or ready

    def _run(self) -> None:
        pause = PAUSE
        while not self.stopping.is_set():
            begun = time.monotonic()
            try:
                self._once()
            except Exception as error:  # noqa: BLE001 - whatever it was is shown, and tried again
                self._set(ready=False, problem=str(error))
            if time.monotonic() - begun > LONGEST_PAUSE:
                pause = PAUSE
            if self.stopping.wait(pause):
                return
            pause = min(2 * pause, LONGEST_PAUSE)

    def _once(self) -> None:
        """Adopts or starts the process, and returns when it is no longer running."""
        adopted = self.process.adopt()
        if adopted:
            with self._lock:
                self._adopted = True
        else:
            address = self.choose_address()
            command = self.command(address)
            if self.stopping.is_set():
                return
            self.process.start(command, address)
            with self._lock:
                self._starts += 1
        failures = 0
        # A process that is running already is checked immediately.
        pause = 0.0 if adopted else self.config.look_every
        while not self.stopping.wait(pause):
            pause = self.config.look_every
            if not self.process.runs():
                self._set(ready=False, problem=f"the process has ended: {self.process.last_words()}; see {self.process.log}")
                return
            if self.looks_well():
                failures = 0
                self.process.note_answer()
                trouble = self.trouble()
                self._set(ready=trouble is None, problem=trouble)
                continue
            failures += 1
            self._set(ready=False, problem=f"it did not answer {failures} times")
            # A process that has not answered yet may be opening a large shard.
            if self.process.has_answered and failures >= self.config.failures:
                self.process.kill()
                self._set(ready=False, problem="it hung and was killed")
                return


class NodeWatcher(Watcher):
    """Keeps a node running."""

    def __init__(self, config: Config, shard: int, replica: int, version: int, host: str) -> None:
        self.shard, self.replica, self.version, self.host = shard, replica, version, host
        super().__init__(config, state_file(shard, replica, version))

    def state(self) -> dict[str, Any]:
        """Returns the current state."""
        return {"shard": self.shard, "replica": self.replica, "version": self.version, "host": self.host, **super().state()}

    def choose_address(self) -> str:
        """Returns the previous address if its port is free, so that the list need not change."""
        before = self.process.address.rpartition(":")[2]
        return free_address(self.host, int(before) if before else None)

    def looks_well(self) -> bool:
        """Returns True if the node speaks HTTP/2."""
        return answers(self.process.address, self.config.look_timeout, self.config.tls)

    def status(self) -> Path:
        """Returns the file in which the node reports which of its shards are damaged."""
        return self.process.state.with_suffix(".status")

    def trouble(self) -> str | None:
        """Returns the damage of a shard that the node has not repaired yet."""
        said = read_json(self.status())
        damaged = said.get("damaged") if isinstance(said, dict) else None
        return str(damaged[0]["reason"]) if damaged else None

    def stop(self) -> None:
        """Stops the process permanently."""
        super().stop()
        self.status().unlink(missing_ok=True)

    def command(self, address: str) -> list[str]:
        """Fetches the shard, and returns the command of the node."""
        folder = self._fetch()
        # The report of the previous process is outdated.
        self.status().unlink(missing_ok=True)
        values = {
            "program": self.config.program,
            "store": self.config.store,
            "name": self.config.name,
            "cache": str(self.config.cache()),
            "shard": self.shard,
            "replica": self.replica,
            "version": self.version,
            "folder": folder,
            "address": address,
            "status": str(self.status()),
        }
        return [word.format(**values) for word in self.config.node_command] + self.config.node_arguments

    def _fetch(self) -> str:
        config = self.config
        command = [config.program, "cluster", "fetch", "--store", config.store, "--name", config.name]
        command += ["--shard", str(self.shard), "--version-number", str(self.version)]
        command += ["--cache", str(config.cache()), "--json", "--quiet"]
        # The shard was complete when it was fetched. If a node cannot open it, its files may be
        # damaged.
        if self.process.pid is not None and not self.process.has_answered:
            command.append("--verify")
        fetch = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # noqa: S603
        while True:
            try:
                out, err = fetch.communicate(timeout=0.2)
                break
            except subprocess.TimeoutExpired:
                if self.stopping.is_set():
                    fetch.terminate()
        if fetch.returncode != 0:
            raise RuntimeError(err.strip().removeprefix("error: ") or f"{command[0]} cluster fetch ended with {fetch.returncode}")
        return str(json.loads(out)["shards"][0]["folder"])


class AggregatorWatcher(Watcher):
    """Keeps an aggregator running."""

    def __init__(self, config: Config, shards: int) -> None:
        self.shards = shards
        super().__init__(config, AGGREGATOR_FILE)

    def choose_address(self) -> str:
        """Returns the configured address. Port 0 stands for a free port, which is then kept."""
        host, _, port = self.config.listen.rpartition(":")
        if port != "0":
            return self.config.listen
        return self.process.address or free_address(host.strip("[]"))

    def looks_well(self) -> bool:
        """Returns True if the aggregator answers over HTTP."""
        words = self.config.aggregator_arguments
        tls = any(word.split("=")[0] == "--http-certificate" for word in words)
        return answers_http(self.process.address, self.config.look_timeout, tls)

    def command(self, address: str) -> list[str]:
        """Returns the command of the aggregator, which needs only the file of nodes."""
        values = {"program": self.config.program, "nodes": self.config.nodes_file, "shards": self.shards, "address": address}
        return [word.format(**values) for word in AGGREGATOR_COMMAND] + self.config.aggregator_arguments
