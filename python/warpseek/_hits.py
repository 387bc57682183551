"""Results of searches."""

from __future__ import annotations

import html
import os
from typing import Any, Iterator, Sequence, Union, overload

import numpy as np
from numpy.typing import NDArray

from warpseek import _arguments, _warpseek


class Hit:
    """A document that a search found."""

    __slots__ = ("_native", "rank", "id", "score")

    def __init__(self, native: _warpseek.NativeHits, rank: int):
        self._native = native
        #: Rank, counted from 0.
        self.rank = rank
        #: Id of the document.
        self.id = native.id(rank)
        #: Score of the document.
        self.score = native.score(rank)

    @property
    def document(self) -> Any:
        """The stored document as a dict, or None if the index stores only ids."""
        return self._native.document(self.rank)

    def __getitem__(self, field: str) -> Any:
        return self.document[field]

    def snippet(self, width: int = 160) -> str:
        """Returns the part of the text that shows the query's words.

        :param width: Maximum number of characters.
        """
        found = self._native.snippet(self.rank, _arguments.whole()("width", width))
        return "" if found is None else found[0]

    def explain(self) -> dict[str, Any]:
        """Explains the score, term by term."""
        return self._native.explain(self.rank)

    def _html(self, width: int) -> str:
        found = self._native.snippet(self.rank, width)
        if found is None:
            return ""
        text, marks = found
        parts, end = [], 0
        for start, stop in marks:
            parts += [html.escape(text[end:start]), "<b>", html.escape(text[start:stop]), "</b>"]
            end = stop
        return "".join([*parts, html.escape(text[end:])])

    def __repr__(self) -> str:
        return f"Hit(id={self.id!r}, score={self.score:.4f})"


class Hits(Sequence[Hit]):
    """The hits of one query, best first.

    >>> import warpseek
    >>> index = warpseek.Index.build([{"id": "a", "text": "apple pie"}, {"id": "b", "text": "plum"}])
    >>> hits = index.search("pie", count=True)
    >>> hits
    <1 hit of 1 match: a>
    >>> hits[0].id, hits[0]["text"], hits.matches
    ('a', 'apple pie', 1)
    >>> [term["term"] for term in hits[0].explain()["terms"]]
    ['pie']
    """

    def __init__(self, native: _warpseek.NativeHits):
        self._native = native

    def __len__(self) -> int:
        return len(self._native)

    @overload
    def __getitem__(self, rank: int) -> Hit: ...
    @overload
    def __getitem__(self, rank: slice) -> list[Hit]: ...
    def __getitem__(self, rank: Union[int, slice]) -> Union[Hit, list[Hit]]:
        if isinstance(rank, slice):
            return [Hit(self._native, i) for i in range(*rank.indices(len(self)))]
        return Hit(self._native, _place("a hit", rank, len(self)))

    def __iter__(self) -> Iterator[Hit]:
        return (Hit(self._native, rank) for rank in range(len(self)))

    @property
    def ids(self) -> list[str]:
        """The ids of the hits."""
        return self._native.ids()

    @property
    def scores(self) -> NDArray[np.float64]:
        """The scores of the hits."""
        return self._native.scores()

    @property
    def matches(self) -> int | None:
        """The number of matching documents, if it was counted."""
        return self._native.matches()

    @property
    def complete(self) -> bool:
        """True if all documents were searched, False if the time ran out."""
        return self._native.is_complete()

    @property
    def searched(self) -> tuple[int, int]:
        """The number of documents that were searched, and the number of all documents."""
        return self._native.searched()

    @property
    def seconds(self) -> float:
        """The time that the search took, in seconds."""
        return self._native.took()

    @property
    def generation(self) -> int:
        """The generation of the index that was searched. Each commit increases it."""
        return self._native.generation()

    @property
    def after(self) -> str | None:
        """The position of the last hit; ``search(..., after=hits.after)`` returns the next page."""
        return self._native.after(len(self) - 1) if len(self) else None

    @property
    def facets(self) -> list[dict[str, Any]]:
        """The counts that ``facets`` requested."""
        return self._native.facets()

    def __repr__(self) -> str:
        shown = ", ".join(hit.id for hit in self[:5]) + (", ..." if len(self) > 5 else "")
        hits = f"{len(self)} hit{'' if len(self) == 1 else 's'}"
        matches = self.matches
        if matches is not None:
            hits += f" of {matches} match{'' if matches == 1 else 'es'}"
        part = "" if self.complete else ", not all documents were searched"
        return f"<{hits}{': ' + shown if shown else ''}{part}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{hit.rank + 1}</td><td>{html.escape(hit.id)}</td>"
            f"<td>{hit.score:.4f}</td><td style='text-align:left'>{hit._html(160)}</td></tr>"
            for hit in self[:20]
        )
        head = "<tr><th></th><th>id</th><th>score</th><th style='text-align:left'>text</th></tr>"
        more = f"<p>and {len(self) - 20} more</p>" if len(self) > 20 else ""
        return f"<table>{head}{rows}</table>{more}"


