"""Invalid arguments cause a Python exception or an answer, and never a panic or an abort."""

import os
import random
import subprocess
import sys

import numpy as np
import pytest

import warpseek
from warpseek import Index

#: Exceptions that a wrong argument may raise. A Rust panic is none of these.
REFUSALS = (warpseek.Error, TypeError, ValueError, OverflowError, KeyError, AttributeError)

NAN, INF = float("nan"), float("inf")


class Strange:
    """An object without any expected attribute."""


class Raising:
    """Raises its own exception in every method."""

    def __iter__(self):
        raise LookupError("mine")

    def __getattr__(self, name):
        raise AttributeError(name)


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    documents = [{"id": str(i), "title": f"t{i}", "text": f"apple pie {i}", "year": 2000 + i} for i in range(50)]
    schema = {"text": [{"name": "title"}, {"name": "text"}], "attributes": [{"name": "year", "type": "integer"}]}
    return Index.build(documents, tmp_path_factory.mktemp("hostile") / "index", schema=schema)


def test_numbers_of_hits(index):
    assert len(index.search("apple", 0)) == 0
    assert len(index.search("apple", 2**40)) == 50 and len(index.search_many(["apple"], 2**63).ids) == 50
    for k in [-1, -(2**70), 2**70, 1.5, NAN, "ten", None, [], np.float64(3)]:
        for search in (lambda: index.search("apple", k), lambda: index.search_many(["apple"], k)):
            with pytest.raises(REFUSALS):
                search()
    assert len(index.search("apple", np.int32(3))) == 3


def test_weights(index):
    for weight in [NAN, INF, -INF, -1.0, 1e300]:
        with pytest.raises(warpseek.QueryError) as caught:
            index.search({"appl": weight})
        assert caught.value.kind == "Weight" and caught.value.fields["term"] == "appl"
    for bad in [{"appl": "much"}, {"appl": None}, {None: 1.0}, {1.5: 1.0}, {b"a": 1.0}]:
        with pytest.raises(REFUSALS):
            index.search(bad)
    assert len(index.search({"appl": 0.0})) == 0 and len(index.search({})) == 0
    with pytest.raises(warpseek.QueryError):
        index.search_many([{"appl": 1.0}, {"appl": NAN}])
    skipped = index.search_many([{"appl": 1.0}, {"appl": NAN}], on_error="skip")
    assert list(skipped.errors) == [1] and skipped.errors[1].kind == "Weight"


def test_text_that_is_none(index):
    for text in ["\ud800", "apple \udfff pie"]:
        with pytest.raises(UnicodeEncodeError):
            index.search(text)
        with pytest.raises(ValueError, match="query 1"):
            index.search_many(["apple", text])
        with pytest.raises(ValueError):
            Index.build([{"id": "1", "text": text}])
        with pytest.raises(ValueError):
            Index.build([{"id": text, "text": "apple"}])
        with pytest.raises(REFUSALS):
            index.search("apple", filter=text)
    # NUL is a character like any other.
    assert len(index.search("apple\0pie")) == 10 and len(index.search("\0")) == 0
    assert Index.build([{"id": "\0", "text": "plum\0"}]).search("plum").ids == ["\0"]
    with pytest.raises(REFUSALS):
        Index.open("no\0where")
    with pytest.raises(REFUSALS):
        Index.build("no\0where.jsonl")


def test_queries_that_are_none(index):
    for bad in [None, 1, 1.5, b"apple", Strange(), ["apple"], ("apple",), True]:
        with pytest.raises(TypeError):
            index.search(bad)
        with pytest.raises(TypeError, match="query 1"):
            index.search_many(["apple", bad])
    for bad in [None, 1, Strange(), "apple", b"apple", {"appl": 1.0}]:
        with pytest.raises(TypeError):
            index.search_many(bad)
    with pytest.raises(LookupError, match="mine"):
        index.search_many(Raising())
    assert len(index.search_many([])) == 0 and len(index.search_many(iter(()))) == 0
    with pytest.raises(warpseek.QueryError):
        index.search(" ".join(f"w{i}" for i in range(100_000)))
    with pytest.raises(warpseek.QueryError):
        index.search("(" * 100_000)


