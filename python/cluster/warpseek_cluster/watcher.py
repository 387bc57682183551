"""Keeps one node running: fetches its shard, starts it, looks at it, and restarts it when it dies or hangs. Nothing here knows Ray."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from typing import Any

from warpseek_cluster.config import Config
from warpseek_cluster.process import NodeProcess, answers, free_address

#: Seconds before a node that died at once is started again: the first and the longest.
PAUSE, LONGEST_PAUSE = 0.2, 10.0
#: What is said of a node of which nothing else is known yet.
STARTING = "it is starting"


def state_file(shard: int, replica: int, version: int) -> str:
    """The name of the file with what is known of a node's process."""
    return f"node-{shard:05}-{replica}-{version:08}.json"


class Watcher:
    """A thread that keeps one node running until it is told to stop."""

    def __init__(self, config: Config, shard: int, replica: int, version: int, host: str) -> None:
        self.config, self.shard, self.replica, self.version, self.host = config, shard, replica, version, host
        state = config.state() / state_file(shard, replica, version)
        self.process = NodeProcess(state, config.logs() / f"{state.stem}.log")
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._ready = False
        self._was_ready = False
        self._adopted = False
        self._starts = 0
        self._suspicious = False
        self._problem: str | None = STARTING
        self._thread = threading.Thread(target=self._run, name=state.stem, daemon=True)
        self._thread.start()

    def state(self) -> dict[str, Any]:
        """What is known now."""
        with self._lock:
            return {
                "shard": self.shard,
                "replica": self.replica,
                "version": self.version,
                "host": self.host,
                "address": self.process.address,
                "pid": self.process.pid,
                "ready": self._ready,
                "was_ready": self._was_ready,
                "adopted": self._adopted,
                "starts": self._starts,
                "problem": self._problem,
            }

    def stop(self) -> None:
        """Stops the node. It is not started again."""
        self._stopping.set()
        self._thread.join(timeout=60)
        self.process.stop(max(self.config.drain, 1.0))
        self._set(ready=False, problem="stopped")

    def _set(self, ready: bool, problem: str | None) -> None:
        with self._lock:
            self._ready, self._problem = ready, problem
            self._was_ready = self._was_ready or ready

    def _run(self) -> None:
        pause = PAUSE
        while not self._stopping.is_set():
            begun = time.monotonic()
            try:
                self._once()
            except Exception as error:  # noqa: BLE001 - whatever it was is shown, and tried again
                self._set(ready=False, problem=str(error))
            if time.monotonic() - begun > LONGEST_PAUSE:
                pause = PAUSE
            if self._stopping.wait(pause):
                return
            pause = min(2 * pause, LONGEST_PAUSE)

    def _once(self) -> None:
        """Has the node running, and returns when it no longer does."""
        if self.process.adopt():
            with self._lock:
                self._adopted = True
        else:
            folder = self._fetch()
            if self._stopping.is_set():
                return
            # The port that it had before, so that aggregators need not be told.
            before = self.process.address.rpartition(":")[2]
            address = free_address(self.host, int(before) if before else None)
            self.process.start(self._command(folder, address), address)
            self._suspicious = True
            with self._lock:
                self._starts += 1
        failures = 0
        while not self._stopping.wait(self.config.look_every):
            if not self.process.runs():
                self._set(ready=False, problem=f"the process has ended; see {self.process.log}")
                return
            if answers(self.process.address, self.config.look_timeout, self.config.tls):
                failures, self._suspicious = 0, False
                self._set(ready=True, problem=None)
                continue
            failures += 1
            with self._lock:
                was_ready, self._ready = self._was_ready, False
                self._problem = f"it did not answer {failures} times"
            # A node that has not answered yet may be opening a large shard.
            if was_ready and failures >= self.config.failures:
                self.process.kill()
                self._set(ready=False, problem="it hung and was killed")
                return

    def _command(self, folder: str, address: str) -> list[str]:
        values = {
            "program": self.config.program,
            "shard": self.shard,
            "replica": self.replica,
            "version": self.version,
            "folder": folder,
            "address": address,
        }
        return [word.format(**values) for word in self.config.node_command] + self.config.node_arguments

    def _fetch(self) -> str:
        config = self.config
        command = [config.program, "cluster", "fetch", "--store", config.store, "--name", config.name]
        command += ["--shard", str(self.shard), "--version-number", str(self.version)]
        command += ["--cache", str(config.cache()), "--json", "--quiet"]
        # The shard was whole when it was fetched; if a node could not open it, its files may no longer be.
        if self._suspicious:
            command.append("--verify")
        fetch = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # noqa: S603
        while True:
            try:
                out, err = fetch.communicate(timeout=0.2)
                break
            except subprocess.TimeoutExpired:
                if self._stopping.is_set():
                    fetch.terminate()
        if fetch.returncode != 0:
            raise RuntimeError(err.strip() or f"{command[0]} cluster fetch ended with {fetch.returncode}")
        return str(json.loads(out)["shards"][0]["folder"])
