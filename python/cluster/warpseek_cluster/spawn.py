"""Starts a program that outlives the process that asks for it.

`python -m warpseek_cluster.spawn LOG PROGRAM ARGUMENT...` prints the number of the new process and ends. The new process is then no child of a Ray worker, which would take it along when it ends.
"""

from __future__ import annotations

import subprocess
import sys


def main() -> None:
    """See the module."""
    log, *command = sys.argv[1:]
    with open(log, "ab") as out:
        process = subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True, close_fds=True
        )
    print(process.pid, flush=True)


if __name__ == "__main__":
    main()
