"""The exception for a wrong argument names the argument, its value, and what is expected."""

import inspect
import os
import pathlib
import re

import numpy as np
import pytest

import warpseek
from warpseek import Index
from warpseek.bm25s import BM25
from warpseek.pyserini import LuceneSearcher

DOCUMENTS = [{"id": "a", "text": "apple pie", "year": 1999}, {"id": "b", "text": "plum", "year": 2005}]
SCHEMA = {"text": [{"name": "text"}], "attributes": [{"name": "year", "type": "integer"}]}


class Anything:
    def __repr__(self):
        raise RuntimeError("no words")


@pytest.fixture(scope="module")
def index():
    return Index.build(DOCUMENTS, schema=SCHEMA)


@pytest.fixture(scope="module")
def grams():
    return Index.build(["apple pie"], ngrams=3)


def refused(call, kind, *parts):
    with pytest.raises(kind) as caught:
        call()
    for part in parts:
        assert part in str(caught.value), str(caught.value)
    assert "failed to extract" not in str(caught.value)


#: Values that are wrong for each kind of argument.
NOT_WHOLE = [10.0, "10", None, [], np.float64(3), True, Anything(), {}]
NOT_REAL = ["x", [], True, {}, 1j, Anything()]
NOT_TEXT = [5, b"x", ["x"], {}, True, Anything()]
NOT_FLAG = ["yes", 1, 0, [], Anything()]
NOT_STRINGS = ["abc", 5, b"x", {"a": 1}, [None], [5.5], Anything()]

SEARCHING = {
    "device": [None, *NOT_TEXT],
    "gpus": [0, "0", [0.5], ["0"], [None]],
    "gpu_memory": ["1", 1.5, True],
    "calibration": [5, ["x"]],
    "split": [None, *NOT_TEXT],
    "algorithm": [None, *NOT_TEXT],
    "ranking": NOT_TEXT,
    "k1": NOT_REAL,
    "b": NOT_REAL,
    "static_weight": [None, *NOT_REAL],
    "threads": ["2", 2.0, True],
    "mmap": [None, *NOT_FLAG],
}

SEARCH = {
    "k": NOT_WHOLE,
    "mode": [None, *NOT_TEXT],
    "filter": NOT_TEXT,
    "among": ["abc", 5, [None], [1.5]],
    "count": [None, *NOT_FLAG],
    "sort": [5, [5], {}, b"x"],
    "after": NOT_TEXT,
    "facets": [5, "year", ["year"], {"year": "x"}, {"year": 2.5}, {"year": [(1,)]}, {"year": [5]}, {5: 5}],
    "syntax": NOT_FLAG,
    "ranking": NOT_TEXT,
    "k1": NOT_REAL,
    "b": NOT_REAL,
    "static_weight": NOT_REAL,
    "deadline": NOT_REAL,
}

SEARCH_MANY = {
    **{name: values for name, values in SEARCH.items() if name not in ("after", "facets")},
    "threads": ["2", 2.0, True],
    "vocabulary": NOT_STRINGS,
    "on_error": [None, 5],
    "progress": [None, *NOT_FLAG],
}

BUILD = {
    "path": [5, b"x", ["x"]],
    "id_field": NOT_TEXT,
    "title_field": NOT_TEXT,
    "text_fields": [5, [5], b"x"],
    "analyzer": NOT_TEXT,
    "codec": NOT_TEXT,
    "store": [None, *NOT_TEXT],
    "schema": [5, ["text"], b"{}", True],
    "positions": [None, *NOT_FLAG],
    "norms": [None, *NOT_FLAG],
    "quantize": [5, "ab", (1,), (1, 2, 3), ("a", "b"), {"k1": 1, "b": 2}],
    "ngrams": ["3", 3.0, True],
    "ngram_unit": [None, *NOT_TEXT],
    "segment_words": ["3", 3.0],
    "reorder": [None, *NOT_FLAG],
    "order_by": NOT_TEXT,
    "static_field": NOT_TEXT,
    "vectors": [None, *NOT_FLAG],
    "vector_scale": [None, "3", 3.0],
    "vocabulary": NOT_STRINGS,
    "format": NOT_TEXT,
    "on_error": [None, *NOT_TEXT],
    "overwrite": [None, *NOT_FLAG],
    "memory": ["1", 1.5],
    "build_device": [None, *NOT_TEXT],
    "progress": [None, *NOT_FLAG],
    **SEARCHING,
}

