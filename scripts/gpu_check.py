#!/usr/bin/env python3
"""Checks the GPU code on a machine with a GPU. Needs only Python 3.

  gpu_check.py equal --warpseek PATH --data FOLDER [--work FOLDER] [--random N] [--big N]
                     [--algorithm NAME]
      Builds indexes of every collection in FOLDER/collections and of generated ones, some with
      several segments, deletions, another document order or quantized impacts. The queries are
      those of the collections, the logs in FOLDER/queries and N random ones per index, in the modes
      or, and, and-or, with k from 1 to 1000. Runs on the GPU and on the CPU are compared byte by
      byte.

  gpu_check.py sanitize --tests PATH [--sanitizer PATH] [--tools memcheck,racecheck] [--parts N]
      Runs the conformance suite (PATH: target/gpu-tests/conformance from `cargo xtask gpu-tests`)
      under compute-sanitizer, in parts that must each finish within 60 seconds.

Both commands print a table and, as the last line, JSON. The exit code is 1 if runs differ, if the
sanitizer reports an error, or if a part does not finish.
"""
import argparse
import collections
import filecmp
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CELLS = [("or", 1), ("or", 10), ("or", 100), ("or", 1000), ("and", 10), ("and", 1000), ("and-or", 10), ("and-or", 100)]
# With a thousand hits per query, run files are large.
MANY_HITS_QUERIES = 1500
LIMIT = 60


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True, dest="verb")
    equal = verbs.add_parser("equal")
    equal.add_argument("--warpseek", required=True)
    equal.add_argument("--data", required=True, type=Path)
    equal.add_argument("--work", type=Path, help="folder for indexes and runs [default: a temporary one]")
    equal.add_argument("--random", type=int, default=4000, help="number of random queries per index [default: 4000]")
    equal.add_argument("--big", type=int, default=2_000_000, help="number of documents in the largest index [default: 2000000]")
    equal.add_argument("--algorithm", default="auto", help="algorithm for the GPU, such as cohort [default: auto]")
    equal.add_argument("--device", default="cuda", help=argparse.SUPPRESS)
    sanitize = verbs.add_parser("sanitize")
    sanitize.add_argument("--tests", required=True)
    sanitize.add_argument("--sanitizer", default="compute-sanitizer")
    sanitize.add_argument("--tools", default="memcheck,racecheck")
    sanitize.add_argument("--parts", type=int, default=8)
    options = parser.parse_args()
    if options.verb == "sanitize":
        return check_sanitize(options)
    with tempfile.TemporaryDirectory() as folder:
        options.work = options.work or Path(folder)
        options.work.mkdir(parents=True, exist_ok=True)
        return check_equal(options)


def check_equal(options):
    done, differ, start = 0, [], time.time()
    print(f"{'index':<24} {'mode':<7} {'k':>5} {'queries':>8} {'lines':>10} {'GPU s':>7} {'CPU s':>7}", flush=True)
    for name, index, queries in indexes(options):
        few = options.work / "few.tsv"
        few.write_text("".join(queries.read_text().splitlines(keepends=True)[::-1][:MANY_HITS_QUERIES]))
        for mode, k in CELLS:
            file = few if k >= 1000 else queries
            count = sum(1 for _ in file.open())
            times, runs = [], []
            for device in (options.device, "cpu"):
                run = options.work / f"{len(runs)}.trec"
                begin = time.time()
                warpseek(options, "run", index, "--queries", file, "-k", k, "--mode", mode, "--device", device, "--algorithm", "auto" if device == "cpu" else options.algorithm, "-o", run, "-q")
                times.append(time.time() - begin)
                runs.append(run)
            same = filecmp.cmp(*runs, shallow=False)
            lines = sum(block.count(b"\n") for block in iter(lambda f=runs[0].open("rb"): f.read(1 << 22), b""))
            done += count
            note = "" if same else f"  DIFFERENT: {first_difference(*runs)}"
            print(f"{name:<24} {mode:<7} {k:>5} {count:>8} {lines:>10} {times[0]:>7.2f} {times[1]:>7.2f}{note}", flush=True)
            if not same:
                differ.append({"index": name, "mode": mode, "k": k})
    seconds = round(time.time() - start, 1)
    print(json.dumps({"check": "equal", "queries": done, "different": differ, "seconds": seconds}))
    return 1 if differ or done == 0 else 0


