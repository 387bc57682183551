"""A retriever for LlamaIndex."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from warpseek import _arguments, _sources
from warpseek._index import Index

if TYPE_CHECKING:
    from typing_extensions import Unpack

class WarpseekRetriever(BaseRetriever):
    """A retriever of the documents of an index as nodes.

    ``text`` becomes the text of a node; all other fields become metadata.

    >>> import warpseek
    >>> from warpseek.llama_index import WarpseekRetriever
    >>> index = warpseek.Index.build([{"id": "a", "text": "apple pie", "year": 1999}])
    >>> node = WarpseekRetriever(index, k=3).retrieve("pie")[0]
    >>> node.node.text, node.node.metadata["year"]
    ('apple pie', 1999)
    """

    def __init__(
        self,
        index: Index,
        k: int = 4,
        content_field: str = "text",
        syntax: bool = False,
        **options: Unpack[_arguments.Words],
    ):
        """Creates a retriever.

        :param index: The index.
        :param k: Maximum number of nodes.
        :param content_field: Field with the text of nodes.
        :param syntax: Whether queries are read in the syntax of docs/reference/query-syntax.md.
            Otherwise they are plain words.
        :param options: Options of ``Index.search``.
        """
        self._index, self._k, self._content_field = index, k, content_field
        self._syntax, self._options = _arguments.flag("syntax", syntax), options
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        nodes = []
        words = _sources.reader(self._index, self._syntax)(query_bundle.query_str)
        for hit in self._index.search(words, self._k, syntax=self._syntax, **self._options):
            stored = dict(hit.document or {})
            stored.pop("id", None)
            text = _sources.take_text(stored, self._content_field)
            node = TextNode(id_=hit.id, text=text, metadata=stored)
            nodes.append(NodeWithScore(node=node, score=hit.score))
        return nodes
