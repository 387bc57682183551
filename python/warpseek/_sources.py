"""Conversion of documents and queries from the types in which callers have them."""

from __future__ import annotations

import itertools
import os
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from warpseek import _arguments, _warpseek

#: Names of the field with a document's id, in the order in which they are tried.
ID_FIELDS = ("id", "docno", "doc_id", "docid", "_id")

#: Number of rows of a table that are converted at a time.
_ROWS = 1024


def paths(source: Any) -> list[str] | None:
    """Returns the paths of the files that a source names, or None if it is something else.

    A list of strings is a list of documents, unless every string looks like the name of a file of
    documents. A file that does not exist is then an error.

    >>> paths("docs.jsonl")
    ['docs.jsonl']
    >>> paths([{"id": "1"}]) is None
    True
    """
    if isinstance(source, (str, os.PathLike)):
        return [os.fspath(source)]
    if isinstance(source, (list, tuple)) and source:
        if all(_names_file(item) for item in source):
            return [os.fspath(item) for item in source]
    return None


def are_files(documents: Any) -> bool:
    """Returns True if an argument for documents names files instead.

    A string is a document, unless it looks like the name of a file of documents.

    >>> are_files("docs.jsonl"), are_files(["docs.jsonl"]), are_files("see docs.jsonl")
    (True, True, False)
    """
    return _names_file(documents) or (not isinstance(documents, str) and paths(documents) is not None)


def _names_file(item: Any) -> bool:
    return isinstance(item, os.PathLike) or (isinstance(item, str) and _warpseek.names_file(item))


def named(items: Iterator[Any], title: str | None, texts: Sequence[str]) -> Iterator[Any]:
    """Renames the fields with the title and the text of documents to the usual names.

    >>> list(named(iter([{"id": 1, "head": "A", "body": {"x": ["b", "c"]}}]), "head", ["body.x"]))
    [{'id': 1, 'title': 'A', 'text': 'b\\nc', 'body': {'x': ['b', 'c']}}]
    """
    return (_named(item, title, texts) if isinstance(item, dict) else item for item in items)


