"""A searcher with the interface of Pyserini's ``LuceneSearcher``.

>>> import warpseek
>>> from warpseek.pyserini import LuceneSearcher
>>> index = warpseek.Index.build([{"id": "a", "text": "apple pie"}, {"id": "b", "text": "plum"}])
>>> searcher = LuceneSearcher(index)
>>> searcher.search("pie")[0].docid, searcher.num_docs
('a', 2)
>>> searcher.doc("b").contents()
'plum'
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Sequence

from warpseek import _arguments, _sources
from warpseek._index import Index

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Document:
    """A stored document."""

    def __init__(self, docid: str, stored: dict[str, Any]):
        self._docid, self._stored = docid, stored

    def docid(self) -> str:
        """Returns the id of the document."""
        return self._docid

    id = docid

    def raw(self) -> str:
        """Returns the document as JSON."""
        return json.dumps(self._stored, ensure_ascii=False)

    def contents(self) -> str:
        """Returns the text of the document, after its title if it has one."""
        if "contents" in self._stored:
            return str(self._stored["contents"])
        parts = (self._stored.get("title"), self._stored.get("text"))
        return "\n".join(str(part) for part in parts if part)

    def get(self, field: str) -> Any:
        """Returns a field. ``raw`` and ``contents`` return what the methods of these names do."""
        if field == "raw":
            return self.raw()
        if field == "contents":
            return self.contents()
        return self._docid if field == "id" else self._stored.get(field)


class JLuceneSearcherResult:
    """A hit."""

    def __init__(self, index: Index, docid: str, score: float):
        self._index = index
        #: Id of the document.
        self.docid = docid
        #: Score of the document.
        self.score = score

    @property
    def lucene_document(self) -> Document | None:
        """The stored document, or None if the index stores only ids."""
        stored = self._index.document(self.docid)
        return None if stored is None else Document(self.docid, stored)

    def __repr__(self) -> str:
        return f"JLuceneSearcherResult(docid={self.docid!r}, score={self.score:.4f})"


class LuceneSearcher:
    """A searcher of an index.

    :param index_dir: The directory of the index, or an open index.
    :param syntax: Whether queries are read in the syntax of docs/reference/query-syntax.md.
        Otherwise they are plain words.
    :param searching: Options of ``Index.open``.
    """

    def __init__(
        self,
        index_dir: str | os.PathLike[str] | Index,
        *,
        syntax: bool = False,
        **searching: Unpack[_arguments.Searching],
    ):
        if isinstance(index_dir, Index):
            if searching:
                raise TypeError(f"the index is open already; pass {', '.join(searching)} to Index.open")
            self._index = index_dir
        else:
            self._index = Index.open(_arguments.path("index_dir", index_dir), **searching)
        self._syntax = _arguments.flag("syntax", syntax)
        self._read = _sources.reader(self._index, self._syntax)
        self._k1: float | None = None
        self._b: float | None = None

    def set_bm25(self, k1: float = 0.9, b: float = 0.4) -> None:
        """Sets the parameters of BM25 for later searches."""
        self._k1, self._b = _arguments.real("k1", k1), _arguments.real("b", b)

    @property
    def num_docs(self) -> int:
        """The number of documents."""
        return len(self._index)

    def search(self, q: str, k: int = 10) -> list[JLuceneSearcherResult]:
        """Returns the best ``k`` documents."""
        hits = self._index.search(
            self._read(q), k, k1=self._k1, b=self._b, syntax=self._syntax
        )
        pairs = zip(hits.ids, hits.scores.tolist())
        return [JLuceneSearcherResult(self._index, id, score) for id, score in pairs]

    def batch_search(
        self, queries: Sequence[str], qids: Sequence[str], k: int = 10, threads: int = 1
    ) -> dict[str, list[JLuceneSearcherResult]]:
        """Answers many queries and returns the hits by the id of the query."""
        queries, qids = _arguments.strings("queries", queries), _arguments.ids("qids", qids)
        if len(queries) != len(qids):
            raise ValueError(f"there are {len(queries)} queries, but {len(qids)} ids")
        results = self._index.search_many(
            [self._read(query) for query in queries],
            k,
            k1=self._k1,
            b=self._b,
            syntax=self._syntax,
            threads=threads,
        )
        return {
            qid: [JLuceneSearcherResult(self._index, id, score) for id, score in hits]
            for qid, hits in zip(qids, results)
        }

    def doc(self, docid: str) -> Document | None:
        """Returns the document with an id, or None if it does not exist."""
        stored = self._index.document(docid)
        return None if stored is None else Document(docid, stored)

    def close(self) -> None:
        """Does nothing: the index need not be closed."""