def test_arrays_of_numpy(index):
    queries = np.array(["apple", "pie", "17", "apple pie"])
    expected = list(index.search_many(queries.tolist()))
    fixed = queries.copy()
    fixed.flags.writeable = False
    swapped = queries.astype(queries.dtype.newbyteorder(">"))
    apart = np.empty(8, dtype=queries.dtype)
    apart[::2] = queries
    for array in [fixed, swapped, apart[::2], queries[::-1][::-1], queries.astype(object)]:
        assert list(index.search_many(array)) == expected
    assert len(index.search_many(np.array([], dtype="U5"))) == 0
    for bad in [np.array([1, 2]), np.array([1.5]), np.array([b"apple"]), np.array([["apple"]]), np.array("apple"), np.array([NAN])]:
        with pytest.raises(TypeError):
            index.search_many(bad)


def test_matrices_of_any_kind():
    sparse = pytest.importorskip("scipy.sparse")
    matrix = sparse.random(30, 20, density=0.3, format="csr", random_state=5)
    index = Index.build(matrix)
    expected = list(index.search_many(matrix[:5], 3))
    asked = matrix[:5].copy()
    for array in (asked.data, asked.indices, asked.indptr):
        array.flags.writeable = False
    big = sparse.csr_matrix(matrix[:5])
    big.data = big.data.astype(">f8")
    kinds = [asked, big, matrix[:5].tocoo(), matrix[:5].tocsc(), matrix[:10][::2][:0]]
    for kind in kinds[:4]:
        assert list(index.search_many(kind, 3)) == expected
    assert len(index.search_many(kinds[4])) == 0
    whole = sparse.csr_matrix(np.array([[1, 0, 2]], dtype=np.int32))
    assert list(index.search_many(whole, 3)) == list(index.search_many([{"0": 1.0, "2": 2.0}], 3))
    for bad in [NAN, INF, -1.0]:
        wrong = matrix.copy()
        wrong.data[0] = bad
        with pytest.raises(warpseek.Error):
            Index.build(wrong)
        with pytest.raises(warpseek.Error):
            index.search_many(wrong)
    with pytest.raises(REFUSALS):
        index.search_many(sparse.csr_matrix(np.array([[1j]])))
    broken = matrix.copy()
    broken.indices[0] = 10_000
    with pytest.raises(warpseek.OptionsError, match="column 10000"):
        Index.build(broken, vocabulary=[str(i) for i in range(20)])


def test_options(index):
    bad = {
        "mode": ["xor", None, 1],
        "filter": ["(", 1, "nosuchfield:1", b"x"],
        "among": [1, [None], "5"],
        "sort": ["nosuchfield", [1], 5, ["-"]],
        "ranking": ["magic", 1],
        "k1": [NAN, -1.0, "x", INF],
        "b": [NAN, 2.0, -0.1, "x"],
        "static_weight": [NAN, -1.0, "x", INF],
        "deadline": [-1.0, NAN, "soon", INF],
        "facets": [{"nosuchfield": 5}, {"year": "x"}, {1: 2}, 5],
        "after": ["[", 5, "[1,2,3]"],
        "count": ["perhaps"],
    }
    for name, values in bad.items():
        for value in values:
            try:
                index.search("apple", **{name: value})
            except REFUSALS:
                continue
            # An argument that is accepted after all must be answered in full.
            assert name in ("among", "filter"), (name, value)
    for name, values in {
        "device": ["tpu", 1], "threads": [0, -1, 10**6, "x", 1.5], "gpus": [["x"], -1], "algorithm": ["magic"],
        "k1": [NAN, -1.0], "b": [7.0], "mmap": ["x"], "split": ["x"], "static_weight": [NAN, "x"], "nosuchoption": [1],
    }.items():
        for value in values:
            with pytest.raises(REFUSALS):
                Index.open(index.path, **{name: value})
    for name, values in {
        "analyzer": ["magic", 1], "codec": ["magic"], "store": ["none"], "schema": ["{", {"text": 5}, 5], "quantize": [(NAN, 1.0), 5, (1,)],
        "ngrams": [0, -1, 10**6, "x"], "vector_scale": [0, -1, 2**40], "format": ["magic"], "on_error": ["ignore"], "memory": [-1, "x"],
        "build_device": ["tpu"], "order_by": [5], "static_field": [5], "nosuchoption": [1],
    }.items():
        for value in values:
            with pytest.raises(REFUSALS):
                Index.build([{"id": "1", "text": "apple"}], **{name: value})


