"""A retriever that is used like that of bm25s.

>>> from warpseek.bm25s import BM25
>>> retriever = BM25()
>>> retriever.index([["apple", "pie"], ["plum"], ["apple"]])
>>> documents, scores = retriever.retrieve([["pie", "apple"]], k=2)
>>> documents.tolist()
[[0, 2]]
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any, Iterable, NamedTuple, Sequence

import numpy as np
from numpy.typing import NDArray

from warpseek._index import Index

#: Methods of bm25s that the library has, by their names there.
_METHODS = {"lucene": "bm25"}


class Retrieved(NamedTuple):
    """What was found: both are of shape (queries, k)."""

    documents: NDArray[Any]
    scores: NDArray[np.float32]


class BM25:
    """BM25 over tokens that the caller has made: lists of strings, or what ``bm25s.tokenize`` returns."""

    def __init__(
        self,
        k1: float = 1.5,
        b: float = 0.75,
        method: str = "lucene",
        corpus: Sequence[Any] | None = None,
    ):
        if method not in _METHODS:
            raise ValueError(f"method is {method!r}; it is one of {', '.join(_METHODS)}")
        self.k1, self.b, self.method, self.corpus = k1, b, method, corpus
        self._index: Index | None = None

    def index(
        self, corpus: Any, *, path: str | os.PathLike[str] | None = None, show_progress: bool = False
    ) -> None:
        """Makes an index of the tokens of documents, in a directory or in a temporary one."""
        documents = ({"id": str(i), "text": _joined(of)} for i, of in enumerate(_tokens(corpus)))
        self._index = Index.build(
            documents,
            path,
            analyzer="raw",
            store="ids",
            progress=show_progress,
            ranking=_METHODS[self.method],
            k1=self.k1,
            b=self.b,
        )

    def retrieve(
        self,
        query_tokens: Any,
        corpus: Sequence[Any] | None = None,
        k: int = 10,
        *,
        return_as: str = "tuple",
        n_threads: int = 0,
        weight_mask: Any = None,
        show_progress: bool = False,
    ) -> Any:
        """The best ``k`` documents of each query: numbers, or items of ``corpus``. Where fewer match, others follow with a score of 0.

        :param n_threads: 0 for the threads of the index, -1 for one a core
        :param return_as: ``"tuple"`` or ``"documents"``
        :param weight_mask: a number for each document that its score is multiplied by
        """
        if self._index is None:
            raise ValueError("there is no index yet; call index first")
        size = len(self._index)
        if k > size:
            raise ValueError(f"k is {k}, and there are {size} documents; ask for fewer")
        if return_as not in ("tuple", "documents"):
            raise ValueError(f"return_as is {return_as!r}; it is one of tuple, documents")
        mask = None if weight_mask is None else np.asarray(weight_mask, dtype=np.float64)
        if mask is not None and mask.shape != (size,):
            raise ValueError(f"weight_mask has shape {mask.shape}, and there are {size} documents")
        queries = [dict(Counter(tokens)) for tokens in _tokens(query_tokens)]
        documents = np.zeros((len(queries), k), dtype=np.int64)
        scores = np.zeros((len(queries), k), dtype=np.float32)
        # With a mask any match may be among the best.
        threads = (os.cpu_count() or 1) if n_threads == -1 else n_threads or None
        most = k if mask is None else size
        results = self._index.search_many(queries, most, threads=threads, progress=show_progress)
        numbers = results.numbers
        for query in range(len(queries)):
            part = slice(int(results.offsets[query]), int(results.offsets[query + 1]))
            found, values = numbers[part].astype(np.int64), results.scores[part]
            if mask is not None:
                values = values * mask[found]
                best = np.argsort(-values, kind="stable")
                found, values = found[best][:k], values[best][:k]
            if len(found) < k:
                others = np.setdiff1d(np.arange(min(size, k + len(found))), found)
                values = np.pad(values, (0, k - len(found)))
                found = np.concatenate([found, others[: k - len(found)]])
            documents[query], scores[query] = found, values
        corpus = self.corpus if corpus is None else corpus
        shown: NDArray[Any] = documents
        if corpus is not None:
            items = np.empty(len(corpus), dtype=object)
            items[:] = corpus
            shown = items[documents]
        return Retrieved(shown, scores) if return_as == "tuple" else shown


def _tokens(corpus: Any) -> Iterable[list[str]]:
    """Tokens of texts, also if they are numbers of a vocabulary."""
    if hasattr(corpus, "ids") and hasattr(corpus, "vocab"):
        words = {number: word for word, number in corpus.vocab.items()}
        return [[words[number] for number in of] for of in corpus.ids]
    return [list(of) if not isinstance(of, str) else of.split() for of in corpus]


def _joined(tokens: list[str]) -> str:
    for token in tokens:
        if not token or any(character.isspace() for character in token):
            raise ValueError(f"{token!r} is no token: it is empty or has blanks")
    return " ".join(tokens)
