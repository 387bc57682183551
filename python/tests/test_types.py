"""Programs that use the package are checked by mypy: correct ones pass, and each wrong line of the
others is an error.
"""

import os
import pathlib
import subprocess
import sys
import typing

import pytest

import warpseek
from warpseek import _arguments

RIGHT = """
import pathlib
import warpseek
from warpseek.bm25s import BM25
from warpseek.pyserini import LuceneSearcher

index = warpseek.Index.build(
    [{"id": "a", "text": "apple"}], pathlib.Path("x"), analyzer="plain", codec="pfor", store="ids", on_error="skip", schema=pathlib.Path("s"),
    build_device="auto", ngram_unit="word", format="jsonl", device="auto", threads=2, ranking="okapi", k1=1, gpus=[0],
)
index = warpseek.Index.open("x", device="both", split="queries", algorithm="block-max-wand", mmap=False)
ids: list[str] = index.search("apple", 5, mode="and-or", sort=["-year", "_score"], facets={"tag": 10, "year": [(2000, None)]}).ids
index.search_many(["apple"], on_error="skip", ranking="cosine", deadline=0.5).run()
index.explain({"apple": 1.0}, "a", mode="and")
index.ngram_search("apple", misses="25%", errors=None)
warpseek.names("codec")
BM25(method="robertson").retrieve([["apple"]], return_as="documents")
LuceneSearcher("x", device="cpu")
try:
    index.commit()
except warpseek.Error as error:
    print(error.kind)
"""

#: Lines each of which must be an error.
WRONG = """
warpseek.Index.open("x", devcie="cpu")
warpseek.Index.open("x", device="gpu")
warpseek.Index.open("x", "cpu")
warpseek.Index.open("x", split="words")
warpseek.Index.open("x", algorithm="magic")
warpseek.Index.open("x", threads="2")
warpseek.Index.open(5)
warpseek.Index.build(["x"], devcie="cpu")
warpseek.Index.build(["x"], device="gpu")
warpseek.Index.build(["x"], analyzer="englsh")
warpseek.Index.build(["x"], codec="zip")
warpseek.Index.build(["x"], store="none")
warpseek.Index.build(["x"], on_error="ignore")
warpseek.Index.build(["x"], format="xml")
warpseek.Index.build(["x"], ngram_unit="line")
warpseek.Index.build(["x"], build_device="both")
warpseek.Index.build(["x"], quantize=(0.9,))
index.search("x", mode="AND")
index.search("x", k=10.0)
index.search("x", k="10")
index.search("x", ranking="bm26")
index.search("x", facets={"tag": "x"})
index.search("x", filtre="y")
index.search(5)
index.search_many(["x"], mode="AND")
index.search_many(["x"], on_error="stop")
index.explain("x", "a", mode="AND")
index.explain("x", "a", mdoe="and")
index.ngram_search("x", misses=0.25)
warpseek.names("codecs")
warpseek.evaluate({}, {}, complte=True)
BM25(method="bm25l")
BM25().retrieve([["x"]], return_as="list")
LuceneSearcher("x", devcie="cpu")
"""


def mypy(folder: pathlib.Path, program: str) -> "tuple[int, list[str]]":
    pytest.importorskip("mypy")
    file = folder / "program.py"
    file.write_text(program)
    # Like a package that is installed with its py.typed.
    package = pathlib.Path(warpseek.__file__).parent
    assert (package / "py.typed").exists()
    env = {**os.environ, "MYPYPATH": str(package.parent)}
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports", "silent", "--no-error-summary", "--cache-dir", str(folder / "cache"), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=folder)
    said = done.stdout + done.stderr
    return done.returncode, [line for line in said.splitlines() if "program.py:" in line or "error" in line]


def test_right_programs_pass(tmp_path):
    assert mypy(tmp_path, RIGHT) == (0, [])


def test_every_wrong_line_is_an_error(tmp_path):
    lines = WRONG.strip().splitlines()
    status, said = mypy(tmp_path, RIGHT + "\n".join(lines) + "\n")
    first = RIGHT.count("\n") + 1
    wrong = {int(line.split(":")[1]) for line in said if ": error: " in line}
    missed = [line for number, line in enumerate(lines, first) if number not in wrong]
    assert status == 1 and missed == []
    assert min(wrong) >= first, said


@pytest.mark.parametrize(
    "option, names",
    [
        ("analyzer", _arguments.AnalyzerName),
        ("codec", _arguments.CodecName),
        ("format", _arguments.FormatName),
        ("mode", _arguments.Mode),
        ("ranking", _arguments.RankingName),
    ],
)
def test_types_have_the_names_of_the_library(option, names):
    assert list(typing.get_args(names)) == warpseek.names(option)


def test_types_have_the_names_of_algorithms():
    of_ngrams = ["baseline", "bins", "counting"]
    assert list(typing.get_args(_arguments.Algorithm)) == warpseek.names("algorithm") + of_ngrams
    assert all(warpseek.names(option) for option in typing.get_args(_arguments.OptionName))


def test_help_begins_with_what_one_begins_with():
    import pydoc

    text = pydoc.plain(pydoc.render_doc(warpseek))
    places = [text.index(part) for part in ("Index.build(source, path)", "CLASSES", "class Index(")]
    assert places == sorted(places)
    assert "class QueryError" not in text and "help(warpseek.errors)" in text