def _named(item: dict[str, Any], title: str | None, texts: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if title is not None:
        found["title"] = "\n".join(_values(item, title))
    if texts:
        found["text"] = "\n".join(value for name in texts for value in _values(item, name))
    gone = {*found, *texts, title}
    ids = {name: item[name] for name in ID_FIELDS if name in item and name not in gone}
    return {**ids, **found, **{name: value for name, value in item.items() if name not in gone}}


def _values(value: Any, path: str) -> Iterator[str]:
    if value is None:
        return
    if isinstance(value, (list, tuple)):
        for element in value:
            yield from _values(element, path)
    elif isinstance(value, Mapping):
        if path in value:
            yield from _values(value[path], "")
            return
        parts = path.split(".")
        for end in range(1, len(parts)):
            inner = value.get(".".join(parts[:end]))
            if inner is not None:
                yield from _values(inner, ".".join(parts[end:]))
        if not path:
            raise TypeError("a field with text is an object; name a field inside with a dot")
    elif not path:
        yield str(value)


def is_matrix(source: Any) -> bool:
    """Returns True for a sparse matrix of SciPy."""
    return hasattr(source, "tocsr")


def rows(matrix: Any) -> tuple[Any, Any, Any]:
    """Returns the arrays of a sparse matrix in CSR format."""
    matrix = matrix.tocsr()
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    if np.iscomplexobj(matrix.data):
        raise TypeError("weights must be real numbers, but this matrix has complex ones")
    starts = np.ascontiguousarray(matrix.indptr, dtype=np.int64)
    columns = np.ascontiguousarray(matrix.indices, dtype=np.int64)
    return starts, columns, np.ascontiguousarray(matrix.data, dtype=np.float64)


def documents(source: Any, name: str = "source") -> Iterator[Any]:
    """Iterates over documents as dicts or strings.

    >>> list(documents([("a", "apple pie"), "plum"]))
    [{'id': 'a', 'text': 'apple pie'}, 'plum']
    """
    if hasattr(source, "docs_iter"):  # a dataset of ir_datasets
        return (_of_dataset(doc) for doc in source.docs_iter())
    if hasattr(source, "to_batches") or hasattr(source, "read_next_batch"):  # pyarrow
        return _of_arrow(source)
    if hasattr(source, "iter_rows"):  # polars
        return iter(source.iter_rows(named=True))
    if hasattr(source, "iloc") and hasattr(source, "columns"):  # pandas
        return _of_pandas(source)
    if hasattr(source, "__arrow_c_stream__"):
        import pyarrow as pa

        return _of_arrow(pa.RecordBatchReader.from_stream(source))
    if isinstance(source, (bytes, Mapping)):
        _arguments.refuse(name, source, "a list of documents")
    _arguments.iterable(name, source, "documents: a list of dicts or strings, a table, or a path")
    return (_document(item) for item in source)


def _document(item: Any) -> Any:
    if isinstance(item, (dict, str)):
        return item
    if hasattr(item, "doc_id"):
        return _of_dataset(item)
    if isinstance(item, tuple) and len(item) == 2:
        return {"id": item[0], "text": item[1]}
    if hasattr(item, "keys"):
        return dict(item)
    return item


def _of_dataset(doc: Any) -> dict[str, Any]:
    text = doc.default_text() if hasattr(doc, "default_text") else doc.text
    return {"id": doc.doc_id, "text": text}


def _of_arrow(table: Any) -> Iterator[Any]:
    batches = table.to_batches(max_chunksize=_ROWS) if hasattr(table, "to_batches") else table
    for batch in batches:
        for start in range(0, batch.num_rows, _ROWS):
            yield from batch.slice(start, _ROWS).to_pylist()


def _of_pandas(frame: Any) -> Iterator[Any]:
    names = [str(name) for name in frame.columns]
    for start in range(0, len(frame), _ROWS):
        part = frame.iloc[start : start + _ROWS]
        # Missing values become None, however the column represents them.
        part = part.astype(object).where(part.notna(), None)
        for values in part.itertuples(index=False, name=None):
            yield dict(zip(names, values))


def id_field(items: Iterator[Any], given: str | None) -> tuple[Iterator[Any], str]:
    """Returns an iterator over the same items, and the name of the field with their ids."""
    if given is not None:
        return items, given
    first = next(items, None)
    if first is None:
        return iter(()), ID_FIELDS[0]
    known = (name for name in ID_FIELDS if isinstance(first, dict) and name in first)
    return itertools.chain([first], items), next(known, ID_FIELDS[0])


def asked(source: Any) -> tuple[Any, list[str] | None]:
    """Returns queries as a list or an Arrow column, and their ids if they have any.

    >>> asked(np.array(["apple", "plum"]))
    (['apple', 'plum'], None)
    """
    if isinstance(source, (str, bytes, Mapping)):
        raise TypeError("search_many takes many queries; use search for one")
    if hasattr(source, "queries_iter"):  # a dataset of ir_datasets
        source = list(source.queries_iter())
    names = _columns(source)
    if names is not None:
        return _of_frame(source, names)
    if hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__"):
        return source, None
    items = queries(source)
    if items and hasattr(items[0], "query_id"):
        return [_text_of(item) for item in items], [str(item.query_id) for item in items]
    return items, None


def _columns(source: Any) -> list[str] | None:
    """Returns the names of the columns of a table."""
    names = getattr(source, "column_names", None)  # Arrow
    if names is None and getattr(source, "ndim", 2) == 2:  # pandas and polars
        names = getattr(source, "columns", None)
    return None if names is None or callable(names) else [str(name) for name in names]


def _of_frame(frame: Any, names: list[str]) -> tuple[Any, list[str] | None]:
    texts = next((name for name in ("query", "text") if name in names), None)
    if texts is None:
        raise ValueError(f"a table of queries must have a column query; this one has: {', '.join(names)}")
    ids = next((name for name in ("qid", "query_id") if name in names), None)
    found, _ = asked(frame[texts])
    return found, None if ids is None else _arguments.ids(ids, frame[ids])


def _text_of(query: Any) -> str:
    text = query.default_text() if hasattr(query, "default_text") else query.text
    return str(text)


def queries(source: Any) -> Sequence[Any]:
    """Returns values as a list.

    >>> queries(np.array(["apple", "plum"]))
    ['apple', 'plum']
    """
    return _arguments.several("queries", source, "a list of strings, or of dicts of terms and weights")


def reader(index: Any, syntax: bool) -> Callable[[Any], Any]:
    """Returns the function that prepares a user's text as a query, for retrievers of other tools.

    Without the syntax, the text consists of words alone, and ``^`` does not set a weight. In an
    index of vectors, whose queries are not typed by users, text is left unchanged.
    """
    if syntax or index.facts["content"] != "text":
        return lambda query: query
    return lambda query: query.replace("^", " ") if isinstance(query, str) else query


def take_text(stored: dict[str, Any], field: str) -> str:
    """Removes the text from a stored document and returns it.

    As in files, the text is ``contents`` if there is no ``text``.

    >>> take_text({"id": "1", "contents": "apple"}, "text")
    'apple'
    """
    if field == "text" and "text" not in stored:
        field = "contents"
    return str(stored.pop(field, ""))