def test_documents(tmp_path):
    deep = "x"
    for _ in range(1000):
        deep = [deep]
    circle = {"id": "1"}
    circle["self"] = circle
    bad = [
        None, 5, b"x", Strange(), {"id": None, "text": "x"}, {"id": 1.5, "text": "x"}, {"id": "1", "text": "x", 5: 1},
        {"id": "1", "text": "x", "n": NAN}, {"id": "1", "text": "x", "n": 2**70}, {"id": "1", "text": "x", "n": Strange()},
        {"id": "1", "text": "x", "n": deep}, circle, {"id": "", "text": "x"}, {"text": "x"}, {"id": "1", "vector": 5},
        {"id": "1", "vector": {"a": NAN}}, ("a", "b", "c"),
    ]
    for document in bad:
        path = tmp_path / "index"
        with pytest.raises(REFUSALS):
            Index.build([{"id": "0", "text": "apple"}, document], path)
        # A failed build leaves nothing behind.
        assert not path.exists() or not os.listdir(path)
    index = Index.build([{"id": "0", "text": "apple"}], tmp_path / "index")
    for document in bad:
        with pytest.raises(REFUSALS):
            index.add([{"id": "9", "text": "apple"}, document])
            index.commit()
        index.rollback()
        assert index.pending == (0, 0)
    assert len(index) == 1 and index.verify() == []
    with pytest.raises(LookupError, match="mine"):
        Index.build(Raising())
    with pytest.raises(TypeError):
        Index.build(5)
    assert len(Index.build([])) == 0 and Index.build([]).search("apple").ids == []


def test_errors_have_fields(index, tmp_path):
    cases = [
        (lambda: Index.build(tmp_path / "none.jsonl"), FileNotFoundError, "NoSuchInput", "path"),
        (lambda: Index.open(tmp_path), FileNotFoundError, "NotAnIndex", "path"),
        (lambda: index.search("yaer:5"), ValueError, "Syntax", "column"),
        (lambda: index.search("apple", k1=-1.0), ValueError, "Parameter", "expected"),
        (lambda: index.search("apple", sort="nosuch"), ValueError, "UnknownField", "field"),
        (lambda: index.search("apple", filter="year:x"), ValueError, None, None),
        (lambda: Index.build(["x"], schema="{"), ValueError, "BadSchema", "reason"),
        (lambda: warpseek.evaluate({}, {}, ["magic"]), ValueError, "UnknownMeasure", "measure"),
        (lambda: Index.open(index.path, algorithm="intersect"), RuntimeError, "NeedsGpu", "algorithm"),
    ]
    for call, kind_of_python, kind, field in cases:
        with pytest.raises(warpseek.Error) as caught:
            call()
        assert isinstance(caught.value, kind_of_python) and str(caught.value) and caught.value.kind
        if kind:
            assert caught.value.kind == kind and caught.value.fields[field], (caught.value.kind, caught.value.fields)


#: Values for random calls.
VALUES = [
    None, True, False, 0, 1, -1, 7, 2**31, 2**63, 2**64, -(2**70), 0.0, -0.0, 1.5, -1.0, 1e308, 5e-324, NAN, INF, -INF, "", "apple", "\0",
    "\ud800", "a" * 70_000, "title:apple", "(", '"', "year:>2005", "*", "é日\U0001f600", b"", b"apple", [], ["apple"], [None], [[]], {}, {"appl": 1.0},
    {"appl": NAN}, {1: 1}, ("a", "b"), (None, None), set(), range(3), object, Strange(), Raising(), np.array([]), np.array(["apple"]), np.array([1.5]),
    np.zeros((2, 2)), np.float32(1.5), np.int64(-5), np.array("apple"), lambda: None, slice(1), Ellipsis, 1j,
]  # fmt: skip


