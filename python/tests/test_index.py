"""Building, changing and opening indexes."""

import json
import os
import pickle

import numpy as np
import pytest

import warpseek
from warpseek import Index

DOCUMENTS = [
    {"id": "1", "title": "Rust in practice", "text": "Memory without a collector", "year": 2019},
    {"id": "2", "title": "Memory models", "text": "Ordering of loads, in Rust and in C", "year": 2021},
    {"id": "3", "title": "Unsafe code", "text": "What Rust leaves to the programmer", "year": 2022},
]
SCHEMA = {
    "text": [{"name": "title"}, {"name": "text"}],
    "attributes": [{"name": "year", "type": "integer"}],
}


def test_sources_give_the_same_index(tmp_path):
    file = tmp_path / "docs.jsonl"
    file.write_text("".join(json.dumps(document) + "\n" for document in DOCUMENTS))
    sources = {
        "path": file,
        "string": str(file),
        "paths": [file],
        "list": DOCUMENTS,
        "generator": (document for document in DOCUMENTS),
        "docno": [{"docno": d["id"], **{k: v for k, v in d.items() if k != "id"}} for d in DOCUMENTS],
    }
    for name, source in sources.items():
        index = Index.build(source)
        assert len(index) == 3, name
        found = [(hit.id, hit.score) for hit in index.search("rust memory")]
        assert [id for id, _ in found] == ["1", "2", "3"], name
        expected = found if name == "path" else expected
        assert found == expected, name
        assert index.document("2")["year"] == 2021, name


def test_contents_are_the_text_if_there_is_no_other(tmp_path):
    documents = [
        {"id": "0", "contents": '"Emma"\nEmma Woodhouse, handsome, clever, and rich'},
        {"id": "1", "contents": "clever plums", "text": "apples"},
    ]
    file = tmp_path / "corpus.jsonl"
    file.write_text("".join(json.dumps(document) + "\n" for document in documents))
    for source in (file, documents):
        index = Index.build(source, tmp_path / "index", overwrite=True)
        assert index.search("clever emma").ids == ["0"] and index.search("apples").ids == ["1"]
        assert "Woodhouse" in index.search("rich")[0].snippet()
        assert index.document("0") == documents[0]
    assert index.add({"id": "2", "contents": "clever pears"}) == 1
    index.commit()
    assert sorted(index.search("clever").ids) == ["0", "2"]


def test_tables(tmp_path):
    pd = pytest.importorskip("pandas")
    expected = Index.build(DOCUMENTS).search("rust memory")
    frame = pd.DataFrame(DOCUMENTS)
    frame.loc[3] = {"id": "4", "title": None, "text": "plum", "year": float("nan")}
    index = Index.build(frame)
    assert index.search("plum").ids == ["4"] and "year" not in index.document("4")
    pa = pytest.importorskip("pyarrow")
    for table in [pa.Table.from_pylist(DOCUMENTS), pa.Table.from_pylist(DOCUMENTS).to_reader()]:
        hits = Index.build(table).search("rust memory")
        assert hits.ids == expected.ids and (hits.scores == expected.scores).all()
    pl = pytest.importorskip("polars")
    hits = Index.build(pl.DataFrame(DOCUMENTS)).search("rust memory")
    assert hits.ids == expected.ids and (hits.scores == expected.scores).all()


def test_changes_are_seen_after_a_commit(tmp_path):
    index = Index.build(DOCUMENTS, tmp_path / "index")
    other = Index.open(tmp_path / "index")
    assert index.add({"id": "4", "text": "plum"}) == 1
    index.delete("1")
    assert index.pending == (1, 1) and len(index.search("plum")) == 0
    done = index.commit()
    assert (done["documents"], done["deleted"], done["generation"]) == (1, 1, 2)
    assert index.search("plum").ids == ["4"] and "1" not in index and "4" in index
    assert len(other.search("plum")) == 0
    assert other.refresh() and not other.refresh()
    assert other.search("plum").ids == ["4"]
    index.add([{"id": "5", "text": "pear"}])
    index.rollback()
    assert index.commit()["documents"] == 0 and index.pending == (0, 0)
    index.merge()
    assert index.facts["segments"] == 1 and index.verify() == []


