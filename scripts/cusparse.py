#!/usr/bin/env python3
"""Measures cuSPARSE on the matrices of a query cohort, including the selection of the top k.

  warpseek bench gpu --cohorts --index idx --queries log.txt -k 32 --cohort 256 --tile 262144 --matrices m
  cusparse.py m [--tile DOCS] [--rounds N] [--backend cupy|torch|scipy]

Needs NumPy, and CuPy or PyTorch with a GPU; both call cuSPARSE. If they are missing, the script
prints a message and exits with 0. `--backend scipy` runs the same steps on the CPU to try out the
script; the output states that this is not cuSPARSE.

The script computes the product of documents and queries in tiles of documents (500,000 as in
Agrawal 2016, figure 2), as a sparse matrix times a dense one, and with CuPy also times a sparse
one. Then it selects the top k of each query in each tile, and from all tiles. The matrices are on
the device before the clock starts. The results are compared with the hits that were written with
the matrices. Other programs add single-precision numbers in any order, so a query counts as equal
if each of its k scores is within 10^-3 of ours, which are exact.

Prints a table and, as the last line, JSON.
"""
import argparse
import json
import sys
import time
from pathlib import Path

TOLERANCE = 1e-3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("matrices", type=Path)
    parser.add_argument("--tile", type=int, default=500_000, help="number of documents in a tile [default: 500000]")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--backend", choices=list(BACKENDS), help="[default: the first of cupy and torch that is available]")
    options = parser.parse_args()
    if options.tile < 1 or options.rounds < 1:
        parser.error("--tile and --rounds must be at least 1")
    about = json.loads((options.matrices / "about.json").read_text())
    backend = None
    for name in [options.backend] if options.backend else ["cupy", "torch"]:
        try:
            backend = BACKENDS[name]()
            break
        except Exception as error:  # a missing package or GPU raises many kinds of exceptions
            print(f"skipped: {name} is not available ({type(error).__name__}: {error})")
    if backend is None:
        print("skipped: no package that calls cuSPARSE is available; pip install cupy-cuda12x")
        return 0

    import numpy

    load = lambda name: numpy.load(options.matrices / f"{name}.npy")
    docs = [load(f"docs_{part}") for part in ("rows", "columns", "values")]
    queries = [load(f"queries_{part}") for part in ("rows", "columns", "values")]
    k, n, c = about["k"], about["documents"], about["queries"]
    tiles = list(cut(numpy, *docs, n, options.tile))
    dense = numpy.zeros((about["lists"], c), dtype=numpy.float32)
    dense[queries[1], numpy.repeat(numpy.arange(c), numpy.diff(queries[0]))] = queries[2]
    backend.load(tiles, dense, k)
    scores = load("scores").reshape(c, k)
    report = {"backend": backend.name, "documents": n, "queries": c, "k": k, "postings": about["postings"], "tile": options.tile, "ways": {}}
    print(f"{backend.name}; {n} documents, {c} queries, {about['postings']} postings, k {k}, tiles of {options.tile}; median of {options.rounds}")
    print(f"{'':<40} {'ms':>10} {'q/s':>12} {'equal':>7}")
    for way in backend.ways():
        found = backend.run(way)  # also warms up
        equal = int((abs(found - scores) <= TOLERANCE * scores.clip(min=1)).all(axis=1).sum())
        times = sorted(timed(backend, way) for _ in range(options.rounds))
        seconds = times[len(times) // 2]
        report["ways"][way] = {"seconds": seconds, "equal": equal}
        print(f"{way:<40} {seconds * 1e3:>10.3f} {c / seconds:>12.0f} {equal:>7}")
    ours = about["kernel_seconds"] or about["seconds"]
    report["warpseek_seconds"] = ours
    print(f"{'warpseek, kernels (when written)':<40} {ours * 1e3:>10.3f} {c / ours:>12.0f} {'exact':>7}")
    if backend.is_cusparse:
        best = min(way["seconds"] for way in report["ways"].values())
        report["times_cusparse"] = best / ours
        print(f"warpseek is {best / ours:.1f} times as fast as the fastest of the above")
    print(json.dumps(report))
    return 0


def timed(backend, way):
    backend.wait()
    start = time.perf_counter()
    backend.run(way)
    backend.wait()
    return time.perf_counter() - start


def cut(numpy, rows, columns, values, n, size):
    """Yields the matrix of documents and lists in CSR format, in tiles.

    A tile is (first document, number of documents, rows, columns, values).
    """
    lists = numpy.repeat(numpy.arange(len(rows) - 1, dtype=numpy.int32), numpy.diff(rows))
    order = numpy.argsort(columns, kind="stable")
    columns, values, lists = columns[order], values[order], lists[order]
    ends = numpy.searchsorted(columns, numpy.arange(n + 1))
    for first in range(0, n, size):
        last = min(n, first + size)
        begin, end = ends[first], ends[last]
        yield first, last - first, (ends[first : last + 1] - begin).astype(numpy.int32), lists[begin:end], values[begin:end]


class Cupy:
    name, is_cusparse = "CuPy (cuSPARSE)", True

    def __init__(self):
        import cupy
        import cupyx.scipy.sparse as sparse

        cupy.cuda.runtime.getDeviceCount()
        self.cupy, self.sparse = cupy, sparse

    def load(self, tiles, dense, k):
        cupy, lists = self.cupy, dense.shape[0]
        matrix = lambda tile: self.sparse.csr_matrix((cupy.asarray(tile[4]), cupy.asarray(tile[3]), cupy.asarray(tile[2])), shape=(tile[1], lists))
        self.tiles, self.k = [matrix(tile) for tile in tiles], k
        # cuSPARSE expects column-major order.
        self.dense = cupy.asfortranarray(cupy.asarray(dense))
        self.queries = self.sparse.csr_matrix(self.dense)

    def ways(self):
        return ["sparse x dense (SpMM), best k", "sparse x sparse (SpGEMM), best k"]

    def wait(self):
        self.cupy.cuda.runtime.deviceSynchronize()

    def best(self, products):
        cupy, k = self.cupy, self.k
        take = lambda part: -cupy.sort(cupy.partition(-part, min(k, part.shape[0]) - 1, axis=0)[:k], axis=0)
        return cupy.asnumpy(take(cupy.concatenate([take(part) for part in products])).T)

    def run(self, way):
        if "SpMM" in way:
            return padded(self.best(tile @ self.dense for tile in self.tiles), self.k)
        return padded(self.best((tile @ self.queries).toarray() for tile in self.tiles), self.k)


class Torch:
    name, is_cusparse = "PyTorch (cuSPARSE)", True

    def __init__(self):
        import torch

        if not torch.cuda.is_available():
            raise RuntimeError("PyTorch does not find a GPU")
        self.torch = torch

    def load(self, tiles, dense, k):
        torch, lists = self.torch, dense.shape[0]
        on = lambda array: torch.from_numpy(array.copy()).cuda()
        matrix = lambda tile: torch.sparse_csr_tensor(on(tile[2]), on(tile[3]), on(tile[4]), size=(tile[1], lists))
        self.tiles, self.k, self.dense = [matrix(tile) for tile in tiles], k, on(dense)

    def ways(self):
        return ["sparse x dense (SpMM), best k"]

    def wait(self):
        self.torch.cuda.synchronize()

    def run(self, way):
        torch = self.torch
        # One row per query, so that topk reads contiguous memory.
        take = lambda part: torch.topk(part, min(self.k, part.shape[1]), dim=1).values
        parts = [take((tile @ self.dense).T.contiguous()) for tile in self.tiles]
        return padded(take(torch.cat(parts, dim=1)).cpu().numpy(), self.k)


class Scipy:
    name, is_cusparse = "SciPy on the CPU, a stand-in: NOT cuSPARSE", False

    def __init__(self):
        import numpy
        import scipy.sparse

        self.numpy, self.sparse = numpy, scipy.sparse

    def load(self, tiles, dense, k):
        matrix = lambda tile: self.sparse.csr_matrix((tile[4], tile[3], tile[2]), shape=(tile[1], dense.shape[0]))
        self.tiles, self.k, self.dense = [matrix(tile) for tile in tiles], k, dense

    def ways(self):
        return ["sparse x dense, best k"]

    def wait(self):
        pass

    def run(self, way):
        numpy, k = self.numpy, self.k
        take = lambda part: -numpy.sort(numpy.partition(-part, min(k, part.shape[0]) - 1, axis=0)[:k], axis=0)
        return padded(take(numpy.concatenate([take(tile @ self.dense) for tile in self.tiles])).T, k)


def padded(found, k):
    """Pads the scores to k columns with zeros, for fewer than k documents."""
    import numpy

    return numpy.pad(found, ((0, 0), (0, k - found.shape[1])))


BACKENDS = {"cupy": Cupy, "torch": Torch, "scipy": Scipy}

if __name__ == "__main__":
    sys.exit(main())