def indexes(options):
    """Yields the name, directory and file of queries of each index."""
    logs = [line.split("\t")[-1] for log in sorted((options.data / "queries").glob("*.txt")) for line in read_lines(log)]
    corpora = sorted((options.data / "collections").iterdir())
    for folder in corpora:
        corpus, own = folder / "corpus.jsonl", [line.split("\t")[-1] for line in read_lines(folder / "queries.tsv")]
        queries = write_queries(options, own + logs + random_queries(corpus, options.random))
        variants = {"": []}
        if folder == corpora[-1]:
            variants |= {" reordered": ["--reorder"], " rice": ["--codec", "rice"], " quantized": ["--quantize"]}
        for variant, flags in variants.items():
            index = build(options, corpus, *flags)
            yield folder.name + variant, index, queries
        # Three segments, the first with deletions.
        parts = split(options, corpus, 3)
        index = build(options, parts[0])
        for part in parts[1:]:
            warpseek(options, "add", index, part, "-q")
        ids = [json.loads(line)["id"] for line in read_lines(parts[0])][::3]
        (options.work / "ids").write_text("\n".join(ids) + "\n")
        warpseek(options, "delete", index, "--ids", options.work / "ids", "-q")
        yield folder.name + " updated", index, queries
    corpus = options.work / "text.jsonl"
    warpseek(options, "synth", "--docs", 100_000, "--mu", 4, "-o", corpus, "-q")
    texts = random_queries(corpus, options.random)
    yield "text, 100,000", build(options, corpus), write_queries(options, logs + texts)
    index = options.work / "lists"
    warpseek(options, "synth", "--postings", "--docs", options.big, "--queries", options.random, "--overwrite", "-o", index, "-q")
    yield f"lists, {options.big:,}", index, Path(f"{index}.queries.tsv")


def build(options, corpus, *flags):
    index = options.work / "index"
    warpseek(options, "index", corpus, "-o", index, "--overwrite", "-q", *flags)
    return index


def split(options, corpus, parts):
    lines, files = corpus.read_text().splitlines(keepends=True), []
    for part in range(parts):
        file = options.work / f"part{part}.jsonl"
        file.write_text("".join(lines[part::parts]))
        files.append(file)
    return files


def write_queries(options, texts):
    file = options.work / "queries.tsv"
    file.write_text("".join(f"{number}\t{text}\n" for number, text in enumerate(texts, 1)))
    return file


def random_queries(corpus, count):
    """Returns queries of one to eight words, rarely forty.

    Half of the words are drawn from the text and therefore frequent, half from the vocabulary and
    therefore rare. Some words have weights.
    """
    draw = random.Random(7)
    words = collections.Counter()
    for line in read_lines(corpus):
        document = json.loads(line)
        words.update(re.findall(r"[a-z0-9]+", f"{document.get('title', '')} {document.get('text', '')}".lower()))
    vocabulary, counts = list(words), list(words.values())
    often = draw.choices(vocabulary, counts, k=8 * count)
    queries = []
    for _ in range(count):
        length = 40 if draw.random() < 0.01 else draw.randint(1, 8)
        terms = [draw.choice(often if draw.random() < 0.5 else vocabulary) for _ in range(length)]
        weighted = [f"{term}^{draw.choice((0.1, 2, 3.5, 1000))}" if draw.random() < 0.05 else term for term in terms]
        queries.append(" ".join(weighted))
    return queries


def read_lines(path):
    with path.open(encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file if line.strip()]


def first_difference(one, two):
    with one.open() as a, two.open() as b:
        for number, (left, right) in enumerate(zip(a, b), 1):
            if left != right:
                return f"line {number}: `{left.strip()}` and `{right.strip()}`"
    return "one of them has more lines"


def warpseek(options, *args):
    command = [options.warpseek, *map(str, args)]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode != 0:
        sys.exit(f"{' '.join(command)[:300]}\nexited with {ended.returncode}: {ended.stderr}")


def check_sanitize(options):
    pieces = [(case, f"{i}/{options.parts}") for case in ("fixed_cases", "random_cases") for i in range(1, options.parts + 1)]
    failed = []
    print(f"{'tool':<10} {'cases':<14} {'part':<6} {'s':>5}  outcome", flush=True)
    for tool in options.tools.split(","):
        for case, part in pieces:
            # API errors are not reported, because tests of failures provoke them.
            command = [options.sanitizer, "--tool", tool, "--report-api-errors", "no", "--error-exitcode", "99", options.tests, case]
            environment = dict(os.environ, WARPSEEK_TEST_DEVICE="cuda", WARPSEEK_TEST_PART=part)
            start = time.time()
            try:
                ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT)
                output = ended.stdout + ended.stderr
                summary = [line.strip("= ") for line in output.splitlines() if "SUMMARY" in line]
                ran = re.search(r"test result: ok\. [1-9]\d* passed", output)
                good = ended.returncode == 0 and ran is not None
                outcome = "; ".join(summary) or output.strip()[-300:]
            except subprocess.TimeoutExpired:
                good, outcome = False, f"did not finish within {LIMIT} s; use more --parts"
            if not good:
                failed.append({"tool": tool, "cases": case, "part": part, "outcome": outcome})
            print(f"{tool:<10} {case:<14} {part:<6} {time.time() - start:>5.1f}  {'' if good else 'FAILED '}{outcome}", flush=True)
    print(json.dumps({"check": "sanitize", "pieces": len(pieces) * len(options.tools.split(',')), "failed": failed}))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