GRAMS = {
    "k": NOT_WHOLE,
    "misses": [0.25, [], {}, True],
    "errors": ["1", 1.5],
    "verify": [None, *NOT_FLAG],
    "candidates": NOT_WHOLE,
    "deadline": NOT_REAL,
    "width": ["1", 1.5],
}


@pytest.mark.parametrize(
    "method, wrong",
    [("open", SEARCHING), ("build", BUILD), ("search", SEARCH), ("search_many", SEARCH_MANY), ("ngram_search", GRAMS), ("ngram_search_many", GRAMS)],
)
def test_types_of_all_options(index, grams, method, wrong):
    calls = {
        "open": lambda **options: Index.open(index.path, **options),
        "build": lambda **options: Index.build(DOCUMENTS, **options),
        "search": lambda **options: index.search("apple", **options),
        "search_many": lambda **options: index.search_many(["apple"], **options),
        "ngram_search": lambda **options: grams.ngram_search("apple", **options),
        "ngram_search_many": lambda **options: grams.ngram_search_many(["apple"], **options),
    }
    for name, values in wrong.items():
        for value in values:
            with pytest.raises(TypeError) as caught:
                calls[method](**{name: value})
            said = str(caught.value)
            # The message names the argument, its type, and what it should be.
            assert re.match(rf"(the name of |a range of )?{name}\b", said), (name, said)
            assert " of type " in said and "; it should be " in said, (name, value if type(value) is not Anything else "", said)


@pytest.mark.parametrize(
    "method, wrong, others",
    [
        (Index.open, SEARCHING, {"path"}),
        (Index.build, BUILD, {"source", "ids", "searching"}),
        (Index.search, SEARCH, {"self", "query"}),
        (Index.search_many, SEARCH_MANY, {"self", "queries"}),
        (Index.ngram_search, GRAMS, {"self", "query"}),
        (Index.ngram_search_many, GRAMS, {"self", "queries"}),
    ],
)
def test_no_option_is_forgotten(method, wrong, others):
    options = set(inspect.signature(method).parameters) - others
    assert options - set(wrong) == set()


def test_numbers_out_of_range(index):
    for call, name in [
        (lambda: index.search("apple", -1), "k"),
        (lambda: index.search("apple", 2**70), "k"),
        (lambda: index.search("apple", np.int64(-5)), "k"),
        (lambda: index.search_many(["apple"], threads=0), "threads"),
        (lambda: Index.open(index.path, threads=10**6), "threads"),
        (lambda: Index.open(index.path, gpus=[-1]), "gpus[0]"),
        (lambda: Index.build(DOCUMENTS, memory=-1), "memory"),
        (lambda: Index.build(DOCUMENTS, ngrams=-1), "ngrams"),
        (lambda: index.search("apple")[0].snippet(-5), "width"),
    ]:
        refused(call, warpseek.OptionsError, f"{name} is ", "a whole number from")


def test_what_counts_as_a_number(index):
    assert index.search("apple", np.int32(1), k1=1, b=np.float32(0.5), deadline=5).ids == ["a"]
    assert index.search("apple", count=np.bool_(True)).matches == 1


