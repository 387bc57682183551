"""Collections and snapshots in object stores.

A program with support for all stores runs against servers that speak their protocols: python
stores.py PROGRAM NODE_FOLDER

S3 is moto, Azure Blob Storage is azurite (from npm, in NODE_FOLDER). Both listen on this machine
only and end with this program. Google Cloud Storage is not tested: no emulator that can be
installed as a package lists objects in the way that the program requests.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import hashlib
import hmac
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

PROGRAM, NODE_FOLDER = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
SECRET = "a-secret-that-must-not-be-shown"
#: The default account of azurite.
ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
WORDS = "route flap damping border gateway protocol area link state packet header checksum window congestion".split()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def ask(method: str, url: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> bytes:
    request = urllib.request.Request(url, data=body, method=method, headers=headers or {})
    with urllib.request.urlopen(request, timeout=30) as answer:
        found: bytes = answer.read()
        return found


@contextlib.contextmanager
def serving(command: list[str], port: int, env: dict[str, str] | None = None):
    """Runs a server that listens on a port."""
    process = subprocess.Popen(command, env={**os.environ, **(env or {})}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with socket.socket() as connection:
                if connection.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert process.poll() is None, f"{command[0]} ended with {process.returncode}"
            time.sleep(0.05)
        yield process
    finally:
        process.terminate()
        process.wait()


class Runner:
    """Runs the program with the environment variables of a store."""

    def __init__(self, env: dict[str, str], folder: pathlib.Path):
        # Variables of other programs, which stores must ignore.
        self.env = {**os.environ, "TOKEN": "x", "ENDPOINT": "http://127.0.0.1:9", "PROXY_URL": "http://127.0.0.1:9", **env}
        self.folder = folder

    def run(self, *args: object, code: int = 0) -> str:
        command = [str(PROGRAM), *map(str, args)]
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=300)
        said = done.stdout + done.stderr
        assert SECRET not in said and ACCOUNT_KEY not in said, said
        assert done.returncode == code, f"{' '.join(command)}: exit code {done.returncode}\n{said}"
        return said if code else done.stdout


def documents(numbers: range) -> str:
    lines = []
    for number in numbers:
        words = [WORDS[(number * step + step) % len(WORDS)] for step in (1, 3, 5, 7)]
        lines.append(json.dumps({"id": f"d{number}", "title": f"Title {number % 7}", "text": " ".join(words)}))
    return "".join(line + "\n" for line in lines)


def collection(store: str, runner: Runner) -> None:
    """Builds, changes, serves and removes a collection, and compares its hits with those of one
    index at every step.
    """
    folder = runner.folder
    queries, first, more = folder / "queries.tsv", folder / "first.jsonl", folder / "more.jsonl"
    queries.write_text("".join(f"{i}\t{WORDS[i % len(WORDS)]} {WORDS[(i * 5 + 3) % len(WORDS)]}\n" for i in range(60)))
    first.write_text(documents(range(400)))
    more.write_text(documents(range(400, 450)))
    whole, target = folder / "whole", ["--store", store, "--name", "web"]
    runner.run("index", first, "-o", whole, "--quiet")
    runner.run("cluster", "build", first, *target, "--shards", 2, "--quiet")
    versions = json.loads(runner.run("cluster", "list", "--store", store, "--json"))
    assert "web" in json.dumps(versions), versions
    compare(target, whole, queries, runner, "built")
    cache = ["--cache", folder / "changes"]
    runner.run("cluster", "add", more, *target, *cache, "--quiet")
    runner.run("add", whole, more, "--quiet")
    runner.run("cluster", "delete", "--id", "d17", "--id", "d420", *target, *cache)
    runner.run("delete", whole, "--id", "d17", "--id", "d420")
    compare(target, whole, queries, runner, "changed")
    # If two clients change it at the same time, one of them gets a conflict.
    both = [folder / "one.jsonl", folder / "two.jsonl"]
    for number, file in enumerate(both):
        file.write_text(documents(range(450 + number, 451 + number)))
    command = [str(PROGRAM), "cluster", "add", "--store", store, "--name", "web", "--quiet"]
    processes = [subprocess.Popen([*command, str(file)], env=runner.env, stderr=subprocess.PIPE, text=True) for file in both]
    ended = [(process.communicate(timeout=300)[1], process.returncode) for process in processes]
    assert sorted(code for _, code in ended) in ([0, 0], [0, 2]), ended
    for file, (said, code) in zip(both, ended):
        if code == 0:
            runner.run("add", whole, file, "--quiet")
        else:
            assert SECRET not in said and "again" in said, said
            runner.run("cluster", "add", file, *target, "--quiet")
            runner.run("add", whole, file, "--quiet")
    found = {line.split()[2] for line in served(target, queries, runner).splitlines()}
    assert found == {line.split()[2] for line in runner.run("run", whole, "--queries", queries, "-k", 1000, "--quiet").splitlines()}
    runner.run("cluster", "rollback", *target)
    runner.run("cluster", "remove", *target, "--keep", 1)
    runner.run("cluster", "fetch", "--store", store, "--name", "absent", "--cache", folder / "absent", code=2)


def served(target: list[object], queries: pathlib.Path, runner: Runner) -> str:
    """Returns the run of all queries over a node that fetches its shards itself."""
    port = free_port()
    with tempfile.TemporaryDirectory(dir=runner.folder) as cache:
        command = [PROGRAM, "node", *target, "--cache", cache, "--shard", 0, "--shard", 1, "--listen", f"127.0.0.1:{port}"]
        with serving(list(map(str, command)), port, runner.env):
            nodes = ["--nodes", f"127.0.0.1:{port}", "--shards", 2]
            return runner.run("aggregate", *nodes, "--queries", queries, "-k", 1000, "--quiet")


def compare(target: list[object], whole: pathlib.Path, queries: pathlib.Path, runner: Runner, when: str) -> None:
    # Names of runs are in the last column.
    rows = lambda text: [line.split()[:5] for line in text.splitlines()]
    one = rows(runner.run("run", whole, "--queries", queries, "-k", 1000, "--quiet"))
    cluster = rows(served(target, queries, runner))
    if when == "built":
        assert one == cluster and one, "the cluster has other hits than one index"
    else:
        # Hits with equal scores are in the order of the shards.
        key = lambda rows: sorted((query, score, document) for query, _, document, _, score in rows)
        assert key(one) == key(cluster) and one, "the cluster has other hits than one index"


def snapshots(store: str, runner: Runner) -> None:
    """A server keeps a snapshot in a store and restores it under another name."""
    port, data = free_port(), runner.folder / "data"
    url = f"http://127.0.0.1:{port}"
    command = [str(PROGRAM), "serve", str(data), "--listen", f"127.0.0.1:{port}"]
    json_body = {"content-type": "application/json"}
    with serving(command, port, {**runner.env, "WARPSEEK__SNAPSHOTS__URL": store}):
        for number in range(20):
            body = json.dumps({"t": f"word {number}"}).encode()
            ask("PUT", f"{url}/books/_doc/{number}", body, json_body)
        ask("POST", f"{url}/v1/snapshots", b'{"name": "monday"}', json_body)
        ask("DELETE", f"{url}/books/_doc/3")
        shown = json.loads(ask("GET", f"{url}/v1/snapshots"))
        assert "monday" in json.dumps(shown), shown
        ask("POST", f"{url}/v1/snapshots/monday/restore", b'{"as": {"books": "books-2"}}', json_body)
        ask("POST", f"{url}/books/_refresh")
        counts = [json.loads(ask("GET", f"{url}/{name}/_count"))["count"] for name in ("books", "books-2")]
        assert counts == [19, 20], counts
        ask("DELETE", f"{url}/v1/snapshots/monday")
        assert "monday" not in json.dumps(json.loads(ask("GET", f"{url}/v1/snapshots")))


@contextlib.contextmanager
def s3():
    port = free_port()
    env = {
        "AWS_ENDPOINT": f"http://127.0.0.1:{port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "tester",
        "AWS_SECRET_ACCESS_KEY": SECRET,
    }
    program = pathlib.Path(sys.executable).with_name("moto_server")
    with serving([str(program), "-H", "127.0.0.1", "-p", str(port)], port):
        ask("PUT", f"http://127.0.0.1:{port}/bucket")
        yield "s3://bucket", env


@contextlib.contextmanager
def azure():
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    env = {"AZURE_STORAGE_USE_EMULATOR": "true", "AZURITE_BLOB_STORAGE_URL": address}
    program = NODE_FOLDER / "node_modules/.bin/azurite-blob"
    with tempfile.TemporaryDirectory() as kept:
        command = [str(program), "--silent", "--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", kept, "--skipApiVersionCheck"]
        with serving(command, port):
            make_container(address)
            yield "az://bucket", env


def make_container(address: str) -> None:
    """Sends a signed request for an operation that object_store does not support."""
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%a, %d %b %Y %H:%M:%S GMT")
    headers = {"x-ms-date": date, "x-ms-version": "2021-08-06"}
    signed = "PUT" + "\n" * 12 + "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    signed += f"/{ACCOUNT}/{ACCOUNT}/bucket\nrestype:container"
    key = base64.b64decode(ACCOUNT_KEY)
    signature = base64.b64encode(hmac.new(key, signed.encode(), hashlib.sha256).digest()).decode()
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{signature}"
    ask("PUT", f"{address}/{ACCOUNT}/bucket?restype=container", b"", {**headers, "content-length": "0", "content-type": ""})


def main() -> None:
    for name, store in (("S3", s3), ("Azure Blob Storage", azure)):
        with store() as (url, env), tempfile.TemporaryDirectory() as folder:
            start = time.monotonic()
            runner = Runner(env, pathlib.Path(folder))
            collection(f"{url}/collections", runner)
            if name == "S3":
                snapshots(f"{url}/snapshots", runner)
            print(f"{name}: passed in {time.monotonic() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
