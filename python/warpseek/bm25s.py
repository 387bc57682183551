"""A retriever with the interface of bm25s.

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
from typing import Any, Iterable, Literal, NamedTuple, Sequence

import numpy as np
from numpy.typing import NDArray

from warpseek import _arguments, _warpseek
from warpseek._index import Index, asking
from warpseek._progress import Bar

Method = Literal["lucene", "robertson"]

#: Methods of bm25s that the library supports: the ranking function, and True if its scores are
#: those of bm25s times k1 + 1.
_METHODS: dict[Method, tuple[_arguments.RankingName, bool]] = {
    "lucene": ("bm25", False),
    "robertson": ("okapi", True),
}
#: Methods of bm25s that are not supported.
_MISSING = ("atire", "bm25l", "bm25+")
_BACKENDS = ("auto", "numpy", "numba", "jax")

#: Files in a folder that :meth:`BM25.save` has written.
_INDEX, _PARAMETERS, _CORPUS = "index", "bm25.json", "corpus.jsonl"


class Retrieved(NamedTuple):
    """Documents and scores, both of shape (queries, k)."""

    documents: NDArray[Any]
    scores: NDArray[Any]


class BM25:
    """BM25 over documents that are tokenized already.

    Tokens are lists of strings, or what ``bm25s.tokenize`` returns.

    :param k1: Parameter of BM25.
    :param b: Parameter of BM25.
    :param method: ``"lucene"`` or ``"robertson"``.
    :param dtype: Type of scores.
    :param corpus: Items that :meth:`retrieve` returns instead of numbers.

    ``delta`` has no meaning for these methods. ``int_dtype``, ``backend``, ``csc_backend`` and
    ``auto_compile`` have no effect; they are accepted so that programs for bm25s need no change.
    """

    def __init__(
        self,
        k1: float = 1.5,
        b: float = 0.75,
        delta: float = 0.5,
        method: Method = "lucene",
        idf_method: Method | None = None,
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
        self.k1, self.b = _arguments.real("k1", k1), _arguments.real("b", b)
        self.method: Method = method
        self.corpus = corpus
        self.dtype = _float("dtype", dtype)
        self._index: Index | None = None
        #: Words by number, if tokens were given as numbers with a vocabulary.
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
        """Builds an index of tokenized documents.

        A document may have no tokens, whatever ``create_empty_token`` is. A progress bar remains
        visible, whatever ``leave_progress`` is.

        :param corpus: The tokens of the documents.
        :param show_progress: Whether to show a progress bar, if tqdm is installed.
        :param path: Directory of the index. Default: a temporary directory.
        """
        numbered = _numbered(corpus)
        words = None if numbered is None else _vocabulary(corpus)
        texts = enumerate(_several("corpus", corpus if numbered is None else numbered[0]))
        documents = ({"id": str(i), "text": _joined(i, _split("document", i, tokens), words)} for i, tokens in texts)
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
        self._words = words

    def retrieve(
        self,
        query_tokens: Any,
        corpus: Sequence[Any] | None = None,
        k: int = 10,
        sorted: bool = True,
        return_as: Literal["tuple", "documents"] = "tuple",
        show_progress: bool = False,
        leave_progress: bool = False,
        n_threads: int = 0,
        chunksize: int = 50,
        backend_selection: Literal["auto", "numpy", "numba", "jax"] = "auto",
        weight_mask: Any = None,
    ) -> Any:
        """Returns the best ``k`` documents of each query.

        Documents are given as numbers, or as items of ``corpus``. If fewer than ``k`` documents
        match, others follow with a score of 0.

        :param query_tokens: The tokens of the queries.
        :param corpus: Items to return instead of numbers. Default: the corpus of this retriever.
        :param k: Number of documents for each query.
        :param sorted: Has no effect: documents are always sorted by score.
        :param return_as: ``"tuple"`` for documents and scores, or ``"documents"``.
        :param show_progress: Whether to show a progress bar, if tqdm is installed.
        :param leave_progress: Has no effect.
        :param n_threads: Number of threads. 0 uses those of the index, -1 one per core.
        :param chunksize: Has no effect. In bm25s it is the number of queries of a thread at a time.
        :param backend_selection: Has no effect, but must be one of the names that bm25s accepts.
        :param weight_mask: A number for each document by which its score is multiplied.
        """
        _one_of("return_as", return_as, ("tuple", "documents"))
        _one_of("backend_selection", backend_selection, _BACKENDS)
        for name, value in (("sorted", sorted), ("show_progress", show_progress), ("leave_progress", leave_progress)):
            _arguments.flag(name, value)
        _arguments.whole(1)("chunksize", chunksize)
        k, n_threads = _arguments.whole()("k", k), _arguments.whole(-1, 1024)("n_threads", n_threads)
        size = len(self._made())
        if k > size:
            raise ValueError(f"k is {k}, but there are only {size} documents; ask for fewer")
        threads = (os.cpu_count() or 1) if n_threads == -1 else n_threads or None
        documents, scores = self._best(query_tokens, k, weight_mask, threads, show_progress)
        shown = _shown(documents, self.corpus if corpus is None else corpus)
        return Retrieved(shown, scores.astype(self.dtype, copy=False)) if return_as == "tuple" else shown

    def get_scores(self, query_tokens_single: Sequence[Any], weight_mask: Any = None) -> NDArray[Any]:
        """Returns the scores of all documents for one query.

        >>> from warpseek.bm25s import BM25
        >>> retriever = BM25()
        >>> retriever.index([["apple", "pie"], ["plum"], ["apple"]])
        >>> (retriever.get_scores(["apple"]) > 0).tolist()
        [True, False, True]
        """
        if isinstance(query_tokens_single, str):
            raise ValueError("a query must be a list of tokens, not a string")
        size = len(self._made())
        documents, found = self._best([query_tokens_single], size, weight_mask, None, False)
        scores = np.empty(size, dtype=self.dtype)
        scores[documents[0]] = found[0]
        return scores

    def save(
        self,
        save_dir: str | os.PathLike[str],
        corpus: Iterable[Any] | None = None,
        *,
        show_progress: bool = False,
        leave_progress: bool = False,
    ) -> None:
        """Writes the index, and the corpus if there is one, into a folder, for :meth:`load`.

        The format of the files is not that of bm25s.

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
        # An index that was loaded from this folder is there already.
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
        """Opens a retriever that :meth:`save` has written.

        With ``load_corpus`` it returns items of the corpus, where texts have become dicts with
        ``id`` and ``text``.
        """
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

    def _best(
        self, queries: Any, k: int, mask: Any, threads: int | None, progress: bool
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Returns the numbers and scores of the best documents, of shape (queries, k)."""
        index, words = self._made(), self._words
        numbered = _numbered(queries)
        if numbered is not None:
            queries, words = numbered[0], _vocabulary(queries)
        texts = [_split("query", number, tokens) for number, tokens in enumerate(_several("query_tokens", queries))]
        given = _mask(mask, len(index))
        with Bar(progress, "queries") as report:
            documents, scores = _warpseek.retrieve_tokens(
                index._native, texts, words, k, asking(threads=threads), self._unit(), given, report
            )
        return documents.reshape(len(texts), k), scores.reshape(len(texts), k)

    def _unit(self) -> float:
        """Returns the factor that converts a score to that of bm25s."""
        return 1 / (self.k1 + 1) if _METHODS[self.method][1] else 1.0


def _one_of(name: str, value: Any, known: Iterable[str]) -> None:
    if value not in tuple(known):
        raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(known)}")


def _float(name: str, value: Any) -> np.dtype[Any]:
    try:
        kind: np.dtype[Any] = np.dtype(value)
    except TypeError:
        kind = np.dtype(object)
    if kind.kind != "f":
        raise ValueError(f"{name} is {value!r}; it must be a floating-point type such as 'float32'")
    return kind


def _mask(given: Any, size: int) -> NDArray[np.float64] | None:
    if given is None:
        return None
    try:
        mask = np.ascontiguousarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        _arguments.refuse("weight_mask", given, "a number for each document")
    if mask.shape != (size,):
        raise ValueError(f"weight_mask has shape {mask.shape}, but there are {size} documents")
    return mask


def _shown(documents: NDArray[np.int64], corpus: Any) -> NDArray[Any]:
    """Replaces the numbers of documents by items of the corpus."""
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
    """Returns the numbers of tokens and their vocabulary, or None if tokens are strings."""
    if isinstance(corpus, tuple) and len(corpus) == 2 and isinstance(corpus[1], dict):
        return corpus[0], corpus[1]
    if hasattr(corpus, "ids") and hasattr(corpus, "vocab"):
        return corpus.ids, corpus.vocab
    return None


def _vocabulary(corpus: Any) -> dict[int, str] | None:
    numbered = _numbered(corpus)
    return None if numbered is None else {int(n): word for word, n in numbered[1].items()}


def _several(name: str, values: Any) -> Any:
    """Checks that values can be iterated over as lists of tokens, or texts."""
    expected = "a list of lists of tokens, or what bm25s.tokenize returns"
    if isinstance(values, (str, bytes, dict)):
        _arguments.refuse(name, values, expected)
    _arguments.iterable(name, values, expected)
    return values


def _split(what: str, number: int, tokens: Any) -> Any:
    """Returns the tokens of a text. A string is split at white space."""
    if isinstance(tokens, str):
        return tokens.split()
    _arguments.iterable(f"{what} {number}", tokens, "a list of tokens")
    return tokens


def _joined(document: int, tokens: Iterable[Any], words: dict[int, str] | None) -> str:
    """Joins the tokens of a document. Numbers are looked up in the vocabulary, if there is one."""
    read = []
    for token in tokens:
        if isinstance(token, (int, np.integer)):
            token = str(token) if words is None else _word(document, int(token), words)
        elif not isinstance(token, str):
            _arguments.refuse(f"a token of document {document}", token, "a string or its number")
        if any(character.isspace() for character in token):
            raise ValueError(f"the token {token!r} of document {document} contains white space")
        # The empty token represents a text without tokens.
        if token != "":
            read.append(token)
    return " ".join(read)


def _word(document: int, number: int, words: dict[int, str]) -> str:
    word = words.get(number)
    if word is None:
        raise ValueError(
            f"document {document} has the token {number}, which is not in the vocabulary of {len(words)} tokens"
        )
    return word