def test_names_that_do_not_exist(index):
    for call, *parts in [
        (lambda: index.search("apple", mode="AND"), "mode", "AND", "or, and"),
        (lambda: index.search("apple", ranking="bm26"), "ranking", "bm26", "bm25"),
        (lambda: index.search_many(["apple"], on_error="stop"), "on_error", "stop", "raise, skip"),
        (lambda: Index.open(index.path, device="gpu"), "device", "gpu", "cpu, cuda"),
        (lambda: Index.open(index.path, split="x"), "split", "x", "documents, queries"),
        (lambda: Index.open(index.path, algorithm="x"), "algorithm", "x", "wand"),
        (lambda: Index.build(DOCUMENTS, analyzer="x"), "analyzer", "x", "english"),
        (lambda: Index.build(DOCUMENTS, codec="x"), "codec", "x", "pfor"),
        (lambda: Index.build(DOCUMENTS, store="x"), "store", "x", "all, ids"),
        (lambda: Index.build(DOCUMENTS, on_error="x"), "on_error", "x", "stop, skip"),
        (lambda: Index.build("docs.jsonl", format="x"), "format", "x", "jsonl"),
        (lambda: Index.build(DOCUMENTS, ngrams=3, ngram_unit="x"), "unit", "x", "char, word"),
        (lambda: Index.build(DOCUMENTS, build_device="x"), "build_device", "x", "cpu, cuda"),
        (lambda: warpseek.names("codecs"), "codecs", "analyzer, codec"),
        (lambda: warpseek.evaluate({}, {}, ["magic"]), "magic", "ndcg"),
    ]:
        refused(call, ValueError, *parts)


#: Arguments that apply only to some sources.
OF_FIELDS = {"id_field": "key", "title_field": "head", "text_fields": ["body"]}
OF_ROWS = {"ids": ["x"], "vocabulary": ["apple"]}


def unsuited(said, source, wrong, **options):
    """Checks that each of these arguments is refused for such a source."""
    for name, value in wrong.items():
        refused(lambda: Index.build(source, **options, **{name: value}), warpseek.OptionsError, f"{name} is for ", said)
    # An argument with its default value counts as not given.
    Index.build(source, **options, ids=None, vocabulary=None, format=None, id_field=None, text_fields=())


def test_arguments_that_do_not_suit_the_source(tmp_path):
    file = tmp_path / "docs.jsonl"
    file.write_text('{"id": "a", "text": "apple"}\n')
    for source in (file, [str(file)]):
        unsuited("the source is files", source, {**OF_ROWS, "vectors": True})
    for source in (DOCUMENTS, ["apple"], [("a", "apple")]):
        unsuited("the source is documents", source, {**OF_ROWS, "format": "jsonl"})
    unsuited("the source is dicts of tokens", [{"apple": 1.5}], {**OF_ROWS, **OF_FIELDS, "format": "jsonl"}, vectors=True)


def test_arguments_that_do_not_suit_a_table():
    pd = pytest.importorskip("pandas")
    unsuited("the source is documents", pd.DataFrame(DOCUMENTS), {**OF_ROWS, "format": "jsonl"})


def test_arguments_that_do_not_suit_a_matrix():
    sparse = pytest.importorskip("scipy.sparse")
    matrix = sparse.csr_matrix(np.array([[1.0]]))
    unsuited("the source is a sparse matrix", matrix, {**OF_FIELDS, "format": "jsonl"})
    # The rows of a matrix are vectors.
    assert Index.build(matrix, vectors=True, **OF_ROWS).search({"apple": 1.0}).ids == ["x"]


def test_options_that_do_not_exist(index):
    for call in [
        lambda: Index.open(index.path, devcie="cpu"),
        lambda: Index.build(DOCUMENTS, devcie="cpu"),
        lambda: index.search("apple", devcie="cpu"),
        lambda: index.explain("apple", "a", devcie="cpu"),
        lambda: LuceneSearcher(index.path, devcie="cpu"),
    ]:
        refused(call, TypeError, "devcie")
    refused(lambda: LuceneSearcher(index, k1=1.0), TypeError, "k1", "Index.open")


