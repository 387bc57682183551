"""Exact text search on the CPU and on the GPU.

>>> import warpseek
>>> index = warpseek.Index.build([{"id": "a", "text": "an apple a day"}, {"id": "b", "text": "plums"}])
>>> index.search("apple").ids
['a']

One begins with

``Index.build(source, path)``
    makes an index of files, dicts, a data frame or a matrix, and opens it
``Index.open(path)``
    opens one that is there
``index.search(query, k)``
    finds the best documents, as :class:`Hits`
``index.search_many(queries, k)``
    answers many queries at once, as :class:`Results` with arrays
``index.ngram_search(query, k)``
    finds misspelt phrases
``index.add(documents)``, ``index.delete(ids)``, ``index.commit()``
    change an index
``evaluate(run, qrels)``
    judges a run
``names(option)``
    says which names an option takes

The modules ``warpseek.bm25s``, ``warpseek.pyserini``, ``warpseek.pyterrier``, ``warpseek.langchain``, ``warpseek.llama_index`` and
``warpseek.haystack`` are for programs that use these. Exceptions are ``warpseek.Error`` and its subclasses, such as
``warpseek.QueryError``: see ``help(warpseek.errors)``.
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

# Exceptions are not among these, since `help` sorts by name and would begin with them.
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
