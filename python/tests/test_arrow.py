"""Arrow columns as input and tables as output, without copies."""

import gc

import numpy as np
import pytest

import warpseek
from warpseek import Index


@pytest.fixture(scope="module")
def index():
    return Index.build([{"id": f"d{i}", "text": f"apple {'pie ' * (i % 5)} {i}"} for i in range(200)])


def _address(array):
    return array.__array_interface__["data"][0]


def test_arrays_share_memory_and_outlive_their_results(index):
    results = index.search_many(["apple", "pie", "3"], 50)
    assert _address(results.scores) == _address(np.asarray(results._native.scores()))
    assert not results.scores.flags.writeable and not results.offsets.flags.writeable
    with pytest.raises(ValueError):
        results.scores[0] = 1.0
    scores, expected = results.scores, results.scores.tolist()
    del results
    gc.collect()
    index.search_many(["pie"] * 100, 100)
    assert scores.tolist() == expected


def test_nothing_found_has_arrays(index):
    for results in [index.search_many([]), index.search_many(["nosuchword", "neither"])]:
        assert results.scores.shape == (0,) and results.numbers.dtype == np.uint32
        assert results.ids.tolist() == [] and results.offsets[-1] == 0


def test_tables_are_over_the_memory_of_the_arrays(index):
    pa = pytest.importorskip("pyarrow")
    results = index.search_many(["apple", "nosuchword", "pie 3"], 20)
    table = results.to_arrow()
    assert table.schema.names == ["query", "id", "score", "rank"]
    assert table.column("query").to_pylist() == results.query_numbers().tolist()
    assert table.column("rank").to_pylist() == results.ranks().tolist()
    assert table.column("id").to_pylist() == results.ids.tolist()
    assert table.column("score").to_pylist() == results.scores.tolist()
    # The address is that of the array, so it is not a copy.
    assert table.column("score").chunk(0).buffers()[1].address == _address(results.scores)
    # Ids are created once, whatever uses them.
    again = pa.table(results)
    assert again.column("id").chunk(0).buffers()[2].address == table.column("id").chunk(0).buffers()[2].address
    expected = table.column("score").to_pylist()
    del results, again
    gc.collect()
    assert table.column("score").to_pylist() == expected
    assert index.search_many([]).to_arrow().num_rows == 0


def test_polars_needs_no_pyarrow(index):
    pl = pytest.importorskip("polars")
    results = index.search_many(pl.Series(["apple", "pie"]), 5)
    frame = pl.DataFrame(results)
    assert frame["id"].to_list() == results.ids.tolist() and frame["score"].to_list() == results.scores.tolist()


def test_columns_of_strings(index):
    pa = pytest.importorskip("pyarrow")
    queries = ["apple", "pie", "", "3 é 日本", "nosuchword", "apple 17"] * 5
    expected = list(index.search_many(queries))
    kinds = [pa.string(), pa.large_string(), pa.string_view()]
    columns = [pa.array(queries, kind) for kind in kinds]
    columns += [pa.chunked_array([queries[:4], [], queries[4:]], kind) for kind in kinds]
    columns += [pa.array(["x", *queries, "y"]).slice(1, len(queries)), pa.array(queries).dictionary_encode()]
    for column in columns:
        assert list(index.search_many(column)) == expected, column.type
    assert len(index.search_many(pa.array([], pa.string()))) == 0
    assert len(index.search_many(pa.chunked_array([], pa.string()))) == 0


def test_columns_that_are_no_queries(index):
    pa = pytest.importorskip("pyarrow")
    with pytest.raises(TypeError, match="query 1 is missing"):
        index.search_many(pa.array(["apple", None]))
    for bad in [pa.array([1, 2]), pa.array([1.5]), pa.array([b"apple"]), pa.array([["apple"]])]:
        with pytest.raises(TypeError, match="query 0"):
            index.search_many(bad)
    # Invalid UTF-8 in a column of strings.
    text = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(np.array([0, 2], np.int32)), pa.py_buffer(b"\xff\xfe")])
    with pytest.raises(warpseek.OptionsError, match="cannot be read"):
        index.search_many(text)
    weighted = pa.array([{"appl": 1.0}, {"appl": 2.0}])
    assert list(index.search_many(weighted)) == list(index.search_many([{"appl": 1.0}, {"appl": 2.0}]))


def test_tables_of_queries_have_ids(index, tmp_path):
    pd = pytest.importorskip("pandas")
    pa = pytest.importorskip("pyarrow")
    frames = [
        pd.DataFrame({"qid": ["a", "b"], "query": ["apple", "pie"]}),
        pa.table({"query_id": ["a", "b"], "query": ["apple", "pie"]}),
        pa.table({"query_id": ["a", "b"], "text": ["apple", "pie"]}).to_batches()[0],
    ]
    expected = index.search_many(["apple", "pie"], 3).run(["a", "b"])
    for frame in frames:
        results = index.search_many(frame, 3)
        assert results.query_ids == ["a", "b"] and results.run() == expected
        assert set(results.to_pandas()["query_id"]) == {"a", "b"}
    with pytest.raises(ValueError, match="column query"):
        index.search_many(pa.table({"question": ["apple"]}))


def test_datasets_of_queries():
    class Query:
        def __init__(self, query_id, text):
            self.query_id, self.text = query_id, text

        def default_text(self):
            return self.text

    class Dataset:
        def queries_iter(self):
            return iter([Query("q1", "apple"), Query("q2", "plum")])

    index = Index.build([("a", "apple pie"), ("b", "plum")])
    for source in [Dataset(), Dataset().queries_iter()]:
        run = index.search_many(source).run()
        assert {query: list(hits) for query, hits in run.items()} == {"q1": ["a"], "q2": ["b"]}


def test_progress_is_reported():
    pytest.importorskip("tqdm")
    index = Index.build(["apple"], progress=True)
    assert len(index.search_many(["apple"] * 3000, progress=True)) == 3000
