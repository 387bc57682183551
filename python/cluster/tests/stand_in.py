"""A replacement for the program warpseek, with `cluster fetch` and `node`, but without an index.

A node answers HTTP/2 with an empty SETTINGS frame, as the real one does. Files in the folder
STAND_IN cause failures: `fail-SHARD-VERSION` names shards that cannot be fetched, `slow` has the
seconds that a node takes to listen, and `refuse` has the message of a node that ends at once.
"""

import json
import os
import socketserver
import sys
import time
from pathlib import Path

folder = Path(os.environ["STAND_IN"])


def option(name: str) -> str:
    return sys.argv[sys.argv.index(name) + 1]


def main() -> None:
    verb = sys.argv[1:3]
    if verb == ["cluster", "fetch"]:
        shard, version = option("--shard"), option("--version-number")
        if (folder / f"fail-{shard}-{version}").exists():
            sys.exit(f"error: shard {shard} of version {version} is damaged")
        print(json.dumps({"version": int(version), "shards": [{"shard": int(shard), "folder": f"/nowhere/{version}/{shard}"}]}))
    elif verb[0] == "node":
        host, _, port = option("--listen").rpartition(":")
        if (folder / "refuse").exists():
            sys.exit((folder / "refuse").read_text())
        if (folder / "slow").exists():
            time.sleep(float((folder / "slow").read_text()))

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                if self.request.recv(100).startswith(b"PRI "):
                    self.request.sendall(b"\x00\x00\x00\x04\x00\x00\x00\x00\x00")

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = True
            daemon_threads = True

        with Server((host, int(port)), Handler) as server:
            server.serve_forever()
    else:
        sys.exit(f"error: no {verb}")


main()
