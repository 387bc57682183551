#!/usr/bin/env python3
"""Measures CuPy's counterparts of our primitives on the same numbers of random values.

`warpseek bench gpu --primitives` runs this script.

  cupy_primitives.py VALUES ROUNDS

Prints a line of JSON for each primitive: its name, and the median of the rounds in seconds. Without
CuPy or a GPU, the script prints an error and exits with 3.
"""
import json
import statistics
import sys
import time

try:
    import cupy
    cupy.cuda.runtime.getDeviceCount()
except Exception as error:  # CuPy raises many kinds of exceptions if there is no GPU
    print(f"CuPy cannot be used: {error}", file=sys.stderr)
    sys.exit(3)

n, rounds = int(sys.argv[1]), int(sys.argv[2])
rng = cupy.random.default_rng(1)
keys = rng.integers(0, 1 << 32, n, dtype=cupy.uint32)
wide = rng.integers(0, 1 << 63, n, dtype=cupy.uint64)
ones = rng.integers(0, 16, n, dtype=cupy.uint32)
bits = (ones & 1).astype(cupy.bool_)
runs = cupy.sort(rng.integers(0, max(1, n // 8), n, dtype=cupy.uint32))
starts = cupy.unique(runs, return_index=True)[1]
positions = cupy.arange(n, dtype=starts.dtype)

PRIMITIVES = {
    "scan": lambda: cupy.cumsum(ones, dtype=cupy.uint32),
    "compact": lambda: keys[bits],
    "radix sort, 32-bit keys and values": lambda: keys[cupy.argsort(keys, kind="stable")],
    "radix sort, 32-bit keys": lambda: cupy.sort(keys),
    "radix sort, 64-bit keys": lambda: cupy.sort(wide),
    "count by key": lambda: cupy.unique(runs, return_counts=True),
    "load-balancing search": lambda: cupy.searchsorted(starts, positions, side="right"),
}
for name, run in PRIMITIVES.items():
    times = []
    for _ in range(rounds + 1):
        cupy.cuda.Stream.null.synchronize()
        start = time.perf_counter()
        result = run()
        cupy.cuda.Stream.null.synchronize()
        times.append(time.perf_counter() - start)
        del result
    print(json.dumps({"name": name, "seconds": statistics.median(times[1:])}), flush=True)