def fuzz(seed, calls):
    """Calls everything with random arguments, and ends this process if a call aborts."""
    chance = random.Random(seed)
    pick = lambda: chance.choice(VALUES)  # noqa: E731
    plain = Index.build([{"id": str(i), "text": f"apple {i}"} for i in range(20)])
    grams = Index.build(["apple pie", "plum tart"], ngrams=3)
    searching = ["mode", "filter", "among", "count", "sort", "syntax", "ranking", "k1", "b", "static_weight", "deadline"]
    building = ["id_field", "analyzer", "codec", "store", "schema", "positions", "norms", "quantize", "ngrams", "vectors", "vector_scale", "on_error", "ids"]
    opening = ["device", "gpus", "algorithm", "ranking", "k1", "b", "static_weight", "mmap"]
    some = lambda names: {name: pick() for name in chance.sample(names, chance.randrange(3))}  # noqa: E731

    def look(found):
        repr(found)
        found._repr_html_() if hasattr(found, "_repr_html_") else list(found)

    actions = [
        lambda: look(plain.search(pick(), pick() if chance.random() < 0.5 else 5, **some([*searching, "after", "facets"]))),
        lambda: look(plain.search_many(pick(), pick() if chance.random() < 0.5 else 5, **some([*searching, "vocabulary", "on_error"]))),
        lambda: look(plain.search_many([pick() for _ in range(chance.randrange(4))], 5)),
        lambda: plain.explain(pick(), pick()),
        lambda: (plain.document(pick()), pick() in plain),
        lambda: plain.search_many(["apple"]).run(pick()),
        lambda: plain.search_many(["apple"])[pick()],
        lambda: look(grams.ngram_search(pick(), 5, **some(["misses", "errors", "verify", "candidates", "deadline", "width"]))),
        lambda: grams.ngram_search_many(pick(), pick()),
        lambda: Index.build(pick(), **some(building)).close(),
        lambda: Index.build([pick(), pick()], **some(building)).close(),
        lambda: Index.build([{"id": pick(), "text": pick(), "x": pick(), "vector": pick()}], **some(building)).close(),
        lambda: (plain.add(pick()), plain.add([pick()])),
        lambda: plain.delete(pick()),
        lambda: Index.open(plain.path, **some(opening)).search("apple"),
        lambda: Index.open(pick()),
        lambda: warpseek.evaluate(pick(), pick(), pick()),
        lambda: warpseek.evaluate({"q": {"d": pick()}}, {"q": {"d": pick()}}),
        lambda: warpseek.names(pick()),
        lambda: plain.search("apple")[pick()],
        lambda: plain.search("apple")[0].snippet(pick()),
    ]
    refused = 0
    import warnings

    warnings.simplefilter("ignore")
    for number in range(calls):
        state = chance.getstate()
        try:
            chance.choice(actions)()
        except Exception:
            refused += 1
        except BaseException as error:
            raise AssertionError(f"seed {seed}, call {number}: {type(error).__name__}: {error}; {state[1][:3]}")
        if plain.pending != (0, 0):
            plain.rollback()
    return refused


def test_random_calls():
    """Makes thousands of calls in CI; WARPSEEK_CALLS sets their number."""
    calls = int(os.environ.get("WARPSEEK_CALLS", "3000"))
    seed = int(os.environ.get("WARPSEEK_SEED", "1"))
    command = [sys.executable, "-c", f"import test_hostile; print(test_hostile.fuzz({seed}, {calls}))"]
    # A separate folder, since some values are names of files that do not exist.
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    assert 0 < int(done.stdout) < calls
    assert "panicked" not in done.stderr, done.stderr[-2000:]
