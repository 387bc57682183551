"""A retriever for LangChain."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from warpseek import _sources
from warpseek._index import Index


class WarpseekRetriever(BaseRetriever):
    """A retriever of the documents of an index.

    ``text`` becomes the content of a document; all other fields become metadata, with ``id`` and
    ``score``.

    >>> import warpseek
    >>> from warpseek.langchain import WarpseekRetriever
    >>> index = warpseek.Index.build([{"id": "a", "text": "apple pie", "year": 1999}])
    >>> found = WarpseekRetriever(index=index, k=3).invoke("pie")
    >>> found[0].page_content, found[0].metadata["year"]
    ('apple pie', 1999)
    """

    #: The index.
    index: Any
    #: Maximum number of documents.
    k: int = 4
    #: Options of ``Index.search``.
    options: dict[str, Any] = {}
    #: Field with the content.
    content_field: str = "text"
    #: True if queries are parsed in the syntax of docs/reference/query-syntax.md. Otherwise they
    #: are plain words.
    syntax: bool = False

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        index: Index = self.index
        documents = []
        options = {"syntax": self.syntax, **self.options}
        words = _sources.reader(index, options["syntax"])(query)
        for hit in index.search(words, self.k, **options):
            stored = dict(hit.document or {})
            content = _sources.take_text(stored, self.content_field)
            metadata = {**stored, "id": hit.id, "score": hit.score}
            documents.append(Document(page_content=content, metadata=metadata, id=hit.id))
        return documents
