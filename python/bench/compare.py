"""Measures the Python package in one run, beside the command line, bm25s and Pyserini.

All engines use the same corpora and queries. `cargo xtask python --bench --rfc CORPUS.jsonl`
creates a build of the profile `dist` and an environment with the other packages, and starts this
program. It prints tables, and writes JSON with `--json FILE`. Engines take turns, and each task
runs in a separate process. Rates are the best of several passes for every engine, ratios the median
of rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import engines

HERE = pathlib.Path(__file__).resolve().parent
SHARED = HERE.parents[2] / "shared" / "data"
ENGINES = ("warpseek", "bm25s", "pyserini")
NEEDS = {"bm25s": ("bm25s", "numba", "Stemmer"), "pyserini": ("pyserini", "jnius")}


def worker(task: str, **options: Any) -> dict[str, Any]:
    """Returns the output of a separate process, or `error` if it has failed."""
    flags: list[str] = []
    for name, value in options.items():
        flags += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    done = subprocess.run([sys.executable, HERE / "engines.py", task, *flags], capture_output=True, text=True)
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        last = done.stderr.strip().splitlines()[-1:] or ["it printed nothing"]
        return {"error": last[0][:200]}
    told: dict[str, Any] = json.loads(lines[-1])
    return told


def table(head: list[str], rows: list[list[str]]) -> None:
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(flush=True)


def note(text: str) -> None:
    print(f"... {text}", file=sys.stderr, flush=True)


class Corpus:
    """A file of documents with queries, in the formats that the engines read."""

    def __init__(self, name: str, file: pathlib.Path, queries: list[tuple[str, str]], folder: pathlib.Path, limit: int | None):
        self.name, self.folder = name, folder / name
        (self.folder / "anserini").mkdir(parents=True)
        self.file, self.contents = self.folder / "corpus.jsonl", self.folder / "anserini" / "corpus.jsonl"
        with open(file, encoding="utf-8") as lines, open(self.file, "w", encoding="utf-8") as plain:
            with open(self.contents, "w", encoding="utf-8") as contents:
                for number, line in enumerate(lines):
                    if number == limit:
                        break
                    plain.write(line)
                    document = json.loads(line)
                    contents.write(json.dumps({"id": document["id"], "contents": document["title"] + " " + document["text"]}) + "\n")
        self.queries = self.folder / "queries.tsv"
        self.queries.write_text("".join(f"{id}\t{text}\n" for id, text in queries), encoding="utf-8")

    def input(self, engine: str) -> pathlib.Path:
        return self.contents if engine == "pyserini" else self.file


def installed(engine: str) -> bool:
    import importlib.util

    return all(importlib.util.find_spec(name) is not None for name in NEEDS.get(engine, ()))


def peers(corpora: list[Corpus], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Measures every engine on every corpus with one and two threads: index time, query time and
    memory.
    """
    cells = []
    for corpus in corpora:
        once: dict[str, dict[str, Any]] = {}
        for threads in options.threads:
            for engine in options.engines:
                note(f"{corpus.name}, {engine}, {threads} threads")
                cell: dict[str, Any] = {"corpus": corpus.name, "engine": engine, "threads": threads}
                index = corpus.folder / (engine if engine == "bm25s" else f"{engine}-{threads}")
                built = once.get(engine) or worker(
                    "build", engine=engine, corpus=corpus.input(engine), index=index, threads=threads
                )
                if engine == "bm25s":
                    # It indexes with one thread, whatever number is requested.
                    once[engine] = built
                if "error" in built:
                    cells.append({**cell, "error": built["error"]})
                    continue
                run = corpus.folder / f"{engine}-{threads}.json"
                found = worker("search", engine=engine, index=index, queries=corpus.queries, threads=threads, passes=options.passes, run=run)
                if engine == "pyserini":
                    shutil.rmtree(index)
                cell["index_seconds"], cell["index_mebibytes"] = built["seconds"], built["mebibytes"]
                cell["index_bytes"] = built["bytes"]
                if "error" in found:
                    cell["error"] = found["error"]
                else:
                    cell["queries_per_second"] = found["queries"] / found["seconds"]
                    cell["query_mebibytes"], cell["run"] = found["mebibytes"], str(run)
                cells.append(cell)
    return cells


