"""A cluster on a local Ray, with processes that stand in for nodes."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from test_process import STAND_IN, until
from warpseek_cluster.process import started_at

pytest.importorskip("ray")


def ask(address):
    """Asks a stand-in for its shard, version and process."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=5) as stream:
        stream.sendall(b"version\n")
        shard, version, pid = stream.recv(100).split()
    return int(shard), int(version), int(pid)


class Space:
    """A temporary folder, and the command line in it."""

    def __init__(self, path):
        self.path = path
        self.folder = path / "folder"
        program = path / "warpseek"
        program.write_text(f"#!/bin/sh\nexec {STAND_IN[0]} {STAND_IN[1]} \"$@\"\n")
        program.chmod(0o755)
        self.environment = dict(os.environ, STAND_IN=str(path), RAY_ENABLE_UV_RUN_RUNTIME_ENV="0")
        self.set_versions(1)
        self.process = None

    def set_versions(self, current):
        versions = [{"version": v, "state": "current" if v == current else "ready", "shards": 4} for v in range(1, current + 1)]
        (self.path / "versions.json").write_text(json.dumps(versions))

    def words(self, verb, *more):
        return [sys.executable, "-m", "warpseek_cluster", verb, "--name", "fruit", "--folder", str(self.folder), *more]

    def up(self, *more):
        words = self.words("up", "--store", str(self.path), "--program", str(self.path / "warpseek"), "--drain", "0.3", *more)
        self.log = (self.path / "up.log").open("w+")
        self.process = subprocess.Popen(words, env=self.environment, stdout=self.log, stderr=self.log)
        until(self.is_up, 120)

    def is_up(self):
        assert self.process.poll() is None, (self.path / "up.log").read_text()
        return "interrupt to stop" in (self.path / "up.log").read_text()

    def run(self, verb, *more, fails=False):
        done = subprocess.run(self.words(verb, *more), env=self.environment, capture_output=True, text=True)
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stderr if fails else done.stdout

    def status(self):
        return json.loads(self.run("status", "--json"))

    def listed(self):
        text = (self.folder / "fruit.nodes").read_text()
        nodes = re.findall(r"# shard (\d+), replica \d+, version (\d+)\n(\S+)\n", text)
        return [(int(shard), int(version), address) for shard, version, address in nodes]

    def pids(self):
        states = [json.loads(path.read_text()) for path in (self.folder / "state/fruit").glob("node-*.json")]
        return [state["pid"] for state in states if started_at(state["pid"]) == state["ticks"]]


@pytest.fixture
def space(tmp_path):
    space = Space(tmp_path)
    yield space
    if space.process and space.process.poll() is None:
        space.process.terminate()
        space.process.wait(60)
    for pid in space.pids():
        os.kill(pid, signal.SIGKILL)


class Asking:
    """Asks one replica of each shard again and again, another one if it fails, and counts what no replica answered."""

    def __init__(self, space):
        self.space, self.failed, self.asked, self.versions = space, 0, 0, set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        while not self._stop.wait(0.01):
            listed = self.space.listed()
            if not listed:
                self.failed += 1
                continue
            newest = max(version for _, version, _ in listed)
            for shard in range(4):
                self.asked += 1
                if not any(self._one(node) for node in listed if node[:2] == (shard, newest)):
                    self.failed += 1

    def _one(self, node):
        try:
            self.versions.add(ask(node[2])[1])
            return True
        except (OSError, ValueError):
            return False

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()


def test_a_cluster_lives(space):
    """One long test, since starting Ray takes longer than all the rest."""
    assert "no local cluster" in space.run("status", fails=True)
    space.up("--replicas", "2", "--shards", "4")
    status = space.status()
    assert (status["version"], status["shards"], status["replicas"]) == (1, 4, 2)
    nodes = status["nodes"]
    assert len(nodes) == 8 and all(node["ready"] and node["listed"] for node in nodes)
    assert len({node["address"] for node in nodes}) == 8
    assert {ask(node["address"]) for node in nodes} == {(n["shard"], 1, n["pid"]) for n in nodes}
    assert sorted(space.listed()) == sorted((n["shard"], 1, n["address"]) for n in nodes)

    # A node that dies and one that hangs come back at their addresses.
    os.kill(nodes[0]["pid"], signal.SIGKILL)
    os.kill(nodes[5]["pid"], signal.SIGSTOP)
    before = space.listed()
    until(lambda: all(n["ready"] for n in space.status()["nodes"]) and started_at(nodes[5]["pid"]) is None)
    assert space.listed() == before
    assert ask(nodes[0]["address"])[2] != nodes[0]["pid"]

    # More and fewer replicas, and another version, while nodes are asked.
    with Asking(space) as asking:
        space.run("scale", "--replicas", "3")
        assert len(space.listed()) == 12
        space.run("scale", "--replicas", "1")
        assert len(space.listed()) == 4
        assert len(space.pids()) == 4
        space.run("scale", "--replicas", "2")
        space.set_versions(2)
        assert "rolled in" in space.run("roll")
        assert {version for _, version, _ in space.listed()} == {2}
        assert len(space.pids()) == 8
    assert asking.failed == 0 and asking.asked > 100 and asking.versions == {1, 2}

    # A version that cannot be fetched does not replace the one there.
    space.set_versions(3)
    (space.path / "fail-2-3").touch()
    error = space.run("roll", "--timeout", "15", fails=True)
    assert "not ready after 15 s" in error and "shard 2 of version 3 is damaged" in error
    assert {version for _, version, _ in space.listed()} == {2}
    assert len(space.pids()) == 8 and space.status()["version"] == 2

    # Numbers that cannot be are refused.
    assert "1 to 64 replicas" in space.run("scale", "--replicas", "65", fails=True)
    assert "has not a complete version 9" in space.run("roll", "--version-number", "9", fails=True)

    pids = space.pids()
    space.run("down")
    assert all(started_at(pid) is None for pid in pids) and space.listed() == []
    space.process.wait(60)


def descendants(pid):
    """All processes below one."""
    found = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        found += [int(child), *descendants(int(child))]
    return found


def test_nodes_outlive_ray(space):
    space.up("--replicas", "1")
    status = space.status()
    pids = sorted(space.pids())
    assert len(pids) == 4

    # A worker that watches a node dies: its process goes on, and the next worker adopts it.
    watchers = [p for p in descendants(space.process.pid) if b"ray::Node" in Path(f"/proc/{p}/cmdline").read_bytes()]
    assert len(watchers) == 4
    os.kill(watchers[0], signal.SIGKILL)
    until(lambda: sum(n["adopted"] for n in space.status()["nodes"]) == 1, 60)
    until(lambda: all(n["ready"] for n in space.status()["nodes"]))
    assert sorted(space.pids()) == pids

    # All of Ray dies, head and workers: nodes go on answering, and the next `up` adopts them.
    with Asking(space) as asking:
        ray = [space.process.pid, *descendants(space.process.pid)]
        assert not set(pids) & set(ray)
        for pid in ray:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        space.process.wait()
        time.sleep(1)
        assert sorted(space.pids()) == pids
        space.up("--replicas", "1")
        after = space.status()
        assert [n["pid"] for n in after["nodes"]] == [n["pid"] for n in status["nodes"]]
        assert all(n["adopted"] and n["starts"] == 0 for n in after["nodes"])
    assert asking.failed == 0 and asking.asked > 100
