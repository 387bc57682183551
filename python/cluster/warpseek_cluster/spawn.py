"""Starts a program that outlives the process that starts it.

`python -m warpseek_cluster.spawn LOG PROGRAM ARGUMENT...` prints the pid of the new process and
ends. The new process is then not a child of a Ray worker, which would kill it at its own end.
"""

from __future__ import annotations

import subprocess
import sys


def main() -> None:
    """Starts the program; see the module."""
    log, *command = sys.argv[1:]
    with open(log, "ab") as out:
        process = subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True, close_fds=True
        )
    print(process.pid, flush=True)


if __name__ == "__main__":
    main()
