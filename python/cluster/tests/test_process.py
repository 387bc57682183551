"""Processes of nodes, without Ray."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest

from warpseek_cluster.config import ClusterError, Config, check_counts, read_json, write_json
from warpseek_cluster.keeper import stop_local
from warpseek_cluster.placement import place
from warpseek_cluster.process import Process, answers, free_address, is_free, remove_older, started_at, stop_others
from warpseek_cluster.progress import Progress, waiting_for
from warpseek_cluster.watcher import NodeWatcher

STAND_IN = [sys.executable, str(Path(__file__).parent / "stand_in.py")]


def until(condition, seconds=180.0):
    """Waits until a condition is true."""
    give_up = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < give_up, "it did not come true"
        time.sleep(0.02)
    return found


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.setenv("STAND_IN", str(tmp_path))
    program = tmp_path / "warpseek"
    program.write_text(f"#!/bin/sh\nexec {STAND_IN[0]} {STAND_IN[1]} \"$@\"\n")
    program.chmod(0o755)
    return Config(
        store="store", name="fruit", program=str(program), folder=str(tmp_path / "folder"),
        nodes_file=str(tmp_path / "nodes.json"), host="127.0.0.1", look_every=0.05, look_timeout=5.0, drain=0.2,
    )


def test_older_versions_leave_the_cache(tmp_path):
    for name in ("00000001/00000", "00000002/00000", "00000010/00000", "note"):
        (tmp_path / name).mkdir(parents=True)
    assert remove_older(tmp_path, 2) == 1 and remove_older(tmp_path, 2) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000002", "00000010", "note"]
    assert remove_older(tmp_path / "none", 2) == 0


def test_a_process_is_adopted_by_the_next_who_watches(config, tmp_path):
    first = Process(tmp_path / "node-x.json", tmp_path / "log")
    assert not first.adopt()
    address = free_address("127.0.0.1")
    first.start([config.program, "node", "--listen", address, "--shard", "0=/x", "--collection-version", "7"], address)
    until(lambda: answers(address, 1))
    second = Process(tmp_path / "node-x.json", tmp_path / "log")
    assert second.adopt() and second.pid == first.pid and second.address == address
    # The process is not a child of this one, so it leaves no zombie.
    second.stop(5)
    assert not first.runs() and started_at(first.pid) is None
    assert not second.adopt()


def test_a_node_that_says_that_its_shard_is_damaged_is_not_ready(config):
    watcher = NodeWatcher(config, 2, 0, 7, "127.0.0.1")
    try:
        until(lambda: watcher.state()["ready"])
        status = Path(config.folder) / "state/fruit/node-00002-0-00000007.status"
        command = json.loads((status.with_suffix(".json")).read_text())["command"]
        assert command[command.index("--status-file") + 1] == str(status)
        assert command[command.index("--store") + 1] == "store" and command[command.index("--name") + 1] == "fruit"
        write_json(status, {"ready": False, "shards": [], "damaged": [{"shard": 2, "version": 7, "reason": "page 3 is damaged"}]})
        until(lambda: not watcher.state()["ready"])
        state = watcher.state()
        assert state["problem"] == "page 3 is damaged" and state["was_ready"], "aggregators go on to know it"
        pid = state["pid"]
        write_json(status, {"ready": True, "shards": [{"shard": 2, "version": 7}], "damaged": []})
        until(lambda: watcher.state()["ready"])
        assert watcher.state()["pid"] == pid, "it was not killed meanwhile"
    finally:
        watcher.stop()
    assert not status.exists()


def test_progress_says_what_is_waited_for_and_only_what_is_new():
    def node(shard, problem, version=1):
        return {"shard": shard, "replica": 0, "version": version, "ready": problem is None, "problem": problem}

    status = {"version": 1, "shards": 2, "replicas": 1, "aggregator": {"ready": False, "problem": "it is starting"}}
    first = waiting_for({**status, "nodes": [node(0, "it is starting"), node(1, "no room"), node(0, None, 2)]})
    assert first == ["0 of 2 nodes are ready", "shard 0, replica 0: it is starting", "shard 1, replica 0: no room", "aggregator: it is starting"]
    second = waiting_for({**status, "nodes": [node(0, None), node(1, "no room")], "aggregator": None})
    assert second == ["1 of 2 nodes are ready", "shard 1, replica 0: no room"]
    assert waiting_for({**status, "nodes": [node(0, None, 2)], "aggregator": None}, 2)[0] == "1 of 2 nodes are ready"
    out = io.StringIO()
    progress = Progress(out)
    for lines in (first, first, second):
        progress.show(lines)
    written = [line.split(" s: ")[-1].strip() for line in out.getvalue().splitlines()]
    assert written == first + ["1 of 2 nodes are ready"]


def test_another_process_with_the_same_number_is_not_adopted(tmp_path):
    with subprocess.Popen(["sleep", "100"]) as other:
        ticks = started_at(other.pid)
        write_json(tmp_path / "node-x.json", {"pid": other.pid, "ticks": ticks - 1, "address": "127.0.0.1:1"})
        process = Process(tmp_path / "node-x.json", tmp_path / "log")
        assert not process.adopt()
        assert process.address == "127.0.0.1:1", "the port is used again"
        assert stop_others(tmp_path, set(), 1) == 0
        assert other.poll() is None, "it was not ours to stop"
        other.kill()
    (tmp_path / "node-y.json").write_text("{")
    assert not Process(tmp_path / "node-y.json", tmp_path / "log").adopt()


def test_a_process_of_which_nothing_can_be_noted_is_not_left(tmp_path):
    """Covers a full disk.

    A process without a state file would not be found again, and others would be started.
    """
    process = Process(tmp_path / "node-x.json", tmp_path / "log")
    (tmp_path / "node-x.json").mkdir()
    with pytest.raises(ClusterError, match="cannot be written"):
        process.start([sys.executable, "-c", "import time; time.sleep(600)"], "127.0.0.1:1")
    assert process.pid is not None and started_at(process.pid) is None
    # A running process keeps running, and its state is saved once that is possible.
    (tmp_path / "node-x.json").rmdir()
    process.start([sys.executable, "-c", "import time; time.sleep(600)"], "127.0.0.1:1")
    try:
        (tmp_path / "node-x.json").unlink()
        (tmp_path / "node-x.json").mkdir()
        process.note_answer()
        assert process.runs() and process.has_answered
        (tmp_path / "node-x.json").rmdir()
        process.note_answer()
        assert json.loads((tmp_path / "node-x.json").read_text())["has_answered"]
    finally:
        process.kill()


def test_a_dead_node_is_started_again_at_its_address(config):
    watcher = NodeWatcher(config, 2, 0, 7, "127.0.0.1")
    try:
        state = until(lambda: (s := watcher.state())["ready"] and s)
        os.kill(state["pid"], signal.SIGKILL)
        again = until(lambda: (s := watcher.state())["ready"] and s["pid"] != state["pid"] and s)
        assert again["address"] == state["address"] and again["starts"] == 2
    finally:
        watcher.stop()
    assert started_at(again["pid"]) is None
    assert not watcher.state()["ready"]


def test_a_hung_node_is_killed_and_started_again(config):
    config = replace(config, look_timeout=0.5)
    watcher = NodeWatcher(config, 0, 0, 1, "127.0.0.1")
    try:
        state = until(lambda: (s := watcher.state())["ready"] and s)
        os.kill(state["pid"], signal.SIGSTOP)
        again = until(lambda: (s := watcher.state())["ready"] and s["pid"] != state["pid"] and s)
        assert started_at(state["pid"]) is None and again["address"] == state["address"]
    finally:
        watcher.stop()


def test_a_watcher_adopts_what_runs(config):
    first = NodeWatcher(config, 0, 0, 1, "127.0.0.1")
    state = until(lambda: (s := first.state())["ready"] and s)
    # The state is that after a worker was killed.
    first.stopping.set()
    first._thread.join()
    second = NodeWatcher(config, 0, 0, 1, "127.0.0.1")
    try:
        again = until(lambda: (s := second.state())["ready"] and s)
        assert (again["pid"], again["address"], again["starts"], again["adopted"]) == (state["pid"], state["address"], 0, True)
    finally:
        second.stop()


def test_a_hung_node_that_was_adopted_is_killed_too(config):
    config = replace(config, look_timeout=0.5)
    first = NodeWatcher(config, 0, 0, 1, "127.0.0.1")
    state = until(lambda: (s := first.state())["ready"] and s)
    first.stopping.set()
    first._thread.join()
    os.kill(state["pid"], signal.SIGSTOP)
    second = NodeWatcher(config, 0, 0, 1, "127.0.0.1")
    try:
        again = until(lambda: (s := second.state())["ready"] and s)
        assert again["pid"] != state["pid"] and again["address"] == state["address"]
    finally:
        second.stop()


def test_a_node_that_takes_long_to_start_is_not_killed(config, tmp_path):
    """Covers later starts too: what counts is whether this process has answered."""
    watcher = NodeWatcher(config, 0, 0, 1, "127.0.0.1")
    try:
        state = until(lambda: (s := watcher.state())["ready"] and s)
        (tmp_path / "slow").write_text("2")
        os.kill(state["pid"], signal.SIGKILL)
        again = until(lambda: (s := watcher.state())["ready"] and s["pid"] != state["pid"] and s)
        assert again["starts"] == 2
    finally:
        watcher.stop()


def test_what_is_left_of_a_local_cluster_is_stopped_without_ray(config, tmp_path):
    watcher = NodeWatcher(config, 0, 0, 1, "127.0.0.1")
    state = until(lambda: (s := watcher.state())["ready"] and s)
    watcher.stopping.set()
    watcher._thread.join()
    write_json(config.state() / "cluster.json", {"nodes_file": config.nodes_file})
    options = Namespace(folder=config.folder, name=config.name)
    assert stop_local(options) and not stop_local(options)
    assert started_at(state["pid"]) is None and list(config.state().iterdir()) == []
    assert Path(config.nodes_file).read_text() == "# nodes of fruit\n"


def test_a_process_that_ends_at_once_says_why(config, tmp_path):
    (tmp_path / "refuse").write_text("error: the shard is not one\n\nand more")
    watcher = NodeWatcher(config, 0, 0, 1, "127.0.0.1")
    try:
        until(lambda: "ended: error: the shard is not one; see " in (watcher.state()["problem"] or ""))
    finally:
        watcher.stop()


def test_a_shard_that_cannot_be_fetched_is_tried_again(config, tmp_path):
    (tmp_path / "fail-0-1").touch()
    watcher = NodeWatcher(config, 0, 0, 1, "127.0.0.1")
    try:
        until(lambda: "shard 0 of version 1 is damaged" in (watcher.state()["problem"] or ""))
        assert watcher.state()["pid"] is None
        (tmp_path / "fail-0-1").unlink()
        until(lambda: watcher.state()["ready"])
    finally:
        watcher.stop()


def test_what_does_not_speak_does_not_answer(tmp_path):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert not answers(f"127.0.0.1:{silent.getsockname()[1]}", 0.2)
    assert not answers("127.0.0.1:1", 0.2)
    assert not answers("nonsense", 0.2)


def test_a_taken_port_is_not_used():
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert free_address("127.0.0.1", port) != f"127.0.0.1:{port}"
        assert not is_free(f"127.0.0.1:{port}") and is_free("127.0.0.1:0")
    assert free_address("127.0.0.1", port) == f"127.0.0.1:{port}" and is_free(f"127.0.0.1:{port}")
    assert not is_free("192.0.2.1:80") and not is_free("nonsense")


def test_replicas_go_to_different_machines():
    hosts, placed = ["a", "b", "c"], []
    for replica in range(3):
        for shard in range(4):
            host = place(shard, hosts, placed)
            assert (shard, host) not in placed, f"replica {replica} of shard {shard}"
            placed.append((shard, host))
    assert sorted(sum(host == other for _, other in placed) for host in hosts) == [4, 4, 4]
    assert place(0, hosts, placed) in hosts
    assert place(0, [], []) is None


def test_files_are_replaced_as_a_whole(tmp_path):
    path = tmp_path / "new" / "file.json"
    write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})
    assert read_json(path) == {"a": 1}
    assert [p.name for p in path.parent.iterdir()] == ["file.json"]
    assert read_json(tmp_path / "missing") is None


def test_limits():
    for good in [(1, 1), (65_536, 64)]:
        check_counts(*good)
    for bad in [(0, 1), (65_537, 1), (1, 0), (1, 65)]:
        with pytest.raises(ClusterError):
            check_counts(*bad)
    for bad in [{"look_every": 0}, {"look_timeout": 61}, {"failures": 0}, {"drain": -1}]:
        with pytest.raises(ClusterError):
            Config(store="", name="", program="", folder="", nodes_file="", **bad)
