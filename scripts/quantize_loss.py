#!/usr/bin/env python3
"""Measures the loss and the savings of `index --quantize`.

Prints the table of docs/measurements/quantize.md:

    cargo build --profile dist
    scripts/quantize_loss.py [target/dist/warpseek] [COLLECTION...]

A collection is a directory with corpus.jsonl, queries.tsv and qrels.tsv; the default is all
collections in ../shared/data/collections next to the repository. For each collection, the table
shows nDCG@10 and MAP of the exact and the quantized index according to `warpseek eval` (1000 hits
per query), the mean share of the exact top ten that is also in the quantized top ten, the number of
queries with the same top ten in the same order, and the size of the lists in KB (documents,
frequencies or impacts, skips and bounds).
"""

import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def warpseek(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], check=True, capture_output=True, text=True).stdout


def measure(collection, index, run, *options):
    warpseek("index", collection / "corpus.jsonl", "-o", index, "-q", *options)
    warpseek("run", index, "--queries", collection / "queries.tsv", "-k", 1000, "-o", run, "-q")
    report = warpseek("eval", "--qrels", collection / "qrels.tsv", "--run", run, "-m", "ndcg@10", "-m", "map", "--json")
    sizes = json.loads(warpseek("inspect", index, "--json"))["sizes"]
    return json.loads(report), sizes["payload"] + sizes["skips_and_bounds"], top_ten(run)


def top_ten(run):
    """Returns the first ten documents of each query, in order."""
    tops = {}
    for line in run.read_text().splitlines():
        query, _, document, rank, *_ = line.split()
        if int(rank) <= 10:
            tops.setdefault(query, []).append(document)
    return tops


def main():
    collections = [pathlib.Path(name) for name in sys.argv[2:]]
    collections = collections or sorted((ROOT / "../shared/data/collections").iterdir())
    print("| collection | queries | nDCG@10 | quantized | MAP | quantized | overlap@10 | same top ten | lists, KB | quantized |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    for collection in collections:
        with tempfile.TemporaryDirectory() as home:
            home = pathlib.Path(home)
            exact = measure(collection, home / "exact", home / "exact.trec")
            quantized = measure(collection, home / "quantized", home / "quantized.trec", "--quantize")
        shares, same = [], 0
        for query, documents in exact[2].items():
            others = quantized[2].get(query, [])
            shares.append(len(set(documents) & set(others)) / len(documents))
            same += documents == others
        # The means are in the order of the requested measures.
        figures = [f"{report['mean'][measure]:.4f}" for measure in (0, 1) for report in (exact[0], quantized[0])]
        sizes = [f"{size / 1000:,.0f}" for size in (exact[1], quantized[1])]
        overlap = f"{sum(shares) / len(shares):.4f}"
        print("|", " | ".join([collection.name, str(len(shares)), *figures, overlap, str(same), *sizes]), "|")


PROGRAM = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "target/dist/warpseek")

if __name__ == "__main__":
    main()
