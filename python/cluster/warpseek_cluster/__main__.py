"""`python -m warpseek_cluster`: builds, starts and changes a cluster."""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import sys
from pathlib import Path

from warpseek_cluster.config import ClusterError
from warpseek_cluster.keeper import keep


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    top = argparse.ArgumentParser(prog="python -m warpseek_cluster", description=__doc__)
    verbs = top.add_subparsers(dest="verb", required=True)

    def verb(name: str, about: str) -> argparse.ArgumentParser:
        sub = verbs.add_parser(name, help=about, description=about)
        sub.add_argument("--address", help="the Ray cluster, as host:port or `auto` [default: a local one of `up`]")
        sub.add_argument("--name", required=True, help="the collection")
        sub.add_argument("--folder", default=str(default_folder()), help="folder of each machine for shards, logs and processes [default: %(default)s]")
        return sub

    def source(sub: argparse.ArgumentParser) -> None:
        sub.add_argument("--store", required=True, help="folder or URL of the object store")
        sub.add_argument("--program", default=shutil.which("warpseek") or "warpseek", help="the program warpseek [default: %(default)s]")

    one = verb("build", "build a version of a collection, each shard as a Ray task")
    one.add_argument("inputs", nargs="+", metavar="INPUT")
    source(one)
    one.add_argument("--shards", type=int, required=True)
    one.add_argument("--cpus", type=float, default=1.0, help="CPUs of a task [default: %(default)s]")
    one.add_argument("--option", action="append", default=[], metavar="WORD", help="a further argument of `warpseek cluster build`, such as --option=--positions; may be repeated")

    one = verb("up", "start the nodes of a collection that are not running")
    source(one)
    one.add_argument("--shards", type=int, help="shards of the collection [default: as many as the version has]")
    one.add_argument("--replicas", type=int, default=1, help="nodes for each shard [default: %(default)s]")
    one.add_argument("--version-number", type=int, help="[default: the current version]")
    one.add_argument("--nodes", help="file for aggregators, on this machine [default: FOLDER/NAME.nodes]")
    one.add_argument("--host", default="", help="address that nodes listen on [default: 127.0.0.1 on a local Ray cluster, else that of each machine]")
    one.add_argument("--listen", help="address that an aggregator on this machine listens on, or `none` [default: 127.0.0.1:9200 on a local Ray cluster, else none]")
    one.add_argument("--aggregator-argument", action="append", default=[], metavar="WORD", help="a further argument of `warpseek aggregate`; may be repeated")
    one.add_argument("--tls", action="store_true", help="nodes use TLS; pass its files with --node-argument")
    one.add_argument("--node-argument", action="append", default=[], metavar="WORD", help="a further argument of `warpseek node`; may be repeated")
    one.add_argument("--node-command", help="JSON array with the command that starts a node, instead of `warpseek node`")
    one.add_argument("--cpus", type=float, default=0.0, help="CPUs that Ray counts for a node [default: %(default)s]")
    one.add_argument("--gpus", type=float, default=0.0, help="GPUs that Ray counts for a node [default: %(default)s]")
    one.add_argument("--drain", type=float, default=2.0, help="seconds for a node to finish requests in progress [default: %(default)s]")
    one.add_argument("--timeout", type=float, default=300.0, help="seconds for all nodes to be ready [default: %(default)s]")
    one.add_argument("--kept", choices=("first", "again"), help=argparse.SUPPRESS)

    one = verb("status", "show the nodes")
    one.add_argument("--json", action="store_true")
    one = verb("scale", "change the number of replicas while nodes serve")
    one.add_argument("--replicas", type=int, required=True)
    one.add_argument("--timeout", type=float, default=300.0)
    one = verb("roll", "switch to another version without interruption")
    one.add_argument("--version-number", type=int, help="[default: the current version of the store]")
    one.add_argument("--timeout", type=float, default=300.0)
    verb("down", "stop all nodes")
    return top


def default_folder() -> Path:
    """Returns the default folder for the files of nodes on a machine."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "warpseek"


def use_own_token(options: argparse.Namespace) -> None:
    """Sets the token of a local Ray cluster, so that only this user can access it.

    The token is in a file that only this user can read. Other Ray clusters use Ray's own settings.
    """
    if options.address is not None:
        return
    path = Path(options.folder).resolve() / "state" / options.name / "ray.token"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(secrets.token_hex(32))
    # Ray reads these variables when it is imported, and its processes inherit them.
    os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN_PATH=str(path))


def main() -> int:
    """Runs the command and returns the exit code: 0, or 1 with a message."""
    options = parser().parse_args()
    if options.verb == "up" and options.address is None and options.kept is None:
        return keep(options, sys.argv[1:])
    try:
        use_own_token(options)
        from warpseek_cluster import commands

        try:
            commands.run(options)
        finally:
            commands.end()
        return 0
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
