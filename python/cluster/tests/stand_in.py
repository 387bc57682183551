"""Stands in for the program warpseek: `cluster list`, `cluster fetch` and `node`, without an index.

A node answers HTTP/2 with an empty SETTINGS frame, as the real one does, and the word `version` with its version and process. The folder STAND_IN says what the store has: a file `versions.json`, and `fail-SHARD-VERSION` for shards that cannot be fetched.
"""

import json
import os
import socketserver
import sys
from pathlib import Path

folder = Path(os.environ["STAND_IN"])


def option(name: str) -> str:
    return sys.argv[sys.argv.index(name) + 1]


def main() -> None:
    verb = sys.argv[1:3]
    if verb == ["cluster", "list"]:
        versions = json.loads((folder / "versions.json").read_text())
        print(json.dumps({"collections": [{"name": option("--name"), "versions": versions}]}))
    elif verb == ["cluster", "fetch"]:
        shard, version = option("--shard"), option("--version-number")
        if (folder / f"fail-{shard}-{version}").exists():
            sys.exit(f"error: shard {shard} of version {version} is damaged")
        print(json.dumps({"version": int(version), "shards": [{"shard": int(shard), "folder": f"/nowhere/{version}/{shard}"}]}))
    elif verb[0] == "node":
        host, _, port = option("--listen").rpartition(":")
        shard, version = option("--shard").split("=")[0], option("--collection-version")

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                asked = self.request.recv(100)
                if asked.startswith(b"PRI "):
                    self.request.sendall(b"\x00\x00\x00\x04\x00\x00\x00\x00\x00")
                else:
                    self.request.sendall(f"{shard} {version} {os.getpid()}\n".encode())

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = True
            daemon_threads = True

        with Server((host, int(port)), Handler) as server:
            server.serve_forever()
    else:
        sys.exit(f"error: no {verb}")


main()
