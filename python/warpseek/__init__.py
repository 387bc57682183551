"""Exact text search on the CPU and on the GPU.

>>> import warpseek
>>> index = warpseek.Index.build([{"id": "a", "text": "an apple a day"}, {"id": "b", "text": "plums"}])
>>> index.search("apple").ids
['a']

Where to start:

``Index.build(source, path)``
    builds an index from files, dicts, a data frame or a matrix, and opens it
``Index.open(path)``
    opens an existing index
``index.search(query, k)``
    returns the best documents as :class:`Hits`
``index.search_many(queries, k)``
    answers many queries at once and returns :class:`Results`, which hold arrays
``index.ngram_search(query, k)``
    finds phrases even if they are misspelt
``index.add(documents)``, ``index.delete(ids)``, ``index.commit()``
    change an index
``evaluate(run, qrels)``
    computes measures of a run
``names(option)``
    lists the names that an option accepts

The modules ``warpseek.bm25s``, ``warpseek.pyserini``, ``warpseek.pyterrier``,
``warpseek.langchain``, ``warpseek.llama_index`` and ``warpseek.haystack`` replace the retrievers of
these libraries or plug into them. All exceptions derive from ``warpseek.Error``, such as
``warpseek.QueryError``; see ``help(warpseek.errors)``.
"""

from warpseek._evaluation import Evaluation, as_qrels, as_run, evaluate
from warpseek._hits import Hit, Hits, Results
from warpseek._index import Index
from warpseek._ngrams import NgramHit, NgramHits
from warpseek._warpseek import __version__, names
from warpseek.errors import DamagedError as DamagedError
from warpseek.errors import DeviceError as DeviceError
from warpseek.errors import DocumentError as DocumentError
from warpseek.errors import Error as Error
from warpseek.errors import EvaluationError as EvaluationError
from warpseek.errors import ExistsError as ExistsError
from warpseek.errors import LockedError as LockedError
from warpseek.errors import NotFoundError as NotFoundError
from warpseek.errors import OptionsError as OptionsError
from warpseek.errors import QueryError as QueryError
from warpseek.errors import StorageError as StorageError

# Exceptions are not listed, since `help` sorts by name and would show them first.
__all__ = [
    "Evaluation",
    "Hit",
    "Hits",
    "Index",
    "NgramHit",
    "NgramHits",
    "Results",
    "__version__",
    "as_qrels",
    "as_run",
    "evaluate",
    "names",
]
