"""A cluster of real nodes and a real aggregator that answer queries while parts of it fail.

The variable WARPSEEK_BIN names the program; without it these tests are skipped. They build on each
other: one cluster goes through all of them, since starting Ray takes longer than each test.
"""

import contextlib
import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from test_process import until
from warpseek_cluster.process import descendants, started_at

pytest.importorskip("ray")
PROGRAM = os.environ.get("WARPSEEK_BIN")
pytestmark = pytest.mark.skipif(not PROGRAM, reason="WARPSEEK_BIN does not name the program warpseek")

SHARDS = 4
DOCUMENTS = int(os.environ.get("WARPSEEK_DOCUMENTS", "4000"))
QUERIES = int(os.environ.get("WARPSEEK_QUERIES", "2000"))
#: Hits of each query that is sent while something fails.
K = 10
#: Seconds within which the cluster should be complete again. Longer times are reported, but do not
#: fail a test, since the machine may be busy.
WHOLE = 10.0
#: Seconds after which a failure counts as permanent.
BROKEN = 180


class Cluster:
    """A folder with a store, single indexes of its versions, and the command line."""

    def __init__(self, path):
        self.path, self.folder, self.store = path, path / "folder", path / "store"
        self.environment = dict(os.environ, RAY_ENABLE_UV_RUN_RUNTIME_ENV="0")
        self.figures, self.ours = [], set()
        self.up = None
        # Shards, logs and the state of processes are on a disk that can be filled.
        self.disk = Disk(self.folder, 64)
        chance = random.Random(19)
        words = [f"{chance.choice('bcdfgklmnprst')}{chance.choice('aeiou')}{chance.choice('bdlmnrst')}{number}" for number in range(3000)]
        # Some words are in most documents, and most words in few.
        texts = [" ".join(words[int(len(words) * chance.random() ** 4)] for _ in range(chance.randint(3, 60))) for _ in range(DOCUMENTS)]
        self.texts = texts
        asked = [" ".join(words[int(len(words) * chance.random() ** 2)] for _ in range(chance.randint(1, 6))) for _ in range(QUERIES)]
        self.queries = path / "queries.tsv"
        self.queries.write_text("".join(f"q{number}\t{query}\n" for number, query in enumerate(asked)))
        self.asked = asked[:300]
        self.expected = {}

    def program(self, *words):
        done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def build(self, version, texts):
        """Creates a version in the store, and the answers of one index of the same documents."""
        file, index = self.path / f"{version}.jsonl", self.path / f"index{version}"
        file.write_text("".join(json.dumps({"id": f"d{number}", "text": text}) + "\n" for number, text in enumerate(texts)))
        self.program("cluster", "build", file, "--store", self.store, "--name", "web", "--shards", SHARDS, "--quiet")
        self.program("index", file, "-o", index, "--quiet")
        hits = {number: [] for number in range(len(self.asked))}
        first = self.path / "first.tsv"
        first.write_text("".join(f"{number}\t{query}\n" for number, query in enumerate(self.asked)))
        for line in self.program("run", index, "--queries", first, "-k", K, "-q").splitlines():
            query, _, document, _, score, _ = line.split()
            hits[int(query)].append((document, float(score)))
        self.expected[version] = hits

    def words(self, verb, *more):
        return [sys.executable, "-m", "warpseek_cluster", verb, "--name", "web", "--folder", str(self.folder), *map(str, more)]

    def start(self, *more):
        words = self.words("up", "--store", self.store, "--program", PROGRAM, "--replicas", 2, "--listen", "127.0.0.1:0", "--drain", 1, *more)
        # Two cores serve all processes, and every answer comes from the nodes.
        words += ["--node-argument=--threads", "--node-argument=1", "--node-argument=--scrub-period=1", "--aggregator-argument=--cache", "--aggregator-argument=1"]
        with (self.path / "up.log").open("w") as log:
            self.up = subprocess.Popen(words, env=self.environment, stdout=log, stderr=log)
        until(lambda: self.times_up() == 1, BROKEN)

    def times_up(self):
        """Returns how often `up` has reported that all nodes are ready."""
        said = (self.path / "up.log").read_text()
        assert self.up.poll() is None, said
        return said.count("interrupt to stop")

    def run(self, verb, *more, fails=False):
        done = subprocess.run(self.words(verb, *more), env=self.environment, capture_output=True, text=True)
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stderr if fails else done.stdout

    def status(self):
        return json.loads(self.run("status", "--json"))

    def nodes(self):
        """Returns the state of the nodes' processes by shard, replica and version."""
        found = {}
        for path in (self.folder / "state/web").glob("node-*.json"):
            try:
                known = json.loads(path.read_text())
            except FileNotFoundError:
                continue
            found[tuple(map(int, path.stem.split("-")[1:]))] = known
            self.ours.add((known["pid"], known["ticks"]))
        return found

    def aggregator(self):
        known = json.loads((self.folder / "state/web/aggregator.json").read_text())
        self.ours.add((known["pid"], known["ticks"]))
        return known

    def ask(self, path, body=None, connection=None, address=None):
        """Returns the status and the body of a response of the aggregator."""
        one = connection or http.client.HTTPConnection(address or self.aggregator()["address"], timeout=60)
        try:
            one.request("POST" if body else "GET", path, json.dumps(body) if body else None)
            answer = one.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            if connection is None:
                one.close()

    def is_whole(self, killed=()):
        """Returns True if two nodes answer for each shard, none of them is a killed one, and the
        aggregator knows all of them.
        """
        nodes = self.nodes().values()
        if any(node["pid"] in killed or not node["has_answered"] or started_at(node["pid"]) != node["ticks"] for node in nodes):
            return False
        try:
            status, seen = self.ask("/v1/cluster")
        except (OSError, http.client.HTTPException):
            return False
        return status == 200 and seen["replicas"] == [2] * SHARDS and not any(node["problem"] for node in seen["nodes"])

    def signal(self, number, *nodes):
        """Sends a signal to nodes and returns the pids of their processes."""
        pids = [self.nodes()[node]["pid"] for node in nodes]
        for pid in pids:
            os.kill(pid, number)
        return pids

    def watchers(self):
        """Returns the pids of the Ray processes that watch nodes."""
        found = [pid for pid in descendants(self.up.pid) if b"ray::Node" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        assert len(found) == 2 * SHARDS
        return found

    @contextlib.contextmanager
    def unwatched(self):
        """Suspends the watchers, so that no node that dies is started again until the end of the
        block.
        """
        watchers = self.watchers()
        try:
            for pid in watchers:
                os.kill(pid, signal.SIGSTOP)
            yield
        finally:
            for pid in watchers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def left(self):
        """Returns the pids of our processes that are still running."""
        return [pid for pid, ticks in self.ours if ticks is not None and started_at(pid) == ticks]

    def kill_and_wait(self, what, number, *nodes):
        """Kills nodes while queries are sent.

        No query may fail, and the cluster must be complete again in time.
        """
        with Load(self) as load:
            begun = time.monotonic()
            pids = self.signal(number, *nodes)
            until(lambda: self.is_whole(pids), BROKEN)
            whole = time.monotonic() - begun
        load.check()
        self.note(what, whole, load, limit=WHOLE)

    def note(self, what, seconds, load=None, limit=None):
        late = f", which is more than {limit:.0f} s" if limit is not None and seconds > limit else ""
        self.figures.append(f"{what}: {seconds:.1f} s{late}" + (f"; {load}" if load else ""))


class Load:
    """Sends queries to the aggregator continuously, and compares each answer with that of one
    index.
    """

    def __init__(self, cluster, threads=2, address=None):
        self.address = address or cluster.aggregator()["address"]
        self.cluster, self.wrong, self.times, self.versions = cluster, [], [], set()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,), daemon=True) for number in range(threads)]

    def _run(self, number):
        connection = http.client.HTTPConnection(self.address, timeout=60)
        chance = random.Random(number)
        while not self._stop.wait(0.005):
            query = chance.randrange(len(self.cluster.asked))
            body = {"query": self.cluster.asked[query], "k": K, "deadline_ms": 15000, "allow_partial": False}
            begun = time.monotonic()
            try:
                status, answer = self.cluster.ask("/v1/search", body, connection)
            except (OSError, http.client.HTTPException) as error:
                self.wrong.append(repr(error))
                connection.close()
                continue
            self.times.append(time.monotonic() - begun)
            if status != 200 or not answer["coverage"]["complete"]:
                self.wrong.append(answer)
                continue
            self.versions.add(answer["version"])
            if [(hit["id"], hit["score"]) for hit in answer["hits"]] != self.cluster.expected[answer["version"]][query]:
                self.wrong.append((query, answer))

    def check(self):
        assert not self.wrong, f"{len(self.wrong)} of {len(self.times)}: {self.wrong[:3]}"
        assert len(self.times) > 20

    def __str__(self):
        times = sorted(1000 * seconds for seconds in self.times)
        return f"{len(times)} queries, {len(self.wrong)} failed, median {statistics.median(times):.0f} ms, slowest {times[-1]:.0f} ms"

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                # Enough answers for a meaningful test, even on a busy machine.
                until(lambda: len(self.times) > 20 or self.wrong, BROKEN)
        finally:
            self._stop.set()
            for thread in self._threads:
                thread.join()