class Results:
    """The hits of many queries, as flat arrays.

    The hits of query ``i`` are at ``offsets[i]`` to ``offsets[i + 1]``. The numeric arrays are
    read-only, since Arrow tables share their memory; copies such as ``scores.copy()`` can be
    changed.

    >>> import warpseek
    >>> index = warpseek.Index.build([{"id": "a", "text": "apple pie"}, {"id": "b", "text": "apple"}])
    >>> results = index.search_many(["apple", "pie", "plum"])
    >>> results
    <3 hits of 3 queries>
    >>> results.offsets.tolist(), results.ids.tolist()
    ([0, 2, 3, 3], ['b', 'a', 'a'])
    >>> [id for id, score in results[0]]
    ['b', 'a']
    """

    def __init__(self, native: _warpseek.NativeResults, query_ids: list[str] | None = None):
        self._native = native
        #: Ids of the queries, if they were given with the queries.
        self.query_ids = query_ids
        #: Offset of the first hit of each query, followed by the number of all hits.
        self.offsets: NDArray[np.int64] = np.asarray(native.offsets())
        #: Scores, in descending order within each query.
        self.scores: NDArray[np.float64] = np.asarray(native.scores())
        self._ids: NDArray[np.object_] | None = None

    def __len__(self) -> int:
        return len(self._native)

    @property
    def ids(self) -> NDArray[np.object_]:
        """The ids of the hits' documents."""
        if self._ids is None:
            ids = self._native.ids()
            self._ids = np.empty(len(ids), dtype=object)
            self._ids[:] = ids
        return self._ids

    @property
    def numbers(self) -> NDArray[np.uint32]:
        """The numbers of the hits' documents, which are valid only for this snapshot."""
        return np.asarray(self._native.numbers())

    @property
    def matches(self) -> NDArray[np.int64]:
        """The number of matching documents of each query, or -1 if it was not counted."""
        return np.asarray(self._native.matches())

    @property
    def partial(self) -> list[int]:
        """The numbers of the queries that ran out of time before all documents were searched."""
        return self._native.partial()

    @property
    def errors(self) -> dict[int, Exception]:
        """The exceptions of the queries that failed, by the number of the query."""
        return dict(self._native.errors())

    @property
    def generation(self) -> int:
        """The generation of the index that was searched."""
        return self._native.generation()

    def arrays(self) -> tuple[NDArray[np.object_], NDArray[np.float64], NDArray[np.int64]]:
        """Returns the ids, scores and offsets."""
        return self.ids, self.scores, self.offsets

    def __getitem__(self, query: int) -> list[tuple[str, float]]:
        query = _place("a query", query, len(self))
        part = slice(int(self.offsets[query]), int(self.offsets[query + 1]))
        return list(zip(self.ids[part].tolist(), self.scores[part].tolist()))

    def __iter__(self) -> Iterator[list[tuple[str, float]]]:
        return (self[query] for query in range(len(self)))

    def query_numbers(self) -> NDArray[np.int64]:
        """Returns the number of the query of each hit."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    def ranks(self) -> NDArray[np.int64]:
        """Returns the rank of each hit, counted from 0."""
        return np.arange(len(self.scores)) - np.repeat(self.offsets[:-1], np.diff(self.offsets))

    def run(self, query_ids: Any = None) -> dict[str, dict[str, float]]:
        """Returns ``{query: {document: score}}``, as ir_measures, ranx and pytrec_eval read it.

        :param query_ids: Ids of the queries. Default: those given with the queries, or else their
            numbers.

        >>> import warpseek
        >>> index = warpseek.Index.build(["apple pie", "plum"])
        >>> sorted(index.search_many(["plum"]).run(["q1"])["q1"])
        ['1']
        """
        return self._native.run(self._names(query_ids))

    def save(self, path: str | os.PathLike[str], query_ids: Any = None, tag: str | None = None) -> None:
        """Writes a TREC run to a file.

        :param path: Path of the file.
        :param query_ids: Ids of the queries, as in :meth:`run`.
        :param tag: Name of the run.
        """
        tag = None if tag is None else _arguments.text("tag", tag)
        self._native.write(_arguments.path("path", path), self._names(query_ids), tag)

    def to_pandas(self, query_ids: Any = None) -> Any:
        """Returns a data frame with ``query_id``, ``doc_id``, ``score`` and ``rank`` (from 0)."""
        import pandas as pd

        names = np.array(self._names(query_ids), dtype=object)
        return pd.DataFrame(
            {
                "query_id": names[self.query_numbers()],
                "doc_id": self.ids,
                "score": self.scores,
                "rank": self.ranks(),
            }
        )

    def to_arrow(self) -> Any:
        """Returns a pyarrow table with ``query`` (its number), ``id``, ``score`` and ``rank``.

        The table shares the memory of :attr:`scores`.
        """
        import pyarrow as pa

        return pa.table(self)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        # Called by everything that reads Arrow, such as polars.DataFrame(results), without
        # pyarrow.
        return self._native.stream()

    def _names(self, query_ids: Any) -> list[str]:
        if query_ids is not None:
            return _arguments.ids("query_ids", query_ids)
        return self.query_ids or [str(i) for i in range(len(self))]

    def __repr__(self) -> str:
        failed = len(self._native.errors())
        return f"<{len(self.scores)} hits of {len(self)} queries{f', {failed} failed' if failed else ''}>"


def _place(what: str, number: Any, count: int) -> int:
    """Returns the index of an item, where negative numbers count from the end."""
    at: int = _arguments.whole(-(2**63), 2**63)(f"the number of {what}", number)
    at += count if at < 0 else 0
    if not 0 <= at < count:
        raise IndexError(f"the number of {what} is {number}, but there are {count}")
    return at
