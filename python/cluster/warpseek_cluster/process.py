"""The process of a node or an aggregator: starting, adopting, checking and stopping it.

The state of a process is kept in a file, so that its watcher can die and be replaced: the next
watcher recognizes the process by its pid and start time, and adopts it. This module does not use
Ray.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path

from warpseek_cluster.config import ClusterError, read_json, write_json

#: The HTTP/2 connection preface with an empty SETTINGS frame, which every HTTP/2 server must answer
#: with its own settings (RFC 9113, section 3.4).
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"


def answers(address: str, timeout: float, tls: bool = False) -> bool:
    """Returns True if a node answers.

    An accepted connection is not enough: the system accepts connections for a process that hangs.
    """
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=timeout) as plain:
            plain.settimeout(timeout)
            if tls:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                # This only tests whether the node speaks TLS; no data is sent.
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
                with context.wrap_socket(plain):
                    return True
            plain.sendall(PREFACE)
            head = b""
            while len(head) < 9:
                piece = plain.recv(9 - len(head))
                if not piece:
                    return False
                head += piece
            return head[3] == 4
    except (OSError, ValueError):
        return False


def answers_http(address: str, timeout: float, tls: bool = False) -> bool:
    """Returns True if an aggregator answers."""
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=timeout)
    if tls:
        # This only tests whether the aggregator answers; no data is sent.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(host.strip("[]"), int(port), timeout=timeout, context=context)
    try:
        connection.request("GET", "/livez")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def started_at(pid: int) -> int | None:
    """Returns the start time of a process in clock ticks since the system was booted.

    Returns None if the process does not exist or is a zombie.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The name of the program is in parentheses, and may contain any character.
    fields = stat[stat.rfind(b")") + 2 :].split()
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def descendants(pid: int) -> list[int]:
    """Returns the pids of all descendants of a process."""
    found = []
    try:
        children = [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]
    except OSError:
        return []
    for child in children:
        found += [child, *descendants(child)]
    return found


def free_address(host: str, wanted: int | None = None) -> str:
    """Returns a free address of this machine, with the wanted port if it is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, wanted or 0))
        except OSError:
            if wanted:
                return free_address(host)
            raise
        name = f"[{host}]" if ":" in host else host
        return f"{name}:{probe.getsockname()[1]}"


def is_free(address: str) -> bool:
    """Returns True if a program could listen on an address of this machine."""
    host, _, port = address.rpartition(":")
    try:
        return free_address(host.strip("[]"), int(port)) == address or int(port) == 0
    except (OSError, ValueError):
        return False


class Process:
    """A node or aggregator on this machine."""

    def __init__(self, state: Path, log: Path) -> None:
        self.state, self.log = state, log
        self.pid: int | None = None
        self._ticks: int | None = None
        self._command: list[str] = []
        self.address = ""
        #: True if the process has ever answered. Otherwise it may still be opening a large shard.
        self.has_answered = False
        #: True if the file is up to date.
        self._is_saved = True

    def adopt(self) -> bool:
        """Adopts a process that another watcher has started, and returns False if it is gone."""
        known = read_json(self.state)
        if not isinstance(known, dict):
            return False
        try:
            pid, ticks, address = int(known["pid"]), int(known["ticks"]), str(known["address"])
            command, has_answered = [str(word) for word in known.get("command", [])], bool(known.get("has_answered"))
        except (KeyError, TypeError, ValueError):
            return False
        self.address = address
        if started_at(pid) != ticks:
            return False
        self.pid, self._ticks, self._command, self.has_answered = pid, ticks, command, has_answered
        return True

    def start(self, command: list[str], address: str) -> None:
        """Starts the process, which must not be running."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        spawn = [sys.executable, "-m", "warpseek_cluster.spawn", str(self.log), *command]
        folder = str(Path(__file__).resolve().parent.parent)
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")])))
        done = subprocess.run(spawn, capture_output=True, text=True, env=environment, check=False)  # noqa: S603
        if done.returncode != 0:
            last = done.stderr.strip().splitlines()[-1:] or ["the reason is not known"]
            raise ClusterError(f"{command[0]} could not be started: {last[0]}")
        self.pid, self.address = int(done.stdout), address
        self._ticks = started_at(self.pid)
        self._command, self.has_answered = command, False
        try:
            self._save()
        except OSError as error:
            # Without the file, the process would not be found again, and another one would be
            # started.
            self.kill()
            raise ClusterError(f"{self.state} cannot be written: {error}") from None

    def _save(self) -> None:
        known = {"pid": self.pid, "ticks": self._ticks, "address": self.address, "command": self._command, "has_answered": self.has_answered}
        self._is_saved = False
        write_json(self.state, known)
        self._is_saved = True

    def note_answer(self) -> None:
        """Records that the process answers.

        Its next watcher must know this, so that a process that hangs does not look like one that is
        still starting.
        """
        if not self.has_answered or not self._is_saved:
            self.has_answered = True
            # A process that answers must not be disturbed by a full disk; a later check saves the
            # state.
            with contextlib.suppress(OSError):
                self._save()

    def last_words(self) -> str:
        """Returns the last error in the log, or else its last line."""
        try:
            with self.log.open("rb") as log:
                log.seek(max(log.seek(0, os.SEEK_END) - 1000, 0))
                lines = log.read().decode(errors="replace").strip().splitlines()
        except OSError:
            return ""
        errors = [line for line in lines if line.startswith("error")]
        return (errors or lines or [""])[-1]

    def runs(self) -> bool:
        """Returns True if the process is running."""
        return self.pid is not None and self._ticks is not None and started_at(self.pid) == self._ticks

    def _signal(self, number: signal.Signals) -> None:
        # The pid could be reused in between only after all other pids had been used.
        if self.runs() and self.pid is not None:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                pass

    def kill(self) -> None:
        """Kills the process, even if it is suspended."""
        self._signal(signal.SIGKILL)
        give_up = time.monotonic() + 10
        while self.runs() and time.monotonic() < give_up:
            time.sleep(0.01)

    def stop(self, grace: float) -> None:
        """Terminates the process, and kills it if it does not end in time."""
        self._signal(signal.SIGTERM)
        give_up = time.monotonic() + grace
        while self.runs() and time.monotonic() < give_up:
            time.sleep(0.02)
        self.kill()
        self.state.unlink(missing_ok=True)


def remove_older(versions: Path, version: int) -> int:
    """Removes the folders of older versions from a cache, and returns their number."""
    removed = 0
    for path in versions.glob("[0-9]*"):
        if path.name.isdecimal() and int(path.name) < version:
            shutil.rmtree(path, ignore_errors=True)
            removed += 1
    return removed


def stop_others(state: Path, keep: set[str], grace: float) -> int:
    """Stops all nodes and aggregators whose state is in a folder, except those of `keep`.

    Returns the number of processes that were running.
    """
    stopped = 0
    for path in [*sorted(state.glob("aggregator.json")), *sorted(state.glob("node-*.json"))]:
        if path.name in keep:
            continue
        process = Process(path, Path(os.devnull))
        if process.adopt():
            stopped += 1
        process.stop(grace)
        path.with_suffix(".status").unlink(missing_ok=True)
    return stopped
