#!/usr/bin/env python3
"""Measures the CPU and a GPU separately and together, on a machine with a GPU. Needs only Python 3.

  gpu_together.py --warpseek PATH --index DIR --queries FILE [-k 10] [--mode or] [--repeat 10]
                  [--rounds 3] [--host-queries 2000] [--host-threads 4,8] [--gpus 0,0]

Every configuration writes a run. All runs must be equal byte by byte, up to the length of the
shorter one, or the exit code is 1. The measured time is that of `run` from reading the first query
to writing the last hit, without loading; it is the best of several rounds, in which the
configurations take turns. The queries are answered --repeat times, so that a run takes long enough;
the CPU alone answers the first --host-queries of them, once. With --host-threads, both devices are
also measured with the queries divided between them and these numbers of host threads. With --gpus,
two GPUs, or one GPU twice, are also measured.

Prints a table with the throughput of each configuration and its share of the sum of the CPU's and
the GPU's throughput, the output of `run`, and, as the last line, JSON. On gov2 and an H200, the
script takes about a minute.
"""
import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--warpseek", required=True)
    parser.add_argument("--index", required=True)
    parser.add_argument("--queries", required=True, type=Path)
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--mode", default="or")
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--host-queries", type=int, default=2000)
    parser.add_argument("--host-threads", default="", help="numbers of threads for measuring both devices split by queries")
    parser.add_argument("--gpus", help="ordinals of two GPUs, or one GPU twice, to measure together")
    options = parser.parse_args()
    ways = {
        "CPU": ["--device", "cpu"],
        "GPU": ["--device", "cuda"],
        "both by queries": ["--device", "both", "--split", "queries"],
        "both by documents": ["--device", "both"],
    }
    for threads in filter(None, options.host_threads.split(",")):
        ways[f"both, {threads} threads"] = ways["both by queries"] + ["--host-threads", threads]
    if options.gpus:
        several = ["--device", "cuda", "--gpus", options.gpus]
        ways["GPUs by documents"] = several
        ways["GPUs by queries"] = several + ["--split", "queries"]
    with tempfile.TemporaryDirectory() as folder:
        return measure(options, ways, Path(folder))


def measure(options, ways, folder):
    # The queries have no ids, because repeated ids would not be unique; `run` then uses line
    # numbers.
    texts = [line.split("\t")[-1] for line in options.queries.read_text().splitlines() if line.strip()]
    few, many = folder / "few.txt", folder / "many.txt"
    few.write_text("".join(text + "\n" for text in texts[: options.host_queries]))
    many.write_text("".join(text + "\n" for text in texts * options.repeat))
    start, best, said, differ, longest = time.time(), {}, {}, [], b""
    for number in range(options.rounds):
        for way, arguments in ways.items():
            alone = way == "CPU"
            if alone and number > 0:
                continue
            run, rate, line = answer(options, few if alone else many, arguments, folder / "run.trec")
            if rate > best.get(way, 0):
                best[way], said[way] = rate, line
            common = min(len(run), len(longest))
            if run[:common] != longest[:common] and way not in differ:
                differ.append(way)
            longest = max(run, longest, key=len)
    total = best["CPU"] + best["GPU"]
    shares = {way: best[way] / total for way in best if way.startswith("both")}
    print(f"{'':<20} {'queries':>8} {'queries/s':>10} {'of the sum':>11}")
    for way, rate in best.items():
        queries = min(len(texts), options.host_queries) if way == "CPU" else len(texts) * options.repeat
        print(f"{way:<20} {queries:>8} {rate:>10.0f} {shares.get(way, rate / total):>11.3f}")
    for way, line in said.items():
        print(f"{way}: {line}")
    print("differ: " + ", ".join(differ) if differ else "all runs are equal")
    print(f"{time.time() - start:.0f} s in total")
    print(json.dumps({"k": options.k, "mode": options.mode, "repeat": options.repeat, "queries_per_second": best,
                      "of_the_sum": shares, "said": said, "differ": differ}))
    return 1 if differ else 0


def answer(options, queries, arguments, out):
    command = [options.warpseek, "run", options.index, "--queries", str(queries), "-k", str(options.k), "--mode", options.mode, "-o", str(out)]
    done = subprocess.run(command + arguments, capture_output=True, text=True)
    found = re.search(r"^.*\(([\d,]+)/s\).*$", done.stderr, re.MULTILINE)
    if done.returncode != 0 or not found:
        sys.exit(f"{' '.join(command + arguments)}: {done.stderr.strip()}")
    return out.read_bytes(), float(found.group(1).replace(",", "")), found.group(0).strip()


if __name__ == "__main__":
    sys.exit(main())
