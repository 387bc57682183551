"""What can go wrong. Every exception has the name of the library's error and its fields."""

from __future__ import annotations

from typing import Mapping


class Error(Exception):
    """Base of all errors.

    >>> import warpseek
    >>> try:
    ...     warpseek.Index.open("/nowhere")
    ... except warpseek.Error as error:
    ...     print(error.kind, error.fields["path"])
    NotAnIndex /nowhere
    """

    #: The name of the library's error.
    kind: str
    #: Its fields, as text.
    fields: Mapping[str, str]
    #: In a batch, the number of the query.
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
    """There is no index in a directory, or no such file of documents."""


class ExistsError(Error, FileExistsError):
    """The directory holds an index already, or other files."""


class LockedError(Error):
    """Another process is writing to the index."""


class StorageError(Error, OSError):
    """The system refused an operation on a file."""


class DamagedError(Error):
    """A file is damaged, or was written by a later version."""


class DocumentError(Error, ValueError):
    """A document, or a file of documents, is malformed."""


class QueryError(Error, ValueError):
    """A query cannot be answered."""


class OptionsError(Error, ValueError):
    """Options contradict each other, or do not exist."""


class DeviceError(Error, RuntimeError):
    """A GPU is missing, too small, or has failed."""


class EvaluationError(Error, ValueError):
    """A run, judgements or measures are malformed."""