def test_a_bad_document_adds_nothing(tmp_path):
    index = Index.build(DOCUMENTS, tmp_path / "index")
    for bad in [3, {"id": "9", "text": "x", "when": object()}, {7: "x"}, {"id": 1.5}, {"id": "x", "n": 2**70}]:
        with pytest.raises((TypeError, ValueError)):
            index.add([{"id": "8", "text": "plum"}, bad])
        assert index.pending == (0, 0)


def test_an_iterator_that_fails_leaves_nothing_behind(tmp_path):
    def documents(fine):
        yield from DOCUMENTS[:fine]
        raise RuntimeError("as it should")

    for fine in [0, 3]:
        with pytest.raises(RuntimeError, match="as it should"):
            Index.build(documents(fine), tmp_path / "index")
        with pytest.raises(warpseek.NotFoundError):
            Index.open(tmp_path / "index")
    Index.build(DOCUMENTS, tmp_path / "index")
    for fine in [0, 3]:
        for on_error in ["stop", "skip"]:
            with pytest.raises(RuntimeError, match="as it should"):
                Index.build(documents(fine), tmp_path / "index", overwrite=True, on_error=on_error)
            assert len(Index.open(tmp_path / "index")) == 3, "an index was overwritten by a failed build"


def test_errors_have_fields(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        Index.open(tmp_path / "none")
    assert caught.value.kind == "NotAnIndex" and caught.value.fields["path"].endswith("none")
    assert pickle.loads(pickle.dumps(caught.value)).fields == caught.value.fields
    Index.build(DOCUMENTS, tmp_path / "index")
    with pytest.raises(warpseek.ExistsError, match="overwrite=True"):
        Index.build(DOCUMENTS, tmp_path / "index")
    with pytest.raises(warpseek.DocumentError) as caught:
        Index.build(DOCUMENTS + DOCUMENTS[:1])
    assert caught.value.kind == "DuplicateId" and caught.value.fields["id"] == "1"
    assert "on_error" in str(caught.value)
    with pytest.warns(UserWarning, match="1 documents were skipped"):
        assert len(Index.build(DOCUMENTS + DOCUMENTS[:1], on_error="skip")) == 3
    for options in [{"analyzer": "klingon"}, {"codec": "zip"}, {"store": "some"}, {"threads": 0}]:
        with pytest.raises(warpseek.OptionsError):
            Index.build(DOCUMENTS, **options)
    with pytest.raises(TypeError, match="colour"):
        Index.open(tmp_path / "index", colour="red")
    index = Index.open(tmp_path / "index")
    with pytest.raises(warpseek.QueryError) as caught:
        index.search("(rust", syntax=True)
    assert caught.value.kind == "Syntax" and caught.value.fields["query"] == "(rust"
    with pytest.raises(warpseek.QueryError) as caught:
        index.search("rust", filter="yaer:2020")
    assert caught.value.fields["query"] == "yaer:2020" and "yaer" in str(caught.value)
    for call in [{"mode": "xor"}, {"k": -1}, {"ranking": "tfidf"}, {"deadline": -1.0}]:
        with pytest.raises(warpseek.OptionsError):
            index.search("rust", **call)
    for query in [None, 3, b"rust", ["rust"]]:
        with pytest.raises(TypeError):
            index.search(query)
    with pytest.raises(warpseek.QueryError, match="weight"):
        index.search({"rust": -1.0})
    with pytest.raises(warpseek.DeviceError):
        Index.open(tmp_path / "index", algorithm="intersect")
    (tmp_path / "file").write_text("x")
    with pytest.raises(warpseek.StorageError):
        Index.open(tmp_path / "file")


def test_fields_filters_sorting_and_facets():
    index = Index.build(DOCUMENTS, schema=SCHEMA)
    assert index.search("title:rust^2 memory").ids == ["1", "2"]
    assert index.search("rust", filter="year:>2020").ids == index.search("rust year:>2020").ids
    page = index.search("rust", 2, sort="-year")
    assert page.ids == ["3", "2"]
    assert index.search("rust", 2, sort=["-year"], after=page.after).ids == ["1"]
    hits = index.search("rust", 0, facets={"year": [(None, 2020), (2020, None)]})
    assert hits.facets == [{"field": "year", "counts": [1, 2], "missing": 0}]
    hits = index.search("rust", facets={"year": 2})
    assert [value["value"] for value in hits.facets[0]["values"]] == [2019, 2021]
    assert hits.facets[0]["distinct"] == 3
    assert index.facts["schema"]["attributes"][0]["name"] == "year"


def test_phrases_modes_and_counts():
    index = Index.build(["a garden of roses", "roses in a garden"], positions=True)
    assert index.search('"garden of roses"').ids == ["0"]
    assert index.search("garden roses", count=True).matches == 2
    plain = Index.build(["apple pie", "apple"])
    assert plain.search("apple pie", mode="and").ids == ["0"]
    assert len(plain.search("apple", 0)) == 0 and len(plain.search("apple", 2**63)) == 2
    assert plain.search({"appl": 1.0}).ids == ["1", "0"]


def test_explanations_have_only_what_matches():
    index = Index.build(["new york city", "york was new"], positions=True)
    hits = index.search('"new york" *')
    assert hits.ids == ["0", "1"]
    whole, rest = (hit.explain() for hit in hits)
    assert [part["description"] for part in whole["made_of"]["parts"]] == ["sum of:", "constant score"]
    # The document has the words, but not the phrase.
    assert rest["made_of"] == {"score": 1.0, "description": "constant score", "parts": []}
    assert [term["score"] for term in rest["terms"]] == [0.0, 0.0]
    assert [term["frequency"] for term in rest["terms"]] == [1, 1]
    assert index.explain("paris", "0")["made_of"] is None


def test_explanations_add_up(scifact, scifact_index):
    hits = scifact_index.search(scifact.queries[0])
    for hit in hits:
        explanation = hit.explain()
        assert explanation["score"] == hit.score
        assert sum(term["score"] for term in explanation["terms"]) == pytest.approx(hit.score, abs=1e-9)
        assert scifact_index.explain(scifact.queries[0], hit.id) == explanation
        made_of = explanation["made_of"]
        assert made_of["score"] == hit.score
        # A document with one of the words has no sum.
        parts = made_of["parts"] or [made_of]
        assert sum(part["score"] for part in parts) == pytest.approx(hit.score, abs=1e-9)
    with pytest.raises(KeyError):
        scifact_index.explain("x", "no such id")


def test_what_a_notebook_shows():
    index = Index.build([{"id": "<1>", "text": "apple & pie"}])
    shown = index.search("pie")._repr_html_()
    assert "&lt;1&gt;" in shown and "apple &amp; <b>pie</b>" in shown
    assert "1 documents" in repr(index)


def test_deadlines_say_what_was_searched(scifact, scifact_index):
    hits = scifact_index.search(scifact.queries[0], deadline=0.0)
    assert not hits.complete and hits.searched == (0, len(scifact.documents))
    results = scifact_index.search_many(scifact.queries[:5], deadline=0.0)
    assert results.partial == [0, 1, 2, 3, 4]
    assert scifact_index.search(scifact.queries[0], deadline=60.0).complete


def test_options_of_researchers_change_no_hits(scifact, tmp_path):
    queries = scifact.queries[:20]
    expected = None
    for codec in warpseek.names("codec"):
        path = tmp_path / codec
        Index.build(scifact.corpus, path, codec=codec, store="ids")
        for algorithm in ["auto", "wand", "maxscore", "decoded", "kept", "reference"]:
            results = Index.open(path, algorithm=algorithm).search_many(queries)
            found = (results.ids.tolist(), results.scores.tolist())
            expected = expected or found
            assert found == expected, (codec, algorithm)
        if codec != warpseek.names("codec")[0]:
            continue
        assert Index.open(path).search(queries[0])[0].document is None


def test_rankings(scifact_index):
    usual = scifact_index.search("gene expression").scores
    same = scifact_index.search("gene expression", k1=0.9, b=0.4).scores
    other = scifact_index.search("gene expression", k1=1.2, b=0.75).scores
    assert (usual == same).all() and (usual != other).any()
    opened = Index.open(scifact_index.path, k1=1.2, b=0.75)
    assert (opened.search("gene expression").scores == other).all()
    with pytest.raises(warpseek.Error):
        scifact_index.search("gene", ranking="cosine", k1=1.0)


def test_static_scores():
    documents = [{"id": str(i), "text": "apple", "rank": float(i)} for i in range(3)]
    index = Index.build(documents, static_field="rank", static_weight=1.0)
    assert index.search("apple").ids == ["2", "1", "0"]


def test_static_scores_of_documents_that_come_later(tmp_path):
    documents = [{"id": str(i), "text": "apple", "rank": float(i)} for i in range(3)]
    index = Index.build(documents, tmp_path / "index", static_field="rank")
    index.add({"id": "3", "text": "apple", "rank": 0.5})
    index.commit()
    later = tmp_path / "later.jsonl"
    later.write_text('{"id": "4", "text": "apple", "rank": 1.5}\n')
    index.add_files(later)
    by_rank = ["2", "4", "1", "3", "0"]
    assert index.search("apple").ids == ["0", "1", "2", "3", "4"]
    assert index.search("apple", static_weight=1.0).ids == by_rank
    many = index.search_many(["apple"], static_weight=1.0)
    assert [[hit[0] for hit in hits] for hits in many] == [by_rank]
    assert index.explain("apple", "3", static_weight=2.0)["static_score"] == 1.0
    assert index.document("3")["rank"] == 0.5
    # The result does not depend on the options of opening.
    opened = Index.open(tmp_path / "index", static_weight=1.0)
    assert opened.search("apple").ids == by_rank
    assert opened.search("apple", static_weight=0.0).ids == index.search("apple").ids
    with pytest.raises(warpseek.Error, match="static weight"):
        index.search("apple", static_weight=-1.0)


def test_static_scores_have_one_field(tmp_path):
    index = Index.build([{"id": "0", "text": "apple", "static_score": 1.0}], tmp_path / "index")
    index.add({"id": "1", "text": "apple", "static_score": 2.0})
    index.commit()
    assert index.search("apple", static_weight=1.0).ids == ["1", "0"]
    with pytest.raises(warpseek.Error, match="n-gram"):
        Index.build(["apple"], ngrams=3, static_field="rank")


def test_temporary_indexes_are_removed():
    index = Index.build(["apple"])
    assert os.path.exists(index.path)
    path = index.path
    with index:
        pass
    assert not os.path.exists(path)


def test_ngrams():
    index = Index.build(["The Eiffel Tower stands in Paris.", "The tower of London"], ngrams=3)
    hits = index.ngram_search("Eifel tower", verify=True, errors=2, width=60)
    assert [hit.id for hit in hits] == ["0"] and hits[0].distance == 1 and hits.ngrams == 9
    start, end = hits[0].highlights[0]
    assert hits[0].snippet[start:end] == "Eiffel Tower"
    many = index.ngram_search_many(["Eifel tower", "tower of Londn"])
    assert [hits[0].id for hits in many] == ["0", "1"]
    with pytest.raises(warpseek.QueryError, match="ngram_search"):
        index.search("tower")
    with pytest.raises(warpseek.QueryError, match="ngrams=3"):
        Index.build(["x"]).ngram_search("tower")
    with pytest.raises(warpseek.OptionsError):
        index.ngram_search("tower", misses="many")


def test_numbers_of_numpy_can_be_stored():
    index = Index.build([{"id": np.int64(7), "text": "apple", "n": np.float32(0.5), "v": np.arange(2)}])
    assert index.document("7") == {"id": "7", "text": "apple", "n": 0.5, "v": [0, 1]}