def show_peers(cells: list[dict[str, Any]]) -> None:
    measures = [
        ("index_seconds", "index, s", "{:.1f}", False),
        ("queries_per_second", "queries/s", "{:,.0f}", True),
        ("index_mebibytes", "memory of indexing, MiB", "{:,.0f}", False),
        ("query_mebibytes", "memory of searching, MiB", "{:,.0f}", False),
        ("ndcg@10", "nDCG@10", "{:.4f}", True),
    ]
    ours = {(cell["corpus"], cell["threads"]): cell for cell in cells if cell["engine"] == "warpseek"}
    rows = []
    for cell in cells:
        row = [cell["corpus"], str(cell["threads"]), cell["engine"]]
        for name, _, form, more_is_better in measures:
            if name not in cell:
                row.append(cell.get("error", "") if name == "index_seconds" else "")
                continue
            text = form.format(cell[name])
            our = ours.get((cell["corpus"], cell["threads"]), {}).get(name)
            if our and cell["engine"] != "warpseek" and name != "ndcg@10":
                times = our / cell[name] if more_is_better else cell[name] / our
                text += f" ({times:.1f} x)"
            row.append(text)
        rows.append(row)
    table(["corpus", "threads", "engine", *(title for _, title, _, _ in measures)], rows)


def judge(cells: list[dict[str, Any]], qrels: pathlib.Path) -> None:
    import warpseek

    for cell in cells:
        if cell["corpus"] == "scifact" and "run" in cell:
            run = json.loads(pathlib.Path(cell["run"]).read_text(encoding="utf-8"))
            cell["ndcg@10"] = warpseek.evaluate(run, str(qrels), ["ndcg@10"])["ndcg@10"]
        cell.pop("run", None)


