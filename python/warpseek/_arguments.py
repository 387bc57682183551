"""Types and checks of arguments.

The exceptions name the argument that is wrong, its value, and what was expected. Which names and
numbers are valid is checked by the library itself.
"""

from __future__ import annotations

import json
import operator
import os
from typing import Any, Callable, Dict, Iterable, List, Literal, Mapping, NoReturn, Sequence, Tuple, TypedDict, Union

import numpy as np

from warpseek.errors import OptionsError

Algorithm = Literal[
    "auto", "reference", "daat", "taat", "wand", "maxscore", "block-max-wand", "block-max-maxscore", "windowed-maxscore",
    "cohort", "filtered", "tree", "decoded", "intersect", "exhaustive",
    # Algorithms of n-grams.
    "baseline", "bins", "counting",
]  # fmt: skip
AnalyzerName = Literal["english", "plain", "raw"]
BuildDevice = Literal["cpu", "cuda", "auto"]
CodecName = Literal["bitpack", "rice", "pfor", "pfd", "ef", "svb", "pfor0", "pfor2", "pfor3", "pfor4"]
Device = Literal["cpu", "cuda", "auto", "both"]
FormatName = Literal["jsonl", "tsv", "csv", "parquet", "trec", "tree", "words"]
Mode = Literal["or", "and", "and-or"]
NgramUnit = Literal["char", "word"]
OnBadDocument = Literal["stop", "skip"]
OnBadQuery = Literal["raise", "skip"]
OptionName = Literal["algorithm", "analyzer", "codec", "format", "measure", "mode", "ranking"]
RankingName = Literal["bm25", "okapi", "wakatsuki", "cosine", "impact", "bm25-by-field"]
Split = Literal["documents", "queries"]
Store = Literal["all", "ids"]

#: Facets by attribute: the number of its most frequent values, or ranges, whose ends may be open.
Facets = Mapping[str, Union[int, Sequence[Tuple[Any, Any]]]]


class Searching(TypedDict, total=False):
    """The options of ``Index.open``, for functions that pass them on."""

    device: Device
    gpus: Sequence[int] | None
    gpu_memory: int | None
    calibration: str | os.PathLike[str] | None
    split: Split
    algorithm: Algorithm
    ranking: RankingName | None
    k1: float | None
    b: float | None
    static_weight: float
    threads: int | None
    mmap: bool


class Words(TypedDict, total=False):
    """The options that ``Index.search`` and ``Index.search_many`` share, except for the syntax."""

    mode: Mode
    filter: str | None
    among: Iterable[str] | None
    count: bool
    sort: str | Sequence[str] | None
    ranking: RankingName | None
    k1: float | None
    b: float | None
    static_weight: float | None
    deadline: float | None


class Asking(Words, total=False):
    """The options that ``Index.search`` and ``Index.search_many`` share."""

    syntax: bool | None


class Batch(Asking, total=False):
    """The options of ``Index.search_many``."""

    threads: int | None
    vocabulary: Sequence[str] | None
    on_error: OnBadQuery
    progress: bool


#: A function that checks and converts an argument, given its name and its value.
Check = Callable[[str, Any], Any]

_U32, _U64 = 2**32 - 1, 2**64 - 1


def refuse(name: str, value: Any, expected: str) -> NoReturn:
    """Raises the exception for an argument of the wrong type."""
    raise TypeError(f"{name} is {shown(value)}, of type {type(value).__name__}; it should be {expected}")


def shown(value: Any) -> str:
    """Returns a short text for any value."""
    try:
        text = repr(value)
    except Exception:
        text = f"an object of type {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."


def whole(least: int = 0, most: int = _U64) -> Check:
    """Returns a check for an integer in a range. Floats are refused even if they are integral."""
    expected = f"a whole number from {least}" + (f" to {most}" if most < _U32 else "")

    def check(name: str, value: Any) -> int:
        if isinstance(value, (bool, np.bool_)):
            refuse(name, value, expected)
        try:
            number = operator.index(value)
        except TypeError:
            refuse(name, value, expected)
        if not least <= number <= most:
            raise OptionsError(f"{name} is {number}; it should be a whole number from {least} to {most}", "Argument")
        return number

    return check


