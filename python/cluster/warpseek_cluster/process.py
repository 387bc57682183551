"""The process of a node or an aggregator: started, adopted, looked at, stopped. Nothing here knows Ray.

What is known of a process is in a file, so that whoever watches it can die and be replaced: the next one finds the process by its number and the time of its start, and adopts it.
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

#: What every HTTP/2 server must answer with its own settings: the preface and an empty SETTINGS frame (RFC 9113, section 3.4).
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"


def answers(address: str, timeout: float, tls: bool = False) -> bool:
    """Whether a node answers: that it accepts a connection says nothing, since the system does that for a process that hangs."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=timeout) as plain:
            plain.settimeout(timeout)
            if tls:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                # Only whether it speaks is asked; nothing is told to it.
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
    """Whether an aggregator answers."""
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=timeout)
    if tls:
        # Only whether it answers is asked; nothing is told to it.
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
    """When a process was started, in ticks since the machine was; None if there is none, or only its remains."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The name of the program is in parentheses, and may have any character in it.
    fields = stat[stat.rfind(b")") + 2 :].split()
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def descendants(pid: int) -> list[int]:
    """All processes below one."""
    found = []
    try:
        children = [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]
    except OSError:
        return []
    for child in children:
        found += [child, *descendants(child)]
    return found


def free_address(host: str, wanted: int | None = None) -> str:
    """An address of this machine that nobody listens on, with the wanted port if that is free."""
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
    """Whether a program could listen on an address of this machine."""
    host, _, port = address.rpartition(":")
    try:
        return free_address(host.strip("[]"), int(port)) == address or int(port) == 0
    except (OSError, ValueError):
        return False


class Process:
    """One node or aggregator on this machine."""

    def __init__(self, state: Path, log: Path) -> None:
        self.state, self.log = state, log
        self.pid: int | None = None
        self._ticks: int | None = None
        self._command: list[str] = []
        self.address = ""
        #: Whether the process has ever answered; one that has not may still be opening a large shard.
        self.has_answered = False
        #: Whether the file says what is known here.
        self._is_saved = True

    def adopt(self) -> bool:
        """Takes over a process that somebody else has started, if it still runs."""
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
        """Starts a process, which must not be running."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        spawn = [sys.executable, "-m", "warpseek_cluster.spawn", str(self.log), *command]
        folder = str(Path(__file__).resolve().parent.parent)
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")])))
        done = subprocess.run(spawn, capture_output=True, text=True, env=environment, check=False)  # noqa: S603
        if done.returncode != 0:
            last = done.stderr.strip().splitlines()[-1:] or ["no reason was given"]
            raise ClusterError(f"{command[0]} could not be started: {last[0]}")
        self.pid, self.address = int(done.stdout), address
        self._ticks = started_at(self.pid)
        self._command, self.has_answered = command, False
        try:
            self._save()
        except OSError as error:
            # If the disk is full, nobody would know of the process, and the next one would be started beside it.
            self.kill()
            raise ClusterError(f"{self.state} cannot be written: {error}") from None

    def _save(self) -> None:
        known = {"pid": self.pid, "ticks": self._ticks, "address": self.address, "command": self._command, "has_answered": self.has_answered}
        self._is_saved = False
        write_json(self.state, known)
        self._is_saved = True

    def note_answer(self) -> None:
        """The process answers. The next one who watches it must know, so that it is not taken for one that still starts if it hangs then."""
        if not self.has_answered or not self._is_saved:
            self.has_answered = True
            # A process that answers is not disturbed because the disk is full; it is noted by a later look.
            with contextlib.suppress(OSError):
                self._save()

    def last_words(self) -> str:
        """The last error in the log, or else its last line."""
        try:
            with self.log.open("rb") as log:
                log.seek(max(log.seek(0, os.SEEK_END) - 1000, 0))
                lines = log.read().decode(errors="replace").strip().splitlines()
        except OSError:
            return ""
        errors = [line for line in lines if line.startswith("error")]
        return (errors or lines or [""])[-1]

    def runs(self) -> bool:
        """Whether the process is there."""
        return self.pid is not None and self._ticks is not None and started_at(self.pid) == self._ticks

    def _signal(self, number: signal.Signals) -> None:
        # Between the look and the signal the number could go to another process only after all others were used.
        if self.runs() and self.pid is not None:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                pass

    def kill(self) -> None:
        """Ends the process at once, also one that was stopped."""
        self._signal(signal.SIGKILL)
        give_up = time.monotonic() + 10
        while self.runs() and time.monotonic() < give_up:
            time.sleep(0.01)

    def stop(self, grace: float) -> None:
        """Asks the process to end, and ends it if it does not."""
        self._signal(signal.SIGTERM)
        give_up = time.monotonic() + grace
        while self.runs() and time.monotonic() < give_up:
            time.sleep(0.02)
        self.kill()
        self.state.unlink(missing_ok=True)


def remove_older(versions: Path, version: int) -> int:
    """Removes the folders of versions before one from a cache. Returns how many there were."""
    removed = 0
    for path in versions.glob("[0-9]*"):
        if path.name.isdecimal() and int(path.name) < version:
            shutil.rmtree(path, ignore_errors=True)
            removed += 1
    return removed


def stop_others(state: Path, keep: set[str], grace: float) -> int:
    """Stops all nodes and aggregators that files in this folder know, but those of the files to keep. Returns how many there were."""
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
