"""A retriever that is used like that of bm25s.

>>> from warpseek.bm25s import BM25
>>> retriever = BM25()
>>> retriever.index([["apple", "pie"], ["plum"], ["apple"]])
>>> documents, scores = retriever.retrieve([["pie", "apple"]], k=2)
>>> documents.tolist()
[[0, 2]]
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
from collections import Counter
from typing import Any, Iterable, NamedTuple, Sequence

import numpy as np
from numpy.typing import NDArray

from warpseek._index import Index

#: Methods of bm25s that the library has: the ranking, and whether its scores are those of bm25s times k1 + 1.
_METHODS = {"lucene": ("bm25", False), "robertson": ("okapi", True)}
#: The other methods of bm25s.
_MISSING = ("atire", "bm25l", "bm25+")
_BACKENDS = ("auto", "numpy", "numba", "jax")

#: Files of a folder that :meth:`BM25.save` wrote.
_INDEX, _PARAMETERS, _CORPUS = "index", "bm25.json", "corpus.jsonl"


class Retrieved(NamedTuple):
    """What was found: both are of shape (queries, k)."""

    documents: NDArray[Any]
    scores: NDArray[Any]


class BM25:
    """BM25 over tokens that the caller has made: lists of strings, or what ``bm25s.tokenize`` returns.

    :param method: ``"lucene"`` or ``"robertson"``
    :param dtype: of scores
    :param corpus: what :meth:`retrieve` returns in the place of numbers

    ``delta`` has no meaning for these methods, and ``int_dtype``, ``backend``, ``csc_backend`` and ``auto_compile`` have none
    here: they are taken, so that programs for bm25s need no change.
    """

    def __init__(
        self,
        k1: float = 1.5,
        b: float = 0.75,
        delta: float = 0.5,
        method: str = "lucene",
        idf_method: str | None = None,
        dtype: str = "float32",
        int_dtype: str = "int32",
        corpus: Sequence[Any] | None = None,
        backend: str = "auto",
        csc_backend: str = "auto",
        auto_compile: bool = True,
    ):
        if method in _MISSING:
            here = ", ".join(_METHODS)
            raise ValueError(f"method {method!r} of bm25s is not supported here; there are: {here}")
        _one_of("method", method, _METHODS)
        if idf_method not in (None, method):
            raise ValueError(
                f"idf_method {idf_method!r} beside method {method!r} is not supported here; leave it out"
            )
        self.k1, self.b, self.method, self.corpus = k1, b, method, corpus
        self.dtype = np.dtype(dtype)
        self._index: Index | None = None
        #: Words of the numbers that stand for tokens, if the index was made of numbers and a vocabulary.
        self._words: dict[int, str] | None = None

    def index(
        self,
        corpus: Any,
        create_empty_token: bool = True,
        show_progress: bool = False,
        leave_progress: bool = False,
        *,
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        """Makes an index of the tokens of documents, in a directory or in a temporary one.

        A document may be without tokens whatever ``create_empty_token`` says; a progress bar stays whatever ``leave_progress`` says.
        """
        self._words = _vocabulary(corpus)
        texts = enumerate(_tokens(corpus, self._words))
        documents = ({"id": str(i), "text": _joined(of)} for i, of in texts)
        self._index = Index.build(
            documents,
            path,
            analyzer="raw",
            store="ids",
            progress=show_progress,
            ranking=_METHODS[self.method][0],
            k1=self.k1,
            b=self.b,
        )

    def retrieve(
        self,
        query_tokens: Any,
        corpus: Sequence[Any] | None = None,
        k: int = 10,
        sorted: bool = True,
        return_as: str = "tuple",
        show_progress: bool = False,
        leave_progress: bool = False,
        n_threads: int = 0,
        chunksize: int = 50,
        backend_selection: str = "auto",
        weight_mask: Any = None,
    ) -> Any:
        """The best ``k`` documents of each query: numbers, or items of ``corpus``. Where fewer match, others follow with a score of 0.

        :param sorted: they are sorted by score, also if this is False
        :param return_as: ``"tuple"`` or ``"documents"``
        :param n_threads: 0 for the threads of the index, -1 for one a core
        :param chunksize: how many queries bm25s gives a thread at a time; it has no effect here, and neither has ``leave_progress``
        :param backend_selection: one of those of bm25s; none is used here
        :param weight_mask: a number for each document that its score is multiplied by
        """
        _one_of("return_as", return_as, ("tuple", "documents"))
        _one_of("backend_selection", backend_selection, _BACKENDS)
        index = self._made()
        size = len(index)
        if k > size:
            raise ValueError(f"k is {k}, and there are {size} documents; ask for fewer")
        mask = _mask(weight_mask, size)
        queries = self._queries(query_tokens)
        documents = np.zeros((len(queries), k), dtype=np.int64)
        scores = np.zeros((len(queries), k), dtype=self.dtype)
        # With a mask any match may be among the best.
        threads = (os.cpu_count() or 1) if n_threads == -1 else n_threads or None
        most = k if mask is None else size
        results = index.search_many(queries, most, threads=threads, progress=show_progress)
        numbers, found_scores = results.numbers, results.scores * self._unit()
        for query in range(len(queries)):
            part = slice(int(results.offsets[query]), int(results.offsets[query + 1]))
            found, values = numbers[part].astype(np.int64), found_scores[part]
            if mask is not None:
                values = values * mask[found]
                best = np.argsort(-values, kind="stable")
                found, values = found[best][:k], values[best][:k]
            if len(found) < k:
                others = np.setdiff1d(np.arange(min(size, k + len(found))), found)
                values = np.pad(values, (0, k - len(found)))
                found = np.concatenate([found, others[: k - len(found)]])
            documents[query], scores[query] = found, values
        shown = _shown(documents, self.corpus if corpus is None else corpus)
        return Retrieved(shown, scores) if return_as == "tuple" else shown

    def get_scores(self, query_tokens_single: Sequence[Any], weight_mask: Any = None) -> NDArray[Any]:
        """The scores of all documents for one query.

        >>> from warpseek.bm25s import BM25
        >>> retriever = BM25()
        >>> retriever.index([["apple", "pie"], ["plum"], ["apple"]])
        >>> (retriever.get_scores(["apple"]) > 0).tolist()
        [True, False, True]
        """
        if isinstance(query_tokens_single, str):
            raise ValueError("a query is a list of tokens, and this is a string")
        index = self._made()
        mask = _mask(weight_mask, len(index))
        results = index.search_many(self._queries([query_tokens_single]), len(index))
        scores = np.zeros(len(index), dtype=np.float64)
        scores[results.numbers] = results.scores * self._unit()
        return (scores if mask is None else scores * mask).astype(self.dtype)

    def save(
        self,
        save_dir: str | os.PathLike[str],
        corpus: Iterable[Any] | None = None,
        *,
        show_progress: bool = False,
        leave_progress: bool = False,
    ) -> None:
        """Writes the index into a folder, for :meth:`load`, with the corpus if there is one. The files are not those of bm25s.

        >>> import tempfile
        >>> from warpseek.bm25s import BM25
        >>> folder = tempfile.TemporaryDirectory()
        >>> retriever = BM25(corpus=["apple pie", "plum"])
        >>> retriever.index([["apple", "pie"], ["plum"]])
        >>> retriever.save(folder.name)
        >>> BM25.load(folder.name, load_corpus=True).retrieve([["plum"]], k=1).documents.tolist()
        [[{'id': 1, 'text': 'plum'}]]
        """
        index = self._made()
        folder = pathlib.Path(save_dir)
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / _INDEX
        # An index that was loaded from here is here already.
        if not (target.exists() and os.path.samefile(target, index.path)):
            copy = folder / f"{_INDEX}.new"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(index.path, copy)
            if target.exists():
                shutil.rmtree(target)
            copy.rename(target)
        parameters = {
            "k1": self.k1,
            "b": self.b,
            "method": self.method,
            "dtype": self.dtype.name,
            "words": None if self._words is None else list(self._words.items()),
        }
        (folder / _PARAMETERS).write_text(json.dumps(parameters), encoding="utf-8")
        corpus = self.corpus if corpus is None else corpus
        (folder / _CORPUS).unlink(missing_ok=True)
        if corpus is not None:
            with open(folder / _CORPUS, "w", encoding="utf-8") as file:
                for number, item in enumerate(corpus):
                    item = {"id": number, "text": item} if isinstance(item, str) else item
                    file.write(json.dumps(item, ensure_ascii=False) + "\n")

    @classmethod
    def load(
        cls,
        save_dir: str | os.PathLike[str],
        *,
        load_corpus: bool = False,
        mmap: bool = True,
        load_vocab: bool = True,
        show_progress: bool = False,
        leave_progress: bool = False,
    ) -> BM25:
        """A retriever of what :meth:`save` wrote; with ``load_corpus`` it returns items of the corpus, in which texts are dicts with ``id`` and ``text``."""
        folder = pathlib.Path(save_dir)
        parameters = json.loads((folder / _PARAMETERS).read_text(encoding="utf-8"))
        words = parameters.pop("words")
        made = cls(**parameters)
        made._words = None if words is None else dict(words)
        made._index = Index.open(
            folder / _INDEX,
            ranking=_METHODS[made.method][0],
            k1=made.k1,
            b=made.b,
            mmap=mmap,
        )
        if load_corpus and (folder / _CORPUS).exists():
            with open(folder / _CORPUS, encoding="utf-8") as file:
                made.corpus = [json.loads(line) for line in file]
        return made

    def _made(self) -> Index:
        if self._index is None:
            raise ValueError("there is no index yet; call index first")
        return self._index

    def _queries(self, queries: Any) -> list[dict[str, int]]:
        return [dict(Counter(of)) for of in _tokens(queries, self._words)]

    def _unit(self) -> float:
        """What a score is multiplied by to be that of bm25s."""
        return 1 / (self.k1 + 1) if _METHODS[self.method][1] else 1.0


def _one_of(name: str, value: str, known: Iterable[str]) -> None:
    if value not in known:
        raise ValueError(f"{name} is {value!r}; it is one of {', '.join(known)}")


def _mask(given: Any, size: int) -> NDArray[np.float64] | None:
    if given is None:
        return None
    mask = np.asarray(given, dtype=np.float64)
    if mask.shape != (size,):
        raise ValueError(f"weight_mask has shape {mask.shape}, and there are {size} documents")
    return mask


def _shown(documents: NDArray[np.int64], corpus: Any) -> NDArray[Any]:
    """Items of the corpus in the place of their numbers."""
    if corpus is None:
        return documents
    if isinstance(corpus, np.ndarray) and corpus.ndim == 1:
        shown: NDArray[Any] = corpus[documents]
        return shown
    items = np.empty(documents.size, dtype=object)
    for at, number in enumerate(documents.ravel().tolist()):
        items[at] = corpus[number]
    return items.reshape(documents.shape)


def _numbered(corpus: Any) -> tuple[Any, dict[str, int]] | None:
    """Numbers of tokens and their vocabulary, if that is what this is."""
    if isinstance(corpus, tuple) and len(corpus) == 2 and isinstance(corpus[1], dict):
        return corpus[0], corpus[1]
    if hasattr(corpus, "ids") and hasattr(corpus, "vocab"):
        return corpus.ids, corpus.vocab
    return None


def _vocabulary(corpus: Any) -> dict[int, str] | None:
    numbered = _numbered(corpus)
    return None if numbered is None else {int(n): word for word, n in numbered[1].items()}


def _tokens(corpus: Any, words: dict[int, str] | None) -> Iterable[list[str]]:
    """The tokens of texts. What is a number is looked up in the vocabulary that it came with, else in that of the index, if it has one."""
    numbered = _numbered(corpus)
    if numbered is not None:
        corpus, words = numbered[0], _vocabulary(corpus)
    return [_of_text(of.split() if isinstance(of, str) else of, words) for of in corpus]


def _of_text(tokens: Iterable[Any], words: dict[int, str] | None) -> list[str]:
    read = []
    for token in tokens:
        if isinstance(token, (int, np.integer)):
            token = str(token) if words is None else words.get(int(token), "")
        # The empty token stands for a text without tokens.
        if token != "":
            read.append(token)
    return read


def _joined(tokens: list[str]) -> str:
    for token in tokens:
        if any(character.isspace() for character in token):
            raise ValueError(f"{token!r} is no token: it has blanks")
    return " ".join(tokens)
