#!/usr/bin/env python3
"""Measures the processor and GPUs alone and together, on a machine with a GPU. Needs Python 3, nothing else.

  gpu_together.py --warpseek PATH --index DIR --queries FILE [-k 10] [--mode or] [--gpus 0,0] [--rounds 3] [--host-queries 2000]

Every way to answer writes a run; all runs must be equal to the processor's byte by byte, or the exit code is 1. The time is that of `run` from the first query
read to the last hit written, without loading; the best of some rounds. The processor alone answers the first --host-queries queries only.
Prints a table and, last, one line of JSON.
"""
import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--warpseek", required=True)
    parser.add_argument("--index", required=True)
    parser.add_argument("--queries", required=True, type=Path)
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--mode", default="or")
    parser.add_argument("--gpus", default="0,0", help="numbers of two GPUs, or one twice [default: 0,0]")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--host-queries", type=int, default=2000)
    options = parser.parse_args()
    several = ["--device", "cuda", "--gpus", options.gpus]
    ways = {
        "processor": ["--device", "cpu"],
        "GPU": ["--device", "cuda"],
        "GPUs by documents": several,
        "GPUs by queries": several + ["--split", "queries"],
        "both by documents": ["--device", "both"],
        "both by queries": ["--device", "both", "--split", "queries"],
    }
    with tempfile.TemporaryDirectory() as folder:
        return measure(options, ways, Path(folder))


def measure(options, ways, folder):
    lines = options.queries.read_text().splitlines(keepends=True)
    few = folder / "few.tsv"
    few.write_text("".join(lines[: options.host_queries]))
    cells, differ, expected = {}, [], None
    print(f"{'':<20} {'queries':>8} {'queries/s':>10}", flush=True)
    for way, arguments in ways.items():
        alone = way == "processor"
        rates = []
        for _ in range(options.rounds):
            run, rate = answer(options, few if alone else options.queries, arguments, folder / "run.trec")
            rates.append(rate)
            if expected is None:
                expected = run
            # The processor answered the first queries, and hits come in the order of queries.
            if run[: len(expected)] != expected and way not in differ:
                differ.append(way)
        cells[way] = max(rates)
        print(f"{way:<20} {len(lines[: options.host_queries] if alone else lines):>8} {cells[way]:>10.0f}", flush=True)
    total = cells["processor"] + cells["GPU"]
    shares = {way: cells[way] / total for way in cells if way.startswith("both")}
    for way, share in shares.items():
        print(f"{way}: {share:.3f} of the sum of processor and GPU")
    print("differ: " + ", ".join(differ) if differ else "all runs are equal")
    print(json.dumps({"k": options.k, "mode": options.mode, "queries_per_second": cells, "of_the_sum": shares, "differ": differ}))
    return 1 if differ else 0


def answer(options, queries, arguments, out):
    command = [options.warpseek, "run", options.index, "--queries", str(queries), "-k", str(options.k), "--mode", options.mode, "-o", str(out)]
    done = subprocess.run(command + arguments, capture_output=True, text=True)
    found = re.search(r"\(([\d,]+)/s\)", done.stderr)
    if done.returncode != 0 or not found:
        sys.exit(f"{' '.join(command + arguments)}: {done.stderr.strip()}")
    return out.read_bytes(), float(found.group(1).replace(",", ""))


if __name__ == "__main__":
    sys.exit(main())