class Disk:
    """Mounts a small file system on a folder, which only root can do."""

    def __init__(self, path, mebibytes):
        self.path, self._ballast = path, path / "ballast"
        path.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", str(path)], capture_output=True, text=True)
        self.why_not = done.stderr.strip() if done.returncode else None

    def fill(self):
        """Fills the file system."""
        with self._ballast.open("ab", buffering=0) as ballast, contextlib.suppress(OSError):
            while True:
                ballast.write(bytes(4096))

    def empty(self):
        self._ballast.unlink(missing_ok=True)

    def end(self):
        if self.why_not is None:
            subprocess.run(["umount", "-l", str(self.path)], check=False)


class Wire:
    """A connection to a node that can be cut: nothing is refused and nothing arrives, as behind a
    network that drops packets.
    """

    def __init__(self, to):
        self.to, self.open = to.rpartition(":"), threading.Event()
        self.open.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near):
        self.open.wait()
        with contextlib.suppress(OSError):
            far = socket.create_connection((self.to[0], int(self.to[2])))
            threading.Thread(target=self._carry, args=(far, near), daemon=True).start()
            self._carry(near, far)

    def _carry(self, one, other):
        with contextlib.suppress(OSError):
            while piece := one.recv(65536):
                self.open.wait()
                other.sendall(piece)
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.open.set()
        self._listener.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, request):
    cluster = Cluster(tmp_path_factory.mktemp("real"))
    cluster.build(1, cluster.texts)
    yield cluster
    if cluster.up and cluster.up.poll() is None:
        cluster.up.terminate()
        cluster.up.wait(60)
    for pid in cluster.left():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    cluster.disk.end()
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print("", *cluster.figures, sep="\n")