def test_documents():
    refused(lambda: Index.build([{"text": "apple"}]), ValueError, "document 1", "the id is missing", "id_field")
    refused(lambda: Index.build([{"key": "1", "text": "apple"}], id_field="ky"), ValueError, "document 1", "the id is missing", "id_field")
    assert Index.build([{"key": "1", "text": "apple"}], id_field="key").search("apple").ids == ["1"]
    for value, kind in [(5, "a number"), (True, "a boolean"), (["x"], "an array"), ({"x": 1}, "an object")]:
        for field in ("text", "title"):
            refused(lambda: Index.build([{"id": "1", field: value}]), ValueError, f'"{field}"', kind, "expected a string")
    refused(lambda: Index.build(5), TypeError, "source is 5, of type int", "documents")
    refused(lambda: Index.build({"id": "1", "text": "apple"}), TypeError, "source is {'id'", "a list of documents")
    refused(lambda: Index.build(b"docs.jsonl"), TypeError, "source is b'docs.jsonl'")
    index = Index.build(DOCUMENTS)
    refused(lambda: index.add(5), TypeError, "documents is 5")
    refused(lambda: index.add(DOCUMENTS, vectors="no"), TypeError, "vectors is 'no'")
    refused(lambda: index.add(DOCUMENTS, id_field=5), TypeError, "id_field is 5")
    refused(lambda: index.delete(5), TypeError, "ids is 5", "a list of ids")
    refused(lambda: index.delete([None]), TypeError, "ids[0] is None", "a string or an integer")
    refused(lambda: index.document(None), TypeError, "id is None")
    refused(lambda: index.add_files(5), TypeError, "a path is 5")
    refused(lambda: index.commit(progress="x"), TypeError, "progress is 'x'")
    refused(lambda: Index.build([{"id": "1", "vector": 5}]), TypeError, "vector", "a dict of tokens and weights")
    refused(lambda: Index.build([{"apple": "much"}], vectors=True), TypeError, "'apple'", "a number", "str")
    refused(lambda: index.search({"apple": None}), TypeError, "'apple'", "a number", "NoneType")


def test_schemas(tmp_path):
    refused(lambda: Index.build(DOCUMENTS, schema="/path.json"), ValueError, "schema is '/path.json'", "JSON", "pathlib.Path")
    refused(lambda: Index.build(DOCUMENTS, schema={"text": {1, 2}}), ValueError, "schema cannot be written as JSON")
    refused(lambda: Index.build(DOCUMENTS, schema="{"), ValueError, "schema")
    file = tmp_path / "schema.json"
    refused(lambda: Index.build(DOCUMENTS, schema=file), FileNotFoundError, str(file))
    file.write_text('{"text": [{"name": "text"}], "attributes": [{"name": "year", "type": "integer"}]}')
    for schema in (SCHEMA, file, file.read_text()):
        assert Index.build(DOCUMENTS, schema=schema).search("plum", filter="year:2005").ids == ["b"]


def test_vocabularies():
    sparse = pytest.importorskip("scipy.sparse")
    matrix = sparse.csr_matrix(np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]))
    parts = "vocabulary has 2 tokens", "column 2"
    refused(lambda: Index.build(matrix, vocabulary=["a", "b"]), ValueError, *parts)
    index = Index.build(matrix, vocabulary=["a", "b", "c"])
    refused(lambda: index.search_many(matrix, vocabulary=["a", "b"]), ValueError, *parts)
    refused(lambda: Index.build(matrix, vocabulary={"a": 0, "b": 1, "c": 2}), TypeError, "vocabulary is {", "a list of strings")
    refused(lambda: Index.build(matrix, ids=["a"]), ValueError, "1 ids for 2 rows")
    refused(lambda: Index.build(matrix, ids=5), TypeError, "ids is 5")
    refused(lambda: Index.build(matrix, ids=["a", 1.5]), TypeError, "ids[1] is 1.5")
    assert Index.build(matrix, ids=np.array([7, 8])).search({"1": 1.0}).ids == ["8"]


