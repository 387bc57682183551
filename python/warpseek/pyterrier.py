"""PyTerrier: an index as an artifact, with an indexer and a retriever.

>>> from warpseek.pyterrier import WarpseekIndex
>>> index = WarpseekIndex.build([{"docno": "a", "text": "apple pie"}, {"docno": "b", "text": "plum"}])
>>> index.retriever().search("pie")["docno"].tolist()
['a']
"""

from __future__ import annotations

import json
import os
import pathlib
import tempfile
from typing import TYPE_CHECKING, Any, Iterable

import numpy as np
import pandas as pd
import pyterrier as pt

from warpseek import _arguments, _sources
from warpseek._index import Index

if TYPE_CHECKING:
    from typing_extensions import Unpack

_HELP = "https://pyterrier.readthedocs.io/en/latest/transformer.html"
_FOLDER = "index"
_META = {"type": "sparse_index", "format": "warpseek", "package_hint": "warpseek"}


class WarpseekIndex(pt.Artifact, pt.Indexer):
    """An index as an artifact of PyTerrier.

    :param path: Folder of the artifact, or of a plain index.
    :param searching: Options of ``Index.open``.
    """

    ARTIFACT_TYPE = _META["type"]
    ARTIFACT_FORMAT = _META["format"]

    def __init__(self, path: str | os.PathLike[str], **searching: Unpack[_arguments.Searching]):
        super().__init__(pathlib.Path(path))
        self._folder = pathlib.Path(path)
        self._searching = searching
        self._opened: Index | None = None
        self._owned: Any = None

    @classmethod
    def build(
        cls, documents: Iterable[dict[str, Any]], path: str | os.PathLike[str] | None = None, **options: Any
    ) -> WarpseekIndex:
        """Builds an index of documents.

        :param documents: Dicts with ``docno`` and ``text``.
        :param path: Folder of the artifact. Default: a temporary directory.
        :param options: Options of :meth:`indexer`.
        """
        owned = tempfile.TemporaryDirectory(prefix="warpseek-") if path is None else None
        made = cls(os.path.join(owned.name, "artifact") if owned else os.fspath(path or ""))
        made._owned = owned
        made.indexer(**options).index(documents)
        return made

    def index(self, iter: Iterable[dict[str, Any]], **options: Any) -> WarpseekIndex:
        """Builds the index from dicts with ``docno`` and ``text``."""
        return self.indexer(**options).index(iter)

    def index_inputs(self) -> list[list[str]]:
        """Returns the columns that documents must have."""
        return [["docno", "text"]]

    def built(self) -> bool:
        """Returns True if the index exists."""
        return self._directory() is not None

    def indexer(self, **options: Any) -> WarpseekIndexer:
        """Returns an indexer to end a pipeline with; ``options`` are those of ``Index.build``."""
        return WarpseekIndexer(self, options)

    def retriever(self, num_results: int = 1000, **options: Unpack[_arguments.Batch]) -> WarpseekRetriever:
        """Returns a transformer from queries to results.

        :param num_results: Maximum number of results for each query.
        :param options: Options of ``Index.search_many``, such as ``k1``, ``b`` and ``mode``.
            Queries are plain words; with ``syntax=True`` they are read in the syntax of
            docs/reference/query-syntax.md.
        """
        return WarpseekRetriever(self, num_results, options)

    bm25 = retriever

    def open(self) -> Index:
        """Returns the index itself."""
        if self._opened is None:
            self._opened = Index.open(self._directory() or self._folder, **self._searching)
        return self._opened

    def _directory(self) -> str | None:
        for folder in (self._folder / _FOLDER, self._folder):
            try:
                Index.open(folder)
                return os.fspath(folder)
            except FileNotFoundError:
                continue
        return None

    def schematic(self, *, input_columns: list[str] | None) -> dict[str, Any]:
        """Returns what PyTerrier shows in diagrams."""
        return {"label": "Warpseek Indexer", "help_url": _HELP}

    def __repr__(self) -> str:
        return f"WarpseekIndex({os.fspath(self._folder)!r})"


class WarpseekIndexer(pt.Indexer):
    """An indexer that builds an index from the output of a pipeline."""

    def __init__(self, index: WarpseekIndex, options: dict[str, Any]):
        self._index, self._options = index, options

    def index(self, iter: Iterable[dict[str, Any]], **kwargs: Any) -> WarpseekIndex:
        """Builds an index from dicts with ``docno`` and ``text``, and returns it."""
        folder = self._index._folder
        options = {"id_field": "docno", **self._index._searching, **self._options, **kwargs}
        Index.build(iter, folder / _FOLDER, **options)
        (folder / "pt_meta.json").write_text(json.dumps(_META))
        self._index._opened = None
        return self._index

    def index_inputs(self) -> list[list[str]]:
        """Returns the columns that documents must have."""
        return [["docno", "text"]]

    def schematic(self, *, input_columns: list[str] | None) -> dict[str, Any]:
        """Returns what PyTerrier shows in diagrams."""
        return {"label": "Warpseek Indexer", "help_url": _HELP}


class WarpseekRetriever(pt.Transformer):
    """A transformer that answers all queries of a data frame in one batch.

    Queries are in ``query``, or in ``query_toks`` as dicts of terms and weights. All columns are
    kept, and ``docno``, ``score`` and ``rank`` (from 0) are added.
    """

    def __init__(self, index: WarpseekIndex | Index, num_results: int = 1000, options: _arguments.Batch | None = None):
        self.index = index
        self.num_results = num_results
        self.options: _arguments.Batch = {**(options or {})}

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Returns the results of the queries."""
        with pt.validate.any(inp) as v:
            v.query_frame(extra_columns=["query_toks"], mode="query_toks")
            v.query_frame(extra_columns=["query"], mode="query")
        kept = inp.drop(columns=["docno", "score", "rank"], errors="ignore").reset_index(drop=True)
        index = self.index.open() if isinstance(self.index, WarpseekIndex) else self.index
        options: _arguments.Batch = {"syntax": False, **self.options}
        read = _sources.reader(index, bool(options["syntax"]))
        queries = [dict(q) if isinstance(q, dict) else read(q) for q in kept[v.mode]]
        results = index.search_many(queries, self.num_results, **options)
        frame = kept.iloc[results.query_numbers()].reset_index(drop=True)
        return frame.assign(docno=results.ids, score=results.scores, rank=results.ranks().astype(np.int64))

    def fuse_rank_cutoff(self, k: int) -> WarpseekRetriever | None:
        """Returns a retriever of fewer results, for ``retriever % k``."""
        if k >= self.num_results:
            return self
        return WarpseekRetriever(self.index, k, self.options)

    def schematic(self, *, input_columns: list[str] | None) -> dict[str, Any]:
        """Returns what PyTerrier shows in diagrams."""
        return {"label": "Warpseek", "help_url": _HELP}

    def __repr__(self) -> str:
        return f"WarpseekRetriever({self.index!r}, num_results={self.num_results})"