def test_what_cannot_start_leaves_nothing(cluster):
    """One node of four refuses its shard. The others must not be left without a watcher."""
    command = json.dumps(["/bin/sh", "-c", 'test {shard} = 2 && echo "error: not this one" && exit 1; exec {program} node --listen {address} --shard {shard}={folder}'])
    error = cluster.run("up", "--store", cluster.store, "--program", PROGRAM, "--node-command", command, "--listen", "none", fails=True)
    # The watchers of other nodes may not have started theirs yet.
    assert re.search(r"\d of 4 nodes were not ready", error) and "shard 2, replica 0: the process has ended: error: not this one" in error
    assert not any((cluster.folder / "state/web").glob("*.json"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert "choose another one with --listen" in cluster.run("up", "--store", cluster.store, "--program", PROGRAM, "--listen", address, fails=True)


def test_one_command_starts_all_and_answers_are_those_of_one_index(cluster):
    assert "no local cluster" in cluster.run("status", fails=True)
    begun = time.monotonic()
    cluster.start()
    cluster.note("up, 8 nodes and an aggregator", time.monotonic() - begun)

    def ready():
        status = cluster.status()
        nodes = [node["ready"] and node["listed"] for node in status["nodes"]]
        return len(nodes) == 8 and all(nodes) and status["aggregator"]["ready"] and status

    # A watcher that answers late counts as not ready until the next check.
    status = until(ready, BROKEN)
    assert status["aggregator"]["address"] == cluster.aggregator()["address"]
    nodes = ["aggregate", "--nodes", cluster.folder / "web.nodes", "--shards", SHARDS]
    for options in (["-k", 1000], ["-k", K, "--mode", "and-or", "--rank", "okapi"]):
        options += ["--queries", cluster.queries, "-q"]
        want = cluster.program("run", cluster.path / "index1", *options)
        assert want.count("\n") > QUERIES
        assert cluster.program(*nodes, *options) == want
    with Load(cluster) as load:
        time.sleep(2)
    load.check()
    cluster.note("nothing broken", 2, load)
    # A second `up` would watch the same processes.
    again = cluster.run("up", "--store", cluster.store, "--program", PROGRAM, fails=True)
    assert "is up already" in again


def test_a_killed_node(cluster):
    cluster.kill_and_wait("kill -9 of a node", signal.SIGKILL, (1, 0, 1))


def test_a_hung_node(cluster):
    cluster.kill_and_wait("SIGSTOP of a node", signal.SIGSTOP, (3, 1, 1))


def test_nodes_that_cannot_be_reached(cluster):
    """One replica of each shard is behind a connection that is cut.

    A separate aggregator uses it.
    """
    listed = {node: known["address"] for node, known in cluster.nodes().items()}
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(Wire(address)) for (_, replica, _), address in listed.items() if replica == 0]
        direct = [address for (_, replica, _), address in listed.items() if replica == 1]
        nodes = ",".join([*direct, *(wire.address for wire in wires)])
        words = [PROGRAM, "aggregate", "--nodes", nodes, "--shards", str(SHARDS), "--listen", "127.0.0.1:0", "--cache", "1"]
        aggregator = stack.enter_context(subprocess.Popen(words, stderr=subprocess.PIPE, text=True))
        stack.callback(aggregator.kill)
        address = aggregator.stderr.readline().rsplit("/", 1)[1].strip()

        # Only these nodes are checked: another one may be late once.
        cut = {wire.address for wire in wires}

        def problems():
            nodes = cluster.ask("/v1/cluster", address=address)[1]["nodes"]
            return cut & {node["address"] for node in nodes if node["problem"] is not None}

        with Load(cluster, address=address) as load:
            time.sleep(1)
            for wire in wires:
                wire.open.clear()
            until(lambda: problems() == cut, BROKEN)
            time.sleep(1)
            assert problems() == cut
            begun = time.monotonic()
            for wire in wires:
                wire.open.set()
            until(lambda: not problems(), BROKEN)
            whole = time.monotonic() - begun
        load.check()
    cluster.note("connections to half of the nodes cut for a while, after they are back", whole, load, limit=WHOLE)


def test_half_of_the_replicas(cluster):
    cluster.kill_and_wait("kill -9 of a replica of each shard", signal.SIGKILL, *((shard, 0, 1) for shard in range(SHARDS)))


def test_all_replicas_of_a_shard(cluster):
    """Answers continue, are exact over what was searched, and name what is missing."""
    # Half of the deadline is spent waiting for the shard. The rest is enough for the others even
    # on a busy machine.
    body = {"query": cluster.asked[0], "k": K, "deadline_ms": 10_000}
    with cluster.unwatched():
        begun = time.monotonic()
        pids = cluster.signal(signal.SIGKILL, (2, 0, 1), (2, 1, 1))
        status, answer = cluster.ask("/v1/search", body)
        took = time.monotonic() - begun
        assert status == 200
        assert [missing["shard"] for missing in answer["coverage"]["missing"]] == [2] and not answer["coverage"]["complete"]
        assert answer["hits"] and all(hit["shard"] != 2 for hit in answer["hits"])
        status, _ = cluster.ask("/v1/search", body | {"deadline_ms": 600, "allow_partial": False})
        assert status == 503
    begun = time.monotonic()
    until(lambda: cluster.is_whole(pids), BROKEN)
    whole = time.monotonic() - begun
    cluster.note(f"kill -9 of both replicas of a shard, a partial answer after {1000 * took:.0f} ms; from when their watchers go on", whole, limit=WHOLE)
    with Load(cluster) as load:
        time.sleep(1)
    load.check()


def test_a_killed_aggregator(cluster):
    before = cluster.aggregator()
    begun = time.monotonic()
    os.kill(before["pid"], signal.SIGKILL)
    until(lambda: cluster.aggregator()["pid"] != before["pid"] and cluster.is_whole(), BROKEN)
    whole = time.monotonic() - begun
    cluster.note("kill -9 of the aggregator", whole, limit=WHOLE)
    assert cluster.aggregator()["address"] == before["address"]
    with Load(cluster) as load:
        time.sleep(1)
    load.check()


def test_more_and_fewer_replicas(cluster):
    for replicas in (3, 1, 2):
        with Load(cluster) as load:
            begun = time.monotonic()
            cluster.run("scale", "--replicas", replicas)
            took = time.monotonic() - begun
            # The nodes to be stopped have stopped, and no query has failed.
            time.sleep(0.5)
        load.check()
        assert len(cluster.nodes()) == replicas * SHARDS
        cluster.note(f"scale to {replicas} replicas", took, load)
    until(cluster.is_whole, BROKEN)
    assert "must be 1 to 64" in cluster.run("scale", "--replicas", 65, fails=True)


def test_another_version(cluster):
    cluster.build(2, [f"{text} {cluster.texts[-number]}" for number, text in enumerate(cluster.texts)] + ["something new"] * 5)
    assert cluster.expected[1] != cluster.expected[2]
    assert "does not have a complete version 9" in cluster.run("roll", "--version-number", 9, fails=True)
    with Load(cluster) as load:
        until(lambda: 1 in load.versions or load.wrong, BROKEN)
        begun = time.monotonic()
        cluster.run("roll")
        took = time.monotonic() - begun
        until(lambda: 2 in load.versions or load.wrong, BROKEN)
    load.check()
    assert load.versions == {1, 2}
    cluster.note("roll to another version", took, load)
    assert {version for _, _, version in cluster.nodes()} == {2}
    until(cluster.is_whole, BROKEN)
    nodes = ["aggregate", "--nodes", cluster.folder / "web.nodes", "--shards", SHARDS]
    options = ["-k", 100, "--queries", cluster.queries, "-q"]
    assert cluster.program(*nodes, *options) == cluster.program("run", cluster.path / "index2", *options)


def test_a_damaged_shard_in_the_store(cluster):
    cluster.build(3, cluster.texts[:-1])
    file = max((cluster.store / "web/versions/00000003/shards/00002").rglob("*.post"))
    damaged = bytearray(file.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    file.write_bytes(damaged)
    with Load(cluster) as load:
        error = cluster.run("roll", "--timeout", 30, fails=True)
    load.check()
    assert load.versions == {2} and "not ready after" in error
    assert "shard 2" in error and "is damaged: its sha256 is" in error, error
    assert {version for _, _, version in cluster.nodes()} == {2} and cluster.status()["version"] == 2
    cluster.note("roll to a version with a damaged shard, refused", 5, load)


def test_a_damaged_shard_on_disk(cluster):
    """A node that cannot open its shard fetches it again."""
    file = max((cluster.folder / "cache/web/00000002/00001").glob("*.dict"))
    damaged = file.with_name("damaged")
    damaged.write_bytes(file.read_bytes()[:-100] + bytes(100))
    # Nodes that have the file open keep it.
    damaged.rename(file)
    cluster.kill_and_wait("kill -9 of a node whose files on disk were damaged", signal.SIGKILL, (1, 0, 2))


def test_a_file_that_is_damaged_while_it_is_served(cluster):
    """Both replicas have the same file on this machine.

    Each finds the damage, takes the shard out of service, fetches it again and serves it again in
    the same process.
    """
    file = max((cluster.folder / "cache/web/00000002/00001").glob("*.post"))
    sound, inode = file.read_bytes(), file.stat().st_ino
    pids = {key: node["pid"] for key, node in cluster.nodes().items()}
    with file.open("r+b") as open_file:
        open_file.seek(len(sound) // 2)
        open_file.write(bytes(40))

    def is_sound_again():
        with contextlib.suppress(FileNotFoundError):
            return file.stat().st_ino != inode and file.read_bytes() == sound

    until(is_sound_again, BROKEN)
    until(lambda: all(node["ready"] for node in cluster.status()["nodes"]) and cluster.is_whole(), BROKEN)
    assert {key: node["pid"] for key, node in cluster.nodes().items()} == pids
    with Load(cluster) as load:
        time.sleep(2)
    load.check()


def test_a_full_disk(cluster):
    """A shard is lost and the disk has no space to fetch it.

    The other replica answers; then none does, and answers say so; once there is space, all recovers
    soon.
    """
    if cluster.disk.why_not is not None:
        pytest.skip(f"no small file system: {cluster.disk.why_not}")
    shard = cluster.folder / "cache/web/00000002/00001"
    with contextlib.ExitStack() as stack:
        # Open files occupy their space until they are closed.
        for path in shard.iterdir():
            stack.enter_context(path.open("rb"))
        cluster.disk.fill()
        # Later tests need the space even if this one fails.
        stack.callback(cluster.disk.empty)
        shutil.rmtree(shard)
        with Load(cluster) as load:
            pids = cluster.signal(signal.SIGKILL, (1, 0, 2))
            until(lambda: any("not have enough space for shard 1" in (node["problem"] or "") for node in cluster.status()["nodes"]), BROKEN)
            # Longer than the longest pause between two fetches.
            time.sleep(12)
        load.check()
        pids += cluster.signal(signal.SIGKILL, (1, 1, 2))
        status, answer = cluster.ask("/v1/search", {"query": cluster.asked[0], "k": K, "deadline_ms": 15_000})
        assert status == 200 and [missing["shard"] for missing in answer["coverage"]["missing"]] == [1]
        time.sleep(2)
        begun = time.monotonic()
        cluster.disk.empty()
    until(lambda: cluster.is_whole(pids), BROKEN)
    whole = time.monotonic() - begun
    cluster.note("a full disk under a shard that has to be fetched, after there is room", whole, load, limit=WHOLE)
    assert not shard.with_suffix(".partial").exists()
    with Load(cluster) as load:
        time.sleep(1)
    load.check()
    assert len(cluster.nodes()) == 2 * SHARDS


def test_a_killed_watcher(cluster):
    """The process keeps running, and the next worker adopts it."""
    nodes = cluster.nodes()
    os.kill(cluster.watchers()[0], signal.SIGKILL)
    # On a busy machine, Ray may replace other workers as well.
    until(lambda: any(node["adopted"] for node in cluster.status()["nodes"]), BROKEN)
    assert cluster.nodes() == nodes


def test_a_killed_head(cluster):
    """Queries continue without interruption.

    A new head watches the same processes and restarts those that die. It keeps the version of the
    nodes, although the store has another one now.
    """
    heads = [pid for pid in descendants(cluster.up.pid) if b"gcs_server" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]]
    assert len(heads) == 1
    ray = [(pid, ticks) for pid in descendants(cluster.up.pid) if (ticks := started_at(pid)) is not None]
    nodes, aggregator = cluster.nodes(), cluster.aggregator()
    with Load(cluster) as load:
        begun = time.monotonic()
        os.kill(heads[0], signal.SIGKILL)
        until(lambda: cluster.times_up() == 2, BROKEN)
        watched = time.monotonic() - begun
        assert cluster.nodes() == nodes and cluster.aggregator() == aggregator
    load.check()
    cluster.note("kill -9 of the Ray head, until nodes are watched again", watched, load)
    assert all(started_at(pid) != ticks for pid, ticks in ray), "of the old Ray cluster nothing is left"
    status = cluster.status()
    assert all(node["adopted"] and node["starts"] == 0 for node in status["nodes"])
    assert (status["version"], status["replicas"]) == (2, 2)
    cluster.kill_and_wait("kill -9 of a node after that", signal.SIGKILL, (0, 1, 2))


def test_all_of_ray_and_up_die(cluster):
    """Nodes and the aggregator keep running, and the next `up` adopts them."""
    nodes, aggregator = cluster.nodes(), cluster.aggregator()
    with Load(cluster) as load:
        for pid in [cluster.up.pid, *descendants(cluster.up.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        cluster.up.wait()
        time.sleep(1)
        cluster.start("--version-number", 2)
        assert cluster.nodes() == nodes and cluster.aggregator() == aggregator
    load.check()


def test_down_leaves_nothing(cluster):
    cluster.nodes(), cluster.aggregator()
    cluster.ours.update((pid, started_at(pid)) for pid in descendants(cluster.up.pid))
    begun = time.monotonic()
    cluster.run("down")
    cluster.note("down", time.monotonic() - begun)
    assert cluster.up.wait(60) == 0
    until(lambda: not cluster.left(), BROKEN)
    assert "127.0.0.1" not in (cluster.folder / "web.nodes").read_text()
    assert "no local cluster" in cluster.run("status", fails=True)
