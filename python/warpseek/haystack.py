"""A retriever for Haystack."""

from __future__ import annotations

from typing import Any

from haystack import Document, component, default_from_dict, default_to_dict

from warpseek import _arguments, _sources
from warpseek._index import Index


@component
class WarpseekRetriever:
    """A component that answers a query with the best documents of an index.

    >>> import warpseek
    >>> from warpseek.haystack import WarpseekRetriever
    >>> index = warpseek.Index.build([{"id": "a", "text": "apple pie", "year": 1999}])
    >>> document = WarpseekRetriever(index).run("pie")["documents"][0]
    >>> document.content, document.meta["year"]
    ('apple pie', 1999)
    """

    def __init__(
        self, index: Index | str, top_k: int = 10, content_field: str = "text", syntax: bool = False
    ):
        """Creates a retriever.

        :param index: An index, or the directory of one.
        :param top_k: Maximum number of documents.
        :param content_field: Field with the content of documents.
        :param syntax: Whether queries are read in the syntax of docs/reference/query-syntax.md.
            Otherwise they are plain words.
        """
        self.index = index if isinstance(index, Index) else Index.open(_arguments.path("index", index))
        self.top_k, self.content_field, self.syntax = top_k, content_field, syntax

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, top_k: int | None = None, filter: str | None = None
    ) -> dict[str, list[Document]]:
        """Returns the best documents.

        :param query: The query.
        :param top_k: Maximum number of documents. Default: that of the retriever.
        :param filter: A query that documents must match.
        """
        documents = []
        words = _sources.reader(self.index, self.syntax)(query)
        hits = self.index.search(words, top_k or self.top_k, filter=filter, syntax=self.syntax)
        for hit in hits:
            meta = dict(hit.document or {})
            meta.pop("id", None)
            content = _sources.take_text(meta, self.content_field)
            documents.append(Document(id=hit.id, content=content, meta=meta, score=hit.score))
        return {"documents": documents}

    def to_dict(self) -> dict[str, Any]:
        """Returns the settings of the retriever, with the directory of the index, as a dict."""
        return default_to_dict(
            self,
            index=self.index.path,
            top_k=self.top_k,
            content_field=self.content_field,
            syntax=self.syntax,
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> WarpseekRetriever:
        """Creates a retriever from the dict that :meth:`to_dict` has returned."""
        made: WarpseekRetriever = default_from_dict(cls, data)
        return made