def command_line(corpus: Corpus, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Measures search_many beside `warpseek run` in turns, each in a new process."""
    asked = corpus.folder / "many.tsv"
    asked.write_text("".join(f"{i}\t{text}\n" for i, text in enumerate(many_queries(10_000))), encoding="utf-8")
    rows = []
    for threads in options.threads:
        index = corpus.folder / f"warpseek-{threads}"
        rounds = []
        for number in range(options.rounds):
            note(f"warpseek run and search_many, {threads} threads, round {number + 1}")
            command = [options.program, "run", index, "--queries", asked, "-k", "10", "--threads", str(threads)]
            command += ["--device", options.device, "-o", corpus.folder / "out.trec"]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            rate = re.search(r"\(([\d,]+)/s\)", done.stderr)
            assert rate, done.stderr
            of_run = float(rate[1].replace(",", ""))
            common = {"index": index, "queries": asked, "threads": threads, "device": options.device}
            list_, arrow = worker("first", **common), worker("first", **common, arrow=True)
            for told in (list_, arrow):
                assert "error" not in told, told
            rounds.append(
                {
                    "run": of_run,
                    "list": list_["queries"] / list_["first"],
                    "list_again": list_["queries"] / list_["again"],
                    "arrow": arrow["queries"] / arrow["first"],
                    "arrow_again": arrow["queries"] / arrow["again"],
                }
            )
        row: dict[str, Any] = {"corpus": corpus.name, "threads": threads, "rounds": rounds}
        for name in rounds[0]:
            row[name] = statistics.median(figures[name] for figures in rounds)
        row["ratio"] = statistics.median(figures["list"] / figures["run"] for figures in rounds)
        row["arrow_ratio"] = statistics.median(figures["arrow"] / figures["run"] for figures in rounds)
        rows.append(row)
    shown = [
        [r["corpus"], str(r["threads"]), *(f"{r[name]:,.0f}" for name in rounds[0]), f"{r['ratio']:.0%}", f"{r['arrow_ratio']:.0%}"]
        for r in rows
    ]
    head = ["corpus", "threads", "`warpseek run`, q/s", "search_many of a list", "again", "Arrow to Arrow", "again", "list / run", "Arrow / run"]
    table(head, shown)
    return rows


def many_queries(number: int) -> list[str]:
    """Measures queries of real logs, and then such queries with a word of another one added."""
    lines = log_queries()
    queries = list(lines)
    step = 1
    while len(queries) < number:
        others = lines[step:] + lines[:step]
        queries += [f"{line} {other.split()[0]}" for line, other in zip(lines, others)]
        step += 7
    return queries[:number]


def log_queries() -> list[str]:
    files = sorted((SHARED / "queries").glob("*.txt"))
    lines = [line.strip() for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line]


def of_dicts(corpus: Corpus, options: argparse.Namespace) -> dict[str, Any]:
    """Measures building from a file, from dicts, and from a generator, in turns."""
    rates: dict[str, list[float]] = {"file": [], "list": [], "generator": []}
    part = corpus.folder / "part.jsonl"
    with open(corpus.file, encoding="utf-8") as lines, open(part, "w", encoding="utf-8") as out:
        for number, line in enumerate(lines):
            if number == options.dicts:
                break
            out.write(line)
    for number in range(options.rounds):
        for source, of_source in rates.items():
            note(f"a build from a {source}, round {number + 1}")
            built = worker("dicts", source=source, corpus=part, index=corpus.folder / "dicts")
            assert "error" not in built, built
            of_source.append(built["documents"] / built["seconds"])
    told: dict[str, Any] = {name: statistics.median(passes) for name, passes in rates.items()}
    told["list_ratio"] = statistics.median(a / b for a, b in zip(rates["list"], rates["file"]))
    told["generator_ratio"] = statistics.median(a / b for a, b in zip(rates["generator"], rates["file"]))
    shown = [f"{told[name]:,.0f}" for name in rates] + [f"{told['list_ratio']:.0%}", f"{told['generator_ratio']:.0%}"]
    table(["file, documents/s", "list of dicts", "generator that reads JSON", "list / file", "generator / file"], [shown])
    return told


def of_adapter(options: argparse.Namespace, root: pathlib.Path) -> dict[str, Any]:
    """Measures `warpseek.bm25s` beside bm25s and our own API, on the small collections."""
    told: dict[str, Any] = {}
    rows = []
    for folder in sorted((SHARED / "collections").iterdir()):
        for threads in options.threads:
            note(f"{folder.name}, tokens, {threads} threads")
            index = root / f"adapter-{folder.name}-{threads}"
            times = worker("adapter", corpus=folder / "corpus.jsonl", queries=folder / "queries.tsv", index=index, threads=threads, passes=30)
            told[f"{folder.name} {threads}"] = times
            best = [f"{least:.1f} / {middle:.1f}" for name in ("bm25s", "warpseek.bm25s", "search_many") for least, middle in [times[name]]] if "error" not in times else [times["error"]]
            rows.append([folder.name, str(threads), *best])
    table(["collection", "threads", "bm25s, ms", "warpseek.bm25s", "search_many"], rows)
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rfc", type=pathlib.Path, help="the corpus that shared/corpora/rfc.sh makes; without it, scifact alone")
    parser.add_argument("--limit", type=int, help="documents of rfc to use at most")
    parser.add_argument("--dicts", type=int, default=200_000, help="documents of the builds from dicts")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--parts", nargs="+", choices=["peers", "run", "dicts", "adapter"], default=["peers", "run", "dicts"])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--program", default=os.environ.get("WARPSEEK_PROGRAM", "warpseek"), help="the command line")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    for engine in [engine for engine in options.engines if not installed(engine)]:
        print(f"{engine} is not installed and is left out")
        options.engines.remove(engine)
    if "pyserini" in options.engines and not engines.has_vectors():
        print(f"the Java of Pyserini has no module {engines.VECTORS}, so Lucene's vector code is off; give a JDK in JAVA_HOME")
    start, load = time.time(), os.getloadavg()[0]
    told: dict[str, Any] = {"cores": os.cpu_count()}
    with tempfile.TemporaryDirectory(prefix="warpseek-bench-") as folder:
        scifact = SHARED / "collections" / "scifact"
        pairs = [line.split("\t", 1) for line in (scifact / "queries.tsv").read_text(encoding="utf-8").splitlines()]
        root = pathlib.Path(folder)
        corpora = [Corpus("scifact", scifact / "corpus.jsonl", [(id, text) for id, text in pairs], root, None)]
        if options.rfc:
            asked = [(str(i), text) for i, text in enumerate(log_queries())]
            corpora.append(Corpus("rfc", options.rfc, asked, root, options.limit))
        if "peers" in options.parts:
            told["peers"] = peers(corpora, options)
            judge(told["peers"], scifact / "qrels.tsv")
            show_peers(told["peers"])
        else:
            for corpus in corpora:
                for threads in options.threads:
                    worker("build", corpus=corpus.file, index=corpus.folder / f"warpseek-{threads}", threads=threads)
        if "run" in options.parts:
            told["run"] = command_line(corpora[-1], options)
        if "dicts" in options.parts:
            told["dicts"] = of_dicts(corpora[-1], options)
        if "adapter" in options.parts:
            told["adapter"] = of_adapter(options, root)
    told["seconds"], told["load"] = time.time() - start, [load, os.getloadavg()[0]]
    print(f"{os.cpu_count()} cores; load average {load:.1f} before and {told['load'][1]:.1f} after {told['seconds']:.0f} s")
    if options.json:
        options.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
