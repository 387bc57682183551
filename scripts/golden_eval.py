#!/usr/bin/env python3
"""Generates the expected figures for the tests of crates/eval with trec_eval itself.

Needs pytrec_eval, which wraps trec_eval 9:

    python3 -m venv VENV
    VENV/bin/pip install pytrec_eval || VENV/bin/pip install pytrec-eval-terrier

(The second one is the maintained fork with prebuilt wheels and the same module name.)

    golden_eval.py synthetic           crates/eval/tests/golden/synthetic.{qrels,run,json}
    golden_eval.py collections         crates/eval/tests/golden/collections.json
    golden_eval.py run QRELS RUN       print the figures of any run as JSON

`synthetic` generates a small case from a fixed seed. `collections` writes only figures, since the
shared collections (../shared/data/collections next to the repository) must not be copied: the run
is a pseudo-run computed from the judgements by `pseudo_run` below, and crates/eval/tests/golden.rs
computes the same run by the same rule. `run` is for runs of the engine.

Rerun the first two only if the cases change; the files are committed.
"""

import argparse
import json
import pathlib
import random
import struct
import sys

import pytrec_eval

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "crates" / "eval" / "tests" / "golden"
COLLECTIONS = ROOT.parent / "shared" / "data" / "collections"

CUTOFFS = (1, 3, 10, 100)
# Maps our names to the names in trec_eval's requests and results.
PLAIN = {
    "ndcg": "ndcg",
    "map": "map",
    "mrr": "recip_rank",
    "rprec": "Rprec",
    "num_ret": "num_ret",
    "num_rel": "num_rel",
    "num_rel_ret": "num_rel_ret",
}
CUT = {"ndcg": "ndcg_cut", "map": "map_cut", "recall": "recall", "p": "P", "success": "success"}
SUMMED = ("num_ret", "num_rel", "num_rel_ret")


def as_f32(score):
    """Returns the score as trec_eval 9 stores it."""
    return struct.unpack("f", struct.pack("f", score))[0]


def truncated(run, k):
    """Returns the first k hits of each query in trec_eval's order."""
    out = {}
    for qid, hits in run.items():
        order = sorted(hits.items(), key=lambda hit: (as_f32(hit[1]), hit[0].encode()), reverse=True)
        out[qid] = dict(order[:k])
    return out


def per_query(qrels, run):
    """Returns figures by our measure names, for each query in both the judgements and the run."""
    cuts = ",".join(map(str, CUTOFFS))
    requests = set(PLAIN.values()) | {f"{name}.{cuts}" for name in CUT.values()}
    answer = pytrec_eval.RelevanceEvaluator(qrels, requests).evaluate(run)
    figures = {}
    for qid, values in answer.items():
        row = {ours: values[theirs] for ours, theirs in PLAIN.items()}
        for ours, theirs in CUT.items():
            row.update({f"{ours}@{k}": values[f"{theirs}_{k}"] for k in CUTOFFS})
        figures[qid] = row
    # trec_eval has no cutoff for recip_rank, so cut the run instead.
    for k in CUTOFFS:
        first = pytrec_eval.RelevanceEvaluator(qrels, {"recip_rank"}).evaluate(truncated(run, k))
        for qid, row in figures.items():
            row[f"mrr@{k}"] = first[qid]["recip_rank"]
    return figures


def means(figures, queries):
    """Returns sums over the queries, divided by their number where trec_eval does so."""
    names = sorted(next(iter(figures.values())))
    sums = {name: sum(figures[qid][name] for qid in sorted(figures)) for name in names}
    return {name: value if name in SUMMED else value / queries for name, value in sums.items()}


def expected(qrels, run):
    figures = per_query(qrels, run)
    return {
        "queries": len(figures),
        "mean": means(figures, len(figures)),
        # trec_eval -c divides by the number of all judged queries; missing ones add 0.
        "queries_complete": len(qrels),
        "mean_complete": means(figures, len(qrels)),
        "per_query": {qid: dict(sorted(figures[qid].items())) for qid in sorted(figures)},
    }


