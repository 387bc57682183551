"""Results are those of the command line, bit for bit, whatever the threads and batches."""

import json
import threading

import numpy as np
import pytest

import warpseek
from warpseek import Index


def test_a_run_is_that_of_the_command_line(scifact, scifact_index, run_program, tmp_path):
    run_program("index", scifact.corpus, "-o", tmp_path / "index", "--quiet")
    expected = run_program(
        "run", tmp_path / "index", "--queries", scifact.queries_file, "-k", 100, "--quiet"
    )
    scifact_index.search_many(scifact.queries, 100).save(tmp_path / "run", scifact.query_ids)
    assert (tmp_path / "run").read_text() == expected
    # An index of the command line can be searched, and an index of dicts is the same as one of a
    # file.
    for index in [Index.open(tmp_path / "index"), Index.build(scifact.documents)]:
        index.search_many(scifact.queries, 100).save(tmp_path / "again", scifact.query_ids)
        assert (tmp_path / "again").read_text() == expected


def test_measures_are_those_of_the_command_line(scifact, scifact_index, run_program, tmp_path):
    results = scifact_index.search_many(scifact.queries, 1000)
    results.save(tmp_path / "run", scifact.query_ids)
    measures = ["ndcg@10", "map", "recall@100"]
    asked = [part for measure in measures for part in ("-m", measure)]
    files = ["--qrels", scifact.qrels_file, "--run", tmp_path / "run"]
    told = json.loads(run_program("eval", *files, *asked, "--complete", "--json"))
    evaluation = warpseek.evaluate(results.run(scifact.query_ids), scifact.qrels_file, measures, complete=True)
    assert list(evaluation.values()) == told["mean"]
    assert warpseek.evaluate(
        str(tmp_path / "run"), str(scifact.qrels_file), measures, complete=True
    ) == evaluation
    # A plain BM25 reaches this value, according to the README of the data.
    assert evaluation["ndcg@10"] == pytest.approx(0.680, abs=0.02)


def test_batches_and_threads_change_nothing(scifact, scifact_index):
    queries = scifact.queries
    one_by_one = [scifact_index.search(query, 20) for query in queries]
    expected = [list(zip(hits.ids, hits.scores.tolist())) for hits in one_by_one]
    assert list(scifact_index.search_many(queries, 20)) == expected
    single = Index.open(scifact_index.path, threads=1)
    assert list(single.search_many(queries * 5, 20)) == expected * 5
    found = [None] * 8

    def work(i):
        found[i] = list(scifact_index.search_many(queries[i::8], 20))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    for i in range(8):
        assert found[i] == expected[i::8]


def test_queries_come_in_many_forms(scifact, scifact_index):
    queries = scifact.queries[:50]
    expected = list(scifact_index.search_many(queries))
    forms = {"array": np.array(queries), "objects": np.array(queries, dtype=object), "generator": iter(queries)}
    try:
        import pandas as pd

        forms["pandas"] = pd.Series(queries)
    except ImportError:
        pass
    try:
        import pyarrow as pa

        forms["arrow"] = pa.array(queries)
        forms["chunked"] = pa.chunked_array([queries[:7], queries[7:]])
    except ImportError:
        pass
    try:
        import polars as pl

        forms["polars"] = pl.Series(queries)
    except ImportError:
        pass
    for name, form in forms.items():
        assert list(scifact_index.search_many(form)) == expected, name
    with pytest.raises(TypeError, match="use search for one"):
        scifact_index.search_many("apple")


def test_arrays(scifact, scifact_index):
    results = scifact_index.search_many(["gene", "nosuchword", "cell"], 3, count=True)
    ids, scores, offsets = results.arrays()
    assert offsets.tolist() == [0, 3, 3, 6] and offsets.dtype == np.int64
    assert scores.dtype == np.float64 and len(ids) == 6 and results.numbers.dtype == np.uint32
    assert results.query_numbers().tolist() == [0, 0, 0, 2, 2, 2] and results.ranks().tolist() == [0, 1, 2] * 2
    assert results.matches[1] == 0 and results.matches[0] > 3
    assert results[-1] == results[2] and len(results) == 3
    with pytest.raises(IndexError):
        results[3]
    assert len(scifact_index.search_many([])) == 0
    pa = pytest.importorskip("pyarrow")
    table = results.to_arrow()
    assert table.column("id").to_pylist() == ids.tolist()
    assert table.column("score").to_pylist() == scores.tolist()
    assert pa.table(results).equals(table)


def test_bad_queries_fail_alone(scifact_index):
    queries = ["gene", "(cell", "cell"]
    with pytest.raises(warpseek.QueryError) as caught:
        scifact_index.search_many(queries, syntax=True)
    assert caught.value.query == 1
    results = scifact_index.search_many(queries, syntax=True, on_error="skip")
    assert list(results.errors) == [1] and [len(hits) for hits in results] == [10, 0, 10]
    with pytest.raises(ValueError, match="ids of queries"):
        results.run(["a"])
