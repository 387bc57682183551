#!/usr/bin/env python3
"""Measures a vendor's sparse matrix product on the matrices of a query cohort.

  warpseek bench cohorts --index idx --queries log.txt --spmm         runs this script on the CPU
  warpseek bench cohorts --index idx --queries log.txt --matrices m   only writes the matrices
  spmm.py m [--tile DOCS] [--rounds N] [--backend mkl|scipy|cupy|torch]

Backends:

  mkl     Intel MKL through sparse_dot_mkl   pip install numpy scipy sparse-dot-mkl mkl
  scipy   SciPy's CSR product, one thread    pip install numpy scipy
  cupy    cuSPARSE through CuPy, on a GPU    pip install cupy-cuda12x
  torch   cuSPARSE through PyTorch, on a GPU

Without --backend, the first of mkl and scipy that is installed. If the chosen one is missing, the
script says what to install and exits with 3.

The script computes the product of queries and documents in tiles of documents (500,000 as in
Agrawal 2016, figure 2): a sparse matrix times a sparse one, and times a dense one. It times the
product alone, and the product with the selection of the best k of each query by NumPy (on a GPU by
the same library). The matrices are in memory, or on the device, before the clock starts.

All values are whole numbers and all sums stay below 2^24, so sums in single precision are exact in
any order. The results must therefore equal the hits that were written with the matrices: the same
scores, and on the CPU also the same documents in the same order. A difference ends the script with
1.

Prints a table and, as the last line, JSON.
"""
import argparse
import json
import os
import sys
import time
from pathlib import Path