def read_qrels(path):
    qrels = {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            columns = line.split()
            if not columns or columns[-1].lower() == "score":
                continue
            qrels.setdefault(columns[0], {})[columns[-2]] = int(columns[-1])
    return qrels


def read_run(path):
    run = {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                qid, _, docid, _, score, _ = line.split()
                run.setdefault(qid, {})[docid] = float(score)
    return run


def fnv1a(text):
    """Returns the 64-bit FNV-1a hash."""
    state = 0xCBF29CE484222325
    for byte in text.encode():
        state = (state ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return state


def pseudo_run(qrels):
    """Computes a run only from judgements. tests/golden.rs implements the same rule.

    About one query in eleven is missing. A query finds four in five of its judged documents and
    one in sixteen of all other documents in the file; with only a hundred different scores there
    are many ties.
    """
    documents = sorted({docid for judged in qrels.values() for docid in judged})
    run = {}
    for qid, judged in qrels.items():
        if fnv1a(qid) % 11 == 0:
            continue
        hits = {}
        for docid in documents:
            state = fnv1a(f"{qid} {docid}")
            found = state % 5 != 0 if docid in judged else (state >> 32) % 16 == 0
            if found:
                hits[docid] = (state >> 8) % 100 / 7
        if hits:
            run[qid] = hits
    return run


def synthetic_case(rng):
    """Generates judgements and a run that cover the edge cases.

    There are graded and negative judgements, ties (some only in single precision), unjudged hits,
    ids whose byte order differs from their numeric order, and queries with only judgements or only
    hits.
    """
    documents = [f"d{n}" for n in range(60)] + ["é1", "é2", "Z", "a-b", "a.b", "日本"]
    qrels, run = {}, {}
    for number in range(1, 41):
        qid = f"q{number}"
        if number % 13 == 0:
            grades = [0]  # nothing relevant
        elif number % 3 == 0:
            grades = [0, 1]
        else:
            grades = [-2, -1, 0, 0, 1, 1, 2, 3, 7]
        judged = {docid: rng.choice(grades) for docid in rng.sample(documents, rng.randint(1, 30))}
        # trec_eval reads out of bounds when all grades are negative.
        judged.setdefault("d0", 0)
        if number % 10 != 0:
            qrels[qid] = judged
        if number % 7 == 0:
            continue  # a query without hits
        hits = {}
        for docid in rng.sample(documents, rng.randint(1, len(documents))):
            kind = rng.randrange(4)
            if kind == 0:
                score = rng.randint(-3, 8)
            elif kind == 1:
                score = rng.randint(-3, 8) + rng.randint(-4, 4) * 1e-9
            elif kind == 2:
                score = rng.randint(1, 5) * 0.1 + rng.randint(0, 3) * 1e-7
            else:
                score = rng.uniform(-5, 10)
            hits[docid] = score
        run[qid] = hits
    return qrels, run


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def synthetic():
    rng = random.Random(20240607)
    qrels, run = synthetic_case(rng)
    GOLDEN.mkdir(parents=True, exist_ok=True)
    with open(GOLDEN / "synthetic.qrels", "w", encoding="utf-8") as out:
        for qid, judged in qrels.items():
            for docid, grade in judged.items():
                out.write(f"{qid} 0 {docid} {grade}\n")
    lines = [(qid, docid, score) for qid, hits in run.items() for docid, score in hits.items()]
    rng.shuffle(lines)  # results must not depend on the order of lines or the rank column
    with open(GOLDEN / "synthetic.run", "w", encoding="utf-8") as out:
        for qid, docid, score in lines:
            out.write(f"{qid} Q0 {docid} {rng.randint(1, 99)} {score!r} golden\n")
    written = expected(
        read_qrels(GOLDEN / "synthetic.qrels"), read_run(GOLDEN / "synthetic.run")
    )
    write_json(GOLDEN / "synthetic.json", written)


def collections():
    paths = sorted(COLLECTIONS.glob("*/qrels.tsv"))
    if not paths:
        sys.exit(f"no collections in {COLLECTIONS}")
    figures = {}
    for path in paths:
        qrels = read_qrels(path)
        result = expected(qrels, pseudo_run(qrels))
        del result["per_query"]  # keep only figures, no ids of the collection
        figures[path.parent.name] = result
    write_json(GOLDEN / "collections.json", figures)


def main():
    parser = argparse.ArgumentParser(description="generates expected figures for crates/eval with trec_eval")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("synthetic", help="write the synthetic case and its figures")
    verbs.add_parser("collections", help="write the figures of the shared collections' pseudo-runs")
    run = verbs.add_parser("run", help="print the figures of a run")
    run.add_argument("qrels")
    run.add_argument("run")
    arguments = parser.parse_args()
    if arguments.verb == "synthetic":
        synthetic()
    elif arguments.verb == "collections":
        collections()
    else:
        result = expected(read_qrels(arguments.qrels), read_run(arguments.run))
        json.dump(result, sys.stdout, indent=1, ensure_ascii=False)
        print()


if __name__ == "__main__":
    main()
