"""Exact text search on the CPU and on the GPU.

>>> import warpseek
>>> index = warpseek.Index.build([{"id": "a", "text": "an apple a day"}, {"id": "b", "text": "plums"}])
>>> index.search("apple").ids
['a']
"""

from warpseek._evaluation import Evaluation, as_qrels, as_run, evaluate
from warpseek._hits import Hit, Hits, Results
from warpseek._index import Index
from warpseek._ngrams import NgramHit, NgramHits
from warpseek._warpseek import __version__, names
from warpseek.errors import (
    DamagedError,
    DeviceError,
    DocumentError,
    Error,
    EvaluationError,
    ExistsError,
    LockedError,
    NotFoundError,
    OptionsError,
    QueryError,
    StorageError,
)

__all__ = [
    "DamagedError",
    "DeviceError",
    "DocumentError",
    "Error",
    "Evaluation",
    "EvaluationError",
    "ExistsError",
    "Hit",
    "Hits",
    "Index",
    "LockedError",
    "NgramHit",
    "NgramHits",
    "NotFoundError",
    "OptionsError",
    "QueryError",
    "Results",
    "StorageError",
    "__version__",
    "as_qrels",
    "as_run",
    "evaluate",
    "names",
]