def main():
    parser = argparse.ArgumentParser(prog="spmm.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("matrices", type=Path)
    parser.add_argument("--tile", type=int, default=500_000, help="number of documents in a tile [default: 500000]")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--backend", choices=list(BACKENDS), help="[default: the first of mkl and scipy that is installed]")
    options = parser.parse_args()
    if options.tile < 1 or options.rounds < 1:
        parser.error("--tile and --rounds must be at least 1")
    about = json.loads((options.matrices / "about.json").read_text())
    backend, missing = None, []
    for name in [options.backend] if options.backend else ["mkl", "scipy"]:
        try:
            backend = BACKENDS[name]()
            break
        except Exception as error:  # a missing package, library or GPU raises many kinds of exceptions
            missing.append(f"{name} is not available ({type(error).__name__}: {error}); {INSTALL[name]}")
            print(missing[-1], file=sys.stderr)
    if backend is None:
        return 3

    import numpy

    load = lambda name: numpy.load(options.matrices / f"{name}.npy")
    docs = [load(f"docs_{part}") for part in ("rows", "columns", "values")]
    queries = [load(f"queries_{part}") for part in ("rows", "columns", "values")]
    k, n, c = about["k"], about["documents"], about["queries"]
    backend.load(list(cut(numpy, *docs, n, options.tile)), queries, about["lists"], k)
    hits, scores = load("hits").reshape(c, k), load("scores").reshape(c, k)
    report = {"peer": backend.name, "missing": missing, "threads": backend.threads(), "documents": n, "queries": c, "k": k, "postings": about["postings"], "tile": options.tile, "ways": []}
    print(f"{backend.name}; {n} documents, {c} queries, {about['postings']} postings, k {k}, tiles of {options.tile}; median of {options.rounds}")
    print(f"{'':<24} {'product ms':>12} {'with best k':>12} {'equal':>7}")
    for way in backend.ways():
        equal = backend.equal(way, hits, scores)  # also warms up
        product = median(timed(backend, lambda: backend.products(way)) for _ in range(options.rounds))
        best = median(timed(backend, lambda: backend.best(backend.products(way))) for _ in range(options.rounds))
        report["ways"].append({"way": way, "product_s": product, "best_s": best, "equal": equal})
        print(f"{way:<24} {product * 1e3:>12.3f} {best * 1e3:>12.3f} {equal:>7}")
        if equal < c:
            print(f"{c - equal} of {c} queries have other results than warpseek", file=sys.stderr)
            return 1
    ours = about["kernel_seconds"] or about["seconds"]
    report["warpseek_s"] = ours
    print(f"{'warpseek, with best k':<24} {'':>12} {ours * 1e3:>12.3f} {c:>7}")
    fastest = min(way["product_s"] for way in report["ways"])
    print(f"warpseek is {fastest / ours:.2f} times as fast as the fastest product")
    print(json.dumps(report))
    return 0


def median(times):
    times = sorted(times)
    return times[len(times) // 2]


def timed(backend, work):
    backend.wait()
    start = time.perf_counter()
    work()
    backend.wait()
    return time.perf_counter() - start


def cut(numpy, rows, columns, values, n, size):
    """Yields the matrix of lists and documents in tiles, each as a matrix with a row per document.

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


class OnCpu:
    """SciPy's matrices; a subclass multiplies them."""

    def __init__(self):
        import numpy
        import scipy.sparse

        self.numpy, self.sparse = numpy, scipy.sparse

    def load(self, tiles, queries, lists, k):
        csr = lambda rows, columns, values, shape: self.sparse.csr_matrix((values, columns.astype(self.numpy.int32), rows.astype(self.numpy.int32)), shape=shape)
        self.k, self.first = k, [tile[0] for tile in tiles]
        self.queries = csr(*queries, (len(queries[0]) - 1, lists))
        self.dense = self.numpy.ascontiguousarray(self.queries.T.toarray())
        # For the sparse product, a row per list; for the dense one, a row per document.
        self.documents = [csr(*tile[2:], (tile[1], lists)) for tile in tiles]
        self.lists = [tile.T.tocsr() for tile in self.documents]

    def ways(self):
        return ["sparse x sparse", "sparse x dense"]

    def wait(self):
        pass

    def products(self, way):
        if way == "sparse x sparse":
            return [self.multiply(self.queries, tile) for tile in self.lists]
        return [self.multiply(tile, self.dense) for tile in self.documents]

    def nonzero(self, product, query):
        """The documents of a tile that share a term with a query, and their scores."""
        if self.sparse.issparse(product):
            own = slice(product.indptr[query], product.indptr[query + 1])
            return product.indices[own], product.data[own]
        documents = self.numpy.flatnonzero(product[:, query])
        return documents, product[documents, query]

    def best(self, products):
        """The best k scores of each query."""
        numpy, found = self.numpy, []
        for query in range(self.queries.shape[0]):
            scores = numpy.concatenate([self.nonzero(product, query)[1] for product in products])
            if len(scores) > self.k:
                scores = numpy.partition(scores, len(scores) - self.k)[-self.k :]
            found.append(numpy.sort(scores)[::-1])
        return found

    def equal(self, way, hits, scores):
        """The number of queries with the same documents, order and scores."""
        numpy, equal, products = self.numpy, 0, self.products(way)
        for query in range(self.queries.shape[0]):
            parts = [self.nonzero(product, query) for product in products]
            documents = numpy.concatenate([part[0].astype(numpy.int64) + first for part, first in zip(parts, self.first)])
            found = numpy.concatenate([part[1] for part in parts])
            best = numpy.lexsort((documents, -found))[: self.k]
            wanted = int((scores[query] > 0).sum())
            equal += len(best) == wanted and (documents[best] == hits[query][:wanted]).all() and (found[best] == scores[query][:wanted]).all()
        return int(equal)


class Mkl(OnCpu):
    def __init__(self):
        super().__init__()
        from importlib.metadata import files, version

        # The library of the `mkl` wheel is not on the linker's path.
        libraries = [file.locate() for file in files("mkl") or [] if file.name.startswith("libmkl_rt.so")]
        if libraries:
            os.environ.setdefault("MKL_RT", str(libraries[0]))
        import sparse_dot_mkl

        self.mkl = sparse_dot_mkl
        number = sparse_dot_mkl.get_version_string().split("Version ")[-1].split("-")[0]
        self.name = f"MKL {number} (sparse_dot_mkl {version('sparse_dot_mkl')})"

    def threads(self):
        return self.mkl.mkl_get_max_threads()

    def multiply(self, a, b):
        return self.mkl.dot_product_mkl(a, b)


class Scipy(OnCpu):
    def __init__(self):
        super().__init__()
        import scipy

        self.name = f"SciPy {scipy.__version__}"

    def threads(self):
        return 1

    def multiply(self, a, b):
        return a @ b


class OnGpu:
    def threads(self):
        return None

    def equal(self, way, hits, scores):
        """The number of queries with the same scores; libraries order equal scores as they like."""
        return int((self.best(self.products(way)) == scores).all(axis=1).sum())


class Cupy(OnGpu):
    def __init__(self):
        import cupy
        import cupyx.scipy.sparse as sparse

        cupy.cuda.runtime.getDeviceCount()
        self.cupy, self.sparse = cupy, sparse
        self.name = f"cuSPARSE (CuPy {cupy.__version__})"

    def load(self, tiles, queries, lists, k):
        cupy = self.cupy
        matrix = lambda tile: self.sparse.csr_matrix((cupy.asarray(tile[4]), cupy.asarray(tile[3]), cupy.asarray(tile[2])), shape=(tile[1], lists))
        self.tiles, self.k = [matrix(tile) for tile in tiles], k
        # cuSPARSE expects column-major order.
        self.dense = cupy.asfortranarray(cupy.asarray(densely(queries, lists)))
        self.queries = self.sparse.csr_matrix(self.dense)

    def ways(self):
        return ["sparse x dense", "sparse x sparse"]

    def wait(self):
        self.cupy.cuda.runtime.deviceSynchronize()

    def products(self, way):
        # One product at a time, since all of them together may not fit in the device's memory.
        right = self.dense if way == "sparse x dense" else self.queries
        return [self.taken(tile @ right) for tile in self.tiles]

    def taken(self, product):
        product = product.toarray() if self.sparse.issparse(product) else product
        return -self.cupy.sort(self.cupy.partition(-product, min(self.k, product.shape[0]) - 1, axis=0)[: self.k], axis=0)

    def best(self, products):
        return padded(self.cupy.asnumpy(self.taken(self.cupy.concatenate(products)).T), self.k)


class Torch(OnGpu):
    def __init__(self):
        import torch

        if not torch.cuda.is_available():
            raise RuntimeError("PyTorch does not find a GPU")
        self.torch = torch
        self.name = f"cuSPARSE (PyTorch {torch.__version__})"

    def load(self, tiles, queries, lists, k):
        torch = self.torch
        on = lambda array: torch.from_numpy(array.copy()).cuda()
        matrix = lambda tile: torch.sparse_csr_tensor(on(tile[2]), on(tile[3]), on(tile[4]), size=(tile[1], lists))
        self.tiles, self.k, self.dense = [matrix(tile) for tile in tiles], k, on(densely(queries, lists))

    def ways(self):
        return ["sparse x dense"]

    def wait(self):
        self.torch.cuda.synchronize()

    def products(self, way):
        # One row per query, so that topk reads contiguous memory.
        return [self.taken((tile @ self.dense).T.contiguous()) for tile in self.tiles]

    def taken(self, part):
        return self.torch.topk(part, min(self.k, part.shape[1]), dim=1).values

    def best(self, products):
        return padded(self.taken(self.torch.cat(products, dim=1)).cpu().numpy(), self.k)


def densely(queries, lists):
    """The matrix of lists and queries."""
    import numpy

    rows, columns, values = queries
    dense = numpy.zeros((lists, len(rows) - 1), dtype=numpy.float32)
    dense[columns, numpy.repeat(numpy.arange(len(rows) - 1), numpy.diff(rows))] = values
    return dense


def padded(found, k):
    """Pads the scores to k columns with zeros, for fewer than k documents."""
    import numpy

    return numpy.pad(found, ((0, 0), (0, k - found.shape[1])))


BACKENDS = {"mkl": Mkl, "scipy": Scipy, "cupy": Cupy, "torch": Torch}
INSTALL = {
    "mkl": "pip install numpy scipy sparse-dot-mkl mkl",
    "scipy": "pip install numpy scipy",
    "cupy": "pip install cupy-cuda12x, on a machine with a GPU",
    "torch": "pip install torch, on a machine with a GPU",
}

if __name__ == "__main__":
    sys.exit(main())
