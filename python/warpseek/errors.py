"""Exceptions. Each one carries the name of the library's error and its fields."""

from __future__ import annotations

from typing import Mapping


class Error(Exception):
    """Base class of all exceptions of this package.

    >>> import warpseek
    >>> try:
    ...     warpseek.Index.open("/nowhere")
    ... except warpseek.Error as error:
    ...     print(error.kind, error.fields["path"])
    NotAnIndex /nowhere
    """

    #: Name of the library's error.
    kind: str
    #: Fields of the library's error, as text.
    fields: Mapping[str, str]
    #: Number of the query, if a query of a batch failed.
    query: int | None

    def __init__(self, message: str, kind: str = "", fields: Mapping[str, str] | None = None):
        super().__init__(message)
        self.kind = kind
        self.fields = dict(fields or {})
        self.query = None

    def __reduce__(self) -> tuple[type[Error], tuple[str, str, Mapping[str, str]]]:
        return (type(self), (str(self), self.kind, self.fields))

    def __str__(self) -> str:
        return str(self.args[0])


class NotFoundError(Error, FileNotFoundError):
    """The directory does not contain an index, or a file of documents does not exist."""


class ExistsError(Error, FileExistsError):
    """The directory already contains an index or other files."""


class LockedError(Error):
    """Another process is writing to the index."""


class StorageError(Error, OSError):
    """The operating system refused an operation on a file."""


class DamagedError(Error):
    """A file is damaged, or was written by a newer version."""


class DocumentError(Error, ValueError):
    """A document or a file of documents is malformed."""


class QueryError(Error, ValueError):
    """A query cannot be answered."""


class OptionsError(Error, ValueError):
    """An argument has an invalid value, or options contradict each other."""


class DeviceError(Error, RuntimeError):
    """A GPU is missing, has too little memory, or has failed."""


class EvaluationError(Error, ValueError):
    """A run, judgements or measures are malformed."""