def real(name: str, value: Any) -> float:
    """Checks a real number. The library checks its range."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        refuse(name, value, "a number")
    try:
        return float(value)
    except OverflowError:
        raise OptionsError(f"{name} is {shown(value)}; no float is as large", "Argument") from None


def flag(name: str, value: Any) -> bool:
    """Checks a bool. Other values that are true or false are refused."""
    if not isinstance(value, (bool, np.bool_)):
        refuse(name, value, "True or False")
    return bool(value)


def text(name: str, value: Any) -> str:
    """Checks a string."""
    if not isinstance(value, str):
        refuse(name, value, "a string")
    _encoded(name, value)
    return value


def strings(name: str, values: Any) -> List[str]:
    """Checks a list of strings. A single string is refused, so that it is not split."""
    found = several(name, values, "a list of strings")
    for at, value in enumerate(found):
        if not isinstance(value, str):
            refuse(f"{name}[{at}]", value, "a string")
    _encoded(name, "".join(found))
    return found


def ids(name: str, values: Any) -> List[str]:
    """Checks a list of ids, which may be integers."""
    found = several(name, values, "a list of ids")
    checked = [value if type(value) is str else identifier(f"{name}[{at}]", value) for at, value in enumerate(found)]
    _encoded(name, "".join(checked))
    return checked


def identifier(name: str, value: Any) -> str:
    """Checks an id, which may be an integer."""
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, np.bool_)) or not hasattr(type(value), "__index__"):
        refuse(name, value, "a string or an integer")
    return str(value)


def several(name: str, values: Any, expected: str) -> List[Any]:
    """Converts any sequence, array or column to a list. Strings and dicts are refused."""
    if isinstance(values, (str, bytes, Mapping)):
        refuse(name, values, expected)
    for method in ("to_pylist", "to_list", "tolist"):  # Arrow; polars and pandas; NumPy
        if hasattr(values, method):
            items: Any = getattr(values, method)()
            if not isinstance(items, list):  # an array without dimensions has one value
                refuse(name, values, expected)
            return list(items)
    if hasattr(values, "__arrow_c_stream__") or hasattr(values, "__arrow_c_array__"):
        import pyarrow as pa

        return list(pa.chunked_array(values).to_pylist())
    iterable(name, values, expected)
    return list(values)


def iterable(name: str, values: Any, expected: str) -> None:
    """Raises TypeError if a value cannot be iterated over."""
    if not hasattr(type(values), "__iter__") and not hasattr(type(values), "__getitem__"):
        refuse(name, values, expected)


def path(name: str, value: Any) -> str:
    """Checks the path of a file or directory."""
    if not isinstance(value, (str, os.PathLike)) or not isinstance(os.fspath(value), str):
        refuse(name, value, "a path: a string or a pathlib.Path")
    return os.fspath(value)


def optional(check: Check) -> Check:
    """Returns a check that also accepts None."""
    return lambda name, value: None if value is None else check(name, value)


def schema(name: str, value: Any) -> str:
    """Converts a schema to JSON: a dict, a JSON string, or the path of a JSON file."""
    if isinstance(value, os.PathLike):
        with open(value, encoding="utf-8") as file:
            return file.read()
    if isinstance(value, str):
        if not value.lstrip().startswith("{"):
            problem = f"{name} is {shown(value)}; a string must be JSON, and a file must be given as a pathlib.Path"
            raise OptionsError(problem, "Argument")
        return text(name, value)
    if not isinstance(value, Mapping):
        refuse(name, value, "a dict, JSON, or the pathlib.Path of a file with JSON")
    try:
        return json.dumps(dict(value))
    except (TypeError, ValueError) as error:
        raise OptionsError(f"{name} cannot be written as JSON: {error}", "Argument") from None


def _encoded(name: str, value: str) -> None:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise OptionsError(f"{name} is not valid Unicode: {error}", "Argument") from None


def _pair(name: str, value: Any) -> Tuple[float, float]:
    expected = "a pair of numbers, k1 and b"
    pair = several(name, value, expected)
    if len(pair) != 2:
        refuse(name, value, expected)
    return real(f"{name}[0]", pair[0]), real(f"{name}[1]", pair[1])


def _gpus(name: str, values: Any) -> List[int]:
    number = whole(most=_U32)
    found = several(name, values, "a list of numbers of GPUs, such as [0]")
    return [number(f"{name}[{at}]", value) for at, value in enumerate(found)]


def _sort(name: str, value: Any) -> List[str]:
    return [text(name, value)] if isinstance(value, str) else strings(name, value)


def _facets(name: str, value: Any) -> List[Tuple[str, Any]]:
    if not isinstance(value, Mapping):
        refuse(name, value, "a dict such as {'tag': 10}")
    return [_facet(f"{name}[{shown(field)}]", field, by) for field, by in value.items()]


def _facet(name: str, field: Any, by: Any) -> Tuple[str, Any]:
    field = text(f"the name of {name}", field)
    if hasattr(type(by), "__index__"):
        return field, whole()(name, by)
    expected = "a number of values, or ranges such as [(2000, 2010), (2010, None)]"
    ranges = []
    for ends in several(name, by, expected):
        if not isinstance(ends, (tuple, list)) or len(ends) != 2:
            refuse(f"a range of {name}", ends, "a pair, such as (2000, 2010)")
        ranges.append(tuple(None if end is None else str(end) for end in ends))
    return field, ranges


SEARCHING: Dict[str, Check] = {
    "device": text,
    "gpus": optional(_gpus),
    "gpu_memory": optional(whole()),
    "calibration": optional(path),
    "split": text,
    "algorithm": text,
    "ranking": optional(text),
    "k1": optional(real),
    "b": optional(real),
    "static_weight": real,
    "threads": optional(whole(1, 1024)),
    "mmap": flag,
}

ASKING: Dict[str, Check] = {
    "k": whole(),
    "mode": text,
    "filter": optional(text),
    "among": optional(ids),
    "count": flag,
    "sort": optional(_sort),
    "after": optional(text),
    "facets": optional(_facets),
    "syntax": optional(flag),
    "ranking": optional(text),
    "k1": optional(real),
    "b": optional(real),
    "static_weight": optional(real),
    "deadline": optional(real),
    "threads": optional(whole(1, 1024)),
}

#: Names of the fields of documents.
FIELDS: Dict[str, Check] = {
    "id_field": optional(text),
    "title_field": optional(text),
    "text_fields": lambda name, value: [value] if isinstance(value, str) else strings(name, value),
}

BUILDING: Dict[str, Check] = {
    "analyzer": optional(text),
    "codec": optional(text),
    "store": text,
    "schema": optional(schema),
    "positions": flag,
    "norms": flag,
    "quantize": optional(_pair),
    "ngrams": optional(whole(most=_U32)),
    "ngram_unit": text,
    "segment_words": optional(whole(most=_U32)),
    "reorder": flag,
    "order_by": optional(text),
    "static_field": optional(text),
    "vector_scale": whole(most=_U32),
    "format": optional(text),
    **FIELDS,
    "on_error": text,
    "overwrite": flag,
    "threads": optional(whole(1, 1024)),
    "memory": optional(whole()),
    "build_device": text,
}

GRAMS: Dict[str, Check] = {
    "k": whole(),
    "misses": optional(lambda name, value: value if isinstance(value, str) else str(whole()(name, value))),
    "errors": optional(whole(most=_U32)),
    "verify": flag,
    "candidates": whole(),
    "deadline": optional(real),
    "width": optional(whole()),
}


def checked(given: Mapping[str, Any], checks: Mapping[str, Check]) -> Dict[str, Any]:
    """Returns options in the form that the library accepts."""
    return {name: checks[name](name, value) for name, value in given.items()}


def one_of(name: str, value: Any, known: Iterable[str]) -> None:
    """Raises an exception if the value of an option is none of its names."""
    names = tuple(known)
    if not isinstance(value, str):
        refuse(name, value, f"one of {', '.join(names)}")
    if value not in names:
        raise OptionsError(f"{name} is {value!r}; it should be one of {', '.join(names)}", "Argument")


def unknown(given: Iterable[str], known: Mapping[str, Any]) -> None:
    """Raises an exception if there is an unknown option."""
    for name in given:
        if name not in known:
            raise TypeError(f"there is no option {name!r}; the options are: {', '.join(known)}")

