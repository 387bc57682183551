"""Input in files and dicts: what is read, refused, or reported in a warning."""

import json

import pytest

import warpseek
from warpseek import Index

BODIES = [
    {"docno": "a", "body": "a green apple", "meta": {"head": "Apples"}},
    {"docno": "b", "body": ["a yellow", "pear"], "meta": {"head": "Pears"}},
]


def write(path, documents):
    path.write_text("".join(json.dumps(document) + "\n" for document in documents))
    return str(path)


def test_names_of_files_in_a_list_are_files(tmp_path):
    one = write(tmp_path / "one.jsonl", [{"id": "1", "text": "apple"}])
    two = write(tmp_path / "two.jsonl", [{"id": "2", "text": "pear"}])
    index = Index.build([one, two])
    assert len(index) == 2 and index.search("pear").ids == ["2"]
    with pytest.raises(warpseek.NotFoundError, match="no such file or directory: a.jsonl"):
        Index.build(["a.jsonl"])
    # Names of files are not documents, whether the files exist or not.
    for files in ([one], one, tmp_path / "one.jsonl", "new.jsonl", ["new.jsonl"], "docs.csv.gz"):
        with pytest.raises(warpseek.OptionsError, match="add_files"):
            index.add(files)
    assert index.pending == (0, 0)
    # Other strings are texts.
    assert len(Index.build(["see a.jsonl", "plum"])) == 2
    assert index.add("a cherry; see a.jsonl") == 1
    index.commit()
    assert index.search("cherry").ids == ["0"]


def test_fields_have_names_of_their_own(tmp_path):
    named = {"id_field": "docno", "title_field": "meta.head", "text_fields": ["body"]}
    of_file = Index.build(write(tmp_path / "docs.jsonl", BODIES), **named)
    of_dicts = Index.build(BODIES, **named)
    for index in (of_file, of_dicts):
        assert index.search("pears").ids == ["b"] and index.search("green").ids == ["a"]
        stored = index.document("b")
        assert (stored["title"], stored["text"], stored["meta"]) == ("Pears", "a yellow\npear", {"head": "Pears"})
        assert "body" not in stored
    more = write(tmp_path / "more.jsonl", [{"docno": "c", "body": "a cherry"}])
    of_file.add_files(more, id_field="docno", text_fields="body")
    assert of_file.search("cherry").ids == ["c"]


def test_tables_are_read(tmp_path):
    path = tmp_path / "docs.csv"
    path.write_text('id,title,text,year\n1,"Apple, green",sour,1999\n2,Pear,sweet,2005\n')
    schema = {"text": [{"name": "title"}, {"name": "text"}], "attributes": [{"name": "year", "type": "integer"}]}
    assert Index.build(path, schema=schema).search("year:>2000").ids == ["2"]
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    table = pa.table({"id": ["1", "2"], "text": ["sour apple", "pear"], "tags": [["a", "b"], None]})
    for compression in ("snappy", "zstd", "gzip", "none"):
        path = tmp_path / f"{compression}.parquet"
        pq.write_table(table, path, compression=compression)
        index = Index.build(path)
        assert index.search("apple").ids == ["1"] and index.document("1")["tags"] == ["a", "b"]


def test_documents_without_text_are_warned_about(tmp_path):
    path = write(tmp_path / "docs.jsonl", [{"id": 1, "body": "apple"}])
    with pytest.warns(UserWarning, match="fields seen: body, id"):
        Index.build(path)