def test_queries(index, grams):
    refused(lambda: index.search(5), TypeError, "a query is a string or a dict")
    refused(lambda: index.search_many(5), TypeError, "queries is 5", "a list of strings")
    refused(lambda: index.search_many(Anything()), TypeError, "queries is an object of type Anything")
    refused(lambda: index.search_many(["apple", 5]), TypeError, "query 1", "a string or a dict")
    refused(lambda: grams.ngram_search(5), TypeError, "query is 5", "a string")
    refused(lambda: grams.ngram_search_many("apple"), TypeError, "queries is 'apple'", "a list of strings")
    refused(lambda: index.search("apple")["a"], TypeError, "the number of a hit is 'a'")
    refused(lambda: index.search("apple")[5], IndexError, "the number of a hit is 5", "there are 1")
    refused(lambda: index.search_many(["apple"])[1.0], TypeError, "the number of a query is 1.0")
    refused(lambda: index.search("apple")[0].snippet("wide"), TypeError, "width is 'wide'")
    results = index.search_many(["apple"])
    refused(lambda: results.run(5), TypeError, "query_ids is 5")
    refused(lambda: results.run(["a", "b"]), ValueError, "2 ids of queries for 1 queries")
    refused(lambda: results.save(5), TypeError, "path is 5")
    refused(lambda: results.save(os.devnull, tag=5), TypeError, "tag is 5")
    refused(lambda: Index.open(5), TypeError, "path is 5", "pathlib.Path")
    refused(lambda: warpseek.evaluate({}, {}, "map"), TypeError, "measures is 'map'", "a list of strings")


def test_bm25s():
    for wrong, kind, part in [
        ({"k1": "x"}, TypeError, "k1 is 'x'"),
        ({"b": None}, TypeError, "b is None"),
        ({"method": 5}, ValueError, "method is 5"),
        ({"dtype": "int32"}, ValueError, "dtype is 'int32'"),
        ({"dtype": "magic"}, ValueError, "dtype is 'magic'"),
    ]:
        refused(lambda: BM25(**wrong), kind, part)
    retriever = BM25()
    vocabulary = {"apple": 0, "plum": 1}
    for corpus, kind, *parts in [
        (([[0], [1, 2]], vocabulary), ValueError, "document 1 has the token 2", "2 tokens"),
        ([["apple"], [None]], TypeError, "a token of document 1 is None", "a string or its number"),
        ([["apple"], None], TypeError, "document 1 is None", "a list of tokens"),
        ([["apple pie"]], ValueError, "'apple pie' of document 0", "white space"),
        ("apple", TypeError, "corpus is 'apple'", "a list of lists of tokens"),
        (5, TypeError, "corpus is 5"),
    ]:
        refused(lambda: retriever.index(corpus), kind, *parts)
    retriever.index(([[0], [1]], vocabulary))
    for queries, kind, *parts in [
        ([[0], [5]], ValueError, "query 1", "number 5", "2 tokens"),
        ([["apple"], [None]], TypeError, "query 1", "a string or its number"),
        ([["apple"], 5], TypeError, "query 1 is 5", "a list of tokens"),
        ("apple", TypeError, "query_tokens is 'apple'"),
    ]:
        refused(lambda: retriever.retrieve(queries, k=1), kind, *parts)
    for options, kind, part in [
        ({"k": 1.0}, TypeError, "k is 1.0"),
        ({"k": -1}, ValueError, "k is -1"),
        ({"n_threads": "2"}, TypeError, "n_threads is '2'"),
        ({"n_threads": -2}, ValueError, "n_threads is -2"),
        ({"chunksize": 0}, ValueError, "chunksize is 0"),
        ({"weight_mask": "x"}, TypeError, "weight_mask is 'x'"),
        ({"weight_mask": [1]}, ValueError, "weight_mask has shape (1,)"),
        ({"return_as": "list"}, ValueError, "return_as is 'list'"),
        ({"show_progress": "x"}, TypeError, "show_progress is 'x'"),
    ]:
        refused(lambda: retriever.retrieve([[0]], **{"k": 1, **options}), kind, part)


def test_pyserini(index):
    searcher = LuceneSearcher(index)
    refused(lambda: LuceneSearcher(5), TypeError, "index_dir is 5")
    refused(lambda: searcher.search("apple", k="5"), TypeError, "k is '5'")
    refused(lambda: searcher.batch_search("apple", ["1"]), TypeError, "queries is 'apple'")
    refused(lambda: searcher.batch_search(["apple"], ["1"], threads="2"), TypeError, "threads is '2'")
    refused(lambda: searcher.set_bm25("x"), TypeError, "k1 is 'x'")
    assert pathlib.Path(index.path).exists()
