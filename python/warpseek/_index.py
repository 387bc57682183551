"""The index: build, open, change, search."""

from __future__ import annotations

import os
import tempfile
import warnings
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Mapping, Sequence, Union

from warpseek import _arguments, _sources, _warpseek
from warpseek._hits import Hits, Results
from warpseek._ngrams import NgramHits
from warpseek._progress import Bar
from warpseek.errors import OptionsError

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: Words, or terms with their weights, which are not analysed.
Query = Union[str, Mapping[str, float]]


class Index:
    """A directory with documents that can be searched. Made by :meth:`build` or :meth:`open`.

    >>> import warpseek
    >>> index = warpseek.Index.build([
    ...     {"id": "emma", "title": "Emma", "text": "Emma Woodhouse, handsome, clever, and rich"},
    ...     {"id": "moby", "title": "Moby-Dick", "text": "Call me Ishmael."},
    ... ])
    >>> index.search("clever emma").ids
    ['emma']

    All methods can be called from several threads at once; searches run without the interpreter's lock.
    """

    def __init__(self, native: _warpseek.NativeIndex, options: dict[str, Any], owned: Any = None):
        self._native = native
        self._options = options
        #: A temporary directory that is removed with the index.
        self._owned = owned
        #: What the build did, if this object made the index.
        self.report: dict[str, Any] | None = None

    @classmethod
    def build(
        cls,
        source: Any,
        path: str | os.PathLike[str] | None = None,
        *,
        id_field: str | None = None,
        title_field: str | None = None,
        text_fields: str | Sequence[str] = (),
        analyzer: _arguments.AnalyzerName = "english",
        codec: _arguments.CodecName | None = None,
        store: _arguments.Store = "all",
        schema: Mapping[str, Any] | str | os.PathLike[str] | None = None,
        positions: bool = False,
        norms: bool = False,
        quantize: tuple[float, float] | None = None,
        ngrams: int | None = None,
        ngram_unit: _arguments.NgramUnit = "char",
        segment_words: int | None = None,
        reorder: bool = False,
        order_by: str | None = None,
        static_field: str | None = None,
        vectors: bool = False,
        vector_scale: int = 256,
        ids: Any = None,
        vocabulary: Sequence[str] | None = None,
        format: _arguments.FormatName | None = None,
        on_error: _arguments.OnBadDocument = "stop",
        overwrite: bool = False,
        memory: int | None = None,
        build_device: _arguments.BuildDevice = "cpu",
        progress: bool = False,
        **searching: Unpack[_arguments.Searching],
    ) -> Index:
        """Makes an index of documents and opens it.

        ``source`` is a path (JSONL, CSV, TSV, Parquet or TREC files, or a directory), several paths (a list of strings that
        all end as such files do is one of paths), an iterable of dicts with
        ``id`` and ``text`` (or of strings, or of pairs of id and text), a data frame of pandas or polars, an Arrow table,
        a dataset of ir_datasets, or a sparse matrix of SciPy. With ``vectors=True`` the dicts are tokens with weights.
        Without ``path`` the index is in a temporary directory, which is removed when the index is closed.
        An argument that such a source does not take, such as ``format`` for dicts, is an :class:`OptionsError`.

        :param id_field: the field with the id; by default ``id``, ``docno``, ``doc_id``, ``docid`` or ``_id``, in files ``id`` or ``_id``
        :param title_field: the field with the title, by default ``title``; dots lead into dicts
        :param text_fields: the fields that together are the text, by default ``text``, or ``contents`` if there is no ``text``
        :param analyzer: one of ``names("analyzer")``
        :param codec: one of ``names("codec")``
        :param store: ``"all"``, or ``"ids"`` for a smaller index that shows no text
        :param schema: text fields with statistics of their own, and attributes to filter, sort and count by: a dict, JSON, or the ``pathlib.Path`` of a file with JSON
        :param positions: whether phrases can be found
        :param norms: whether the norms of documents are kept, for faster ranking by ``"cosine"`` in a larger index
        :param quantize: k1 and b, to keep approximate scores of 8 bits in the place of frequencies
        :param ngrams: the length of n-grams, for :meth:`ngram_search`; such an index has no words
        :param reorder: whether documents with words in common are put side by side: smaller and faster, a longer build
        :param static_field: the field with a static score, a number of 0 or more that ``static_weight`` adds to scores; :meth:`add` and
            :meth:`add_files` take it from there, too
        :param vectors: whether dicts are tokens with weights; they have no fields, and their ids are their numbers
        :param vector_scale: a weight of 1.0 as an integer; weights are kept in such units
        :param ids: ids of the rows of a matrix, by default their numbers
        :param vocabulary: tokens of the columns of a matrix, by default their numbers
        :param format: how all files are read, one of ``names("format")``; by default their names say it
        :param on_error: ``"stop"``, or ``"skip"`` to leave malformed documents out
        :param progress: whether to show a progress bar, if tqdm is installed
        :param searching: options of :meth:`open`

        >>> import warpseek
        >>> index = warpseek.Index.build([{"apple": 1.5, "pie": 0.5}, {"plum": 2.0}], vectors=True)
        >>> index.search({"apple": 2.0}).ids
        ['0']
        >>> index = warpseek.Index.build(
        ...     [{"id": "1", "text": "apple", "year": 1999}, {"id": "2", "text": "apple pie", "year": 2005}],
        ...     schema={"text": [{"name": "text"}], "attributes": [{"name": "year", "type": "integer"}]},
        ... )
        >>> index.search("apple", filter="year:>=2000").ids
        ['2']
        """
        options = _searching(searching)
        given = {
            "analyzer": analyzer,
            "codec": codec,
            "store": store,
            "schema": schema,
            "positions": positions,
            "norms": norms,
            "quantize": quantize,
            "ngrams": ngrams,
            "ngram_unit": ngram_unit,
            "segment_words": segment_words,
            "reorder": reorder,
            "order_by": order_by,
            "static_field": static_field,
            "vector_scale": vector_scale,
            "format": format,
            "id_field": id_field,
            "title_field": title_field,
            "text_fields": text_fields,
            "on_error": on_error,
            "overwrite": overwrite,
            "threads": options["threads"],
            "memory": memory,
            "build_device": build_device,
        }
        building = _arguments.checked(given, _arguments.BUILDING)
        building.update(device=building.pop("build_device"), gpu=(options["gpus"] or [0])[0])
        if vocabulary is not None:
            vocabulary = _arguments.strings("vocabulary", vocabulary)
        vectors, folder = _arguments.flag("vectors", vectors), "" if path is None else _arguments.path("path", path)
        files, is_matrix = _sources.paths(source), _sources.is_matrix(source)
        _suited(
            "files" if files is not None else "matrix" if is_matrix else "vectors" if vectors else "documents",
            id_field=id_field,
            title_field=title_field,
            text_fields=building["text_fields"] or None,
            format=format,
            ids=ids,
            vocabulary=vocabulary,
            vectors=vectors or None,
        )
        owned = tempfile.TemporaryDirectory(prefix="warpseek-") if path is None else None
        directory = os.path.join(owned.name, "index") if owned else folder
        try:
            with Bar(_arguments.flag("progress", progress)) as report:
                if files is not None:
                    built = _warpseek.build_files(directory, files, building, report)
                elif is_matrix:
                    names = None if ids is None else _arguments.ids("ids", ids)
                    arrays = _sources.rows(source)
                    built = _warpseek.build_rows(directory, *arrays, vocabulary, names, building)
                else:
                    items, field = _documents("source", source, id_field, vectors)
                    if title_field is not None or building["text_fields"]:
                        items = _sources.named(items, title_field, building["text_fields"])
                    built = _warpseek.build_documents(
                        directory, items, building, field, vectors, report
                    )
            index = cls(_warpseek.NativeIndex.open(directory, options), options, owned)
        except BaseException:
            if owned:
                owned.cleanup()
            raise
        for notice in built["notices"]:
            warnings.warn(notice, stacklevel=2)
        if built["skipped"]:
            first = built["reasons"][0] if built["reasons"] else ""
            warnings.warn(f"{built['skipped']} documents were skipped; first: {first}", stacklevel=2)
        index.report = built
        return index

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        device: _arguments.Device = "cpu",
        gpus: Sequence[int] | None = None,
        gpu_memory: int | None = None,
        split: _arguments.Split = "documents",
        algorithm: _arguments.Algorithm = "auto",
        ranking: _arguments.RankingName | None = None,
        k1: float | None = None,
        b: float | None = None,
        static_weight: float = 0.0,
        threads: int | None = None,
        mmap: bool = True,
    ) -> Index:
        """Opens the index in a directory.

        :param device: ``"cpu"``, ``"cuda"`` (an error without a GPU), ``"auto"`` (the faster for each batch) or ``"both"``
        :param gpus: numbers of the GPUs
        :param gpu_memory: bytes of a GPU's memory to use at most
        :param split: ``"documents"`` or ``"queries"``: what several devices share out
        :param algorithm: one of ``names("algorithm")``
        :param ranking: one of ``names("ranking")``, by default what suits the index
        :param k1: parameter of bm25, 0.9 by default
        :param b: parameter of bm25, 0.4 by default
        :param static_weight: how much the static score of a document adds
        :param threads: threads of the CPU, one a core by default
        :param mmap: whether files are mapped into memory, or read into it
        """
        options = _searching(
            {
                "device": device,
                "gpus": gpus,
                "gpu_memory": gpu_memory,
                "split": split,
                "algorithm": algorithm,
                "ranking": ranking,
                "k1": k1,
                "b": b,
                "static_weight": static_weight,
                "threads": threads,
                "mmap": mmap,
            }
        )
        return cls(_warpseek.NativeIndex.open(_arguments.path("path", path), options), options)

    # Searching

    def search(
        self,
        query: Query,
        k: int = 10,
        *,
        mode: _arguments.Mode = "or",
        filter: str | None = None,
        among: Iterable[str] | None = None,
        count: bool = False,
        sort: str | Sequence[str] | None = None,
        after: str | None = None,
        facets: _arguments.Facets | None = None,
        syntax: bool | None = None,
        ranking: _arguments.RankingName | None = None,
        k1: float | None = None,
        b: float | None = None,
        static_weight: float | None = None,
        deadline: float | None = None,
    ) -> Hits:
        """Finds the best ``k`` documents.

        :param query: words, or a dict of terms and weights; with a schema or positions, in the syntax of docs/reference/query-syntax.md
        :param mode: ``"or"``, ``"and"`` or ``"and-or"``
        :param filter: a query that hits must match; it does not change scores
        :param among: ids that hits may have
        :param count: whether to count all matches
        :param sort: attributes, ``_score`` or ``_doc``, with ``-`` before those that descend
        :param after: :attr:`Hits.after` of the page before
        :param facets: counts of matches by attribute: ``{"tag": 10}`` for its ten most frequent values, ``{"year": [(2000, 2010), (2010, None)]}`` for ranges
        :param syntax: whether the query is read in the syntax, by default if the index has a schema or positions
        :param static_weight: how much the static score of a document adds, by default as the index was opened
        :param deadline: seconds after which the search ends with what it has; :attr:`Hits.complete` is then False

        >>> import warpseek
        >>> index = warpseek.Index.build(["apple pie", "apple tart", "plum tart"])
        >>> index.search("apple tart", mode="and").ids
        ['1']
        >>> index.search("tart", among=["2"], count=True)
        <1 hit of 1 match: 2>
        """
        asking = _asking(
            k,
            mode,
            filter,
            among,
            count,
            sort,
            after,
            facets,
            syntax,
            ranking,
            k1,
            b,
            static_weight,
            deadline,
        )
        return Hits(self._native.search(query, asking))

    def search_many(
        self,
        queries: Any,
        k: int = 10,
        *,
        mode: _arguments.Mode = "or",
        filter: str | None = None,
        among: Iterable[str] | None = None,
        count: bool = False,
        sort: str | Sequence[str] | None = None,
        syntax: bool | None = None,
        ranking: _arguments.RankingName | None = None,
        k1: float | None = None,
        b: float | None = None,
        static_weight: float | None = None,
        deadline: float | None = None,
        threads: int | None = None,
        vocabulary: Sequence[str] | None = None,
        on_error: _arguments.OnBadQuery = "raise",
        progress: bool = False,
    ) -> Results:
        """Answers many queries at once, with all threads or on a GPU, over one snapshot of the index.

        ``queries`` is a list, an array of NumPy, a column of pandas, polars or Arrow, a table with a column ``query`` (and
        ids in ``qid`` or ``query_id``), a dataset of ir_datasets, or a sparse matrix of SciPy with a row for each query.
        Strings of Arrow are read where they are. Options are those of :meth:`search`.

        :param threads: threads of the CPU for this batch, by default those of the index
        :param on_error: ``"raise"``, or ``"skip"`` to leave queries that cannot be answered without hits; :attr:`Results.errors` has why
        :param progress: whether to show a progress bar, if tqdm is installed

        >>> import warpseek
        >>> index = warpseek.Index.build(["apple pie", "plum"])
        >>> ids, scores, offsets = index.search_many(["plum", "apple", "pear"], k=1).arrays()
        >>> ids.tolist(), offsets.tolist()
        (['1', '0'], [0, 1, 2, 2])
        """
        _arguments.one_of("on_error", on_error, ("raise", "skip"))
        if vocabulary is not None:
            vocabulary = _arguments.strings("vocabulary", vocabulary)
        asking = _asking(
            k,
            mode,
            filter,
            among,
            count,
            sort,
            None,
            None,
            syntax,
            ranking,
            k1,
            b,
            static_weight,
            deadline,
            threads,
        )
        names: list[str] | None = None
        with Bar(_arguments.flag("progress", progress), "queries") as report:
            if _sources.is_matrix(queries):
                arrays = _sources.rows(queries)
                native = self._native.search_rows(*arrays, vocabulary, asking, report)
            else:
                found, names = _sources.asked(queries)
                native = self._native.search_many(found, asking, report)
        failed = native.errors()
        if failed and on_error == "raise":
            number, error = failed[0]
            setattr(error, "query", number)
            raise error
        return Results(native, names)

    def explain(self, query: Query, id: str, **options: Unpack[_arguments.Asking]) -> dict[str, Any]:
        """How the score of a document comes about, a hit or not. Raises KeyError if there is no such document.

        >>> import warpseek
        >>> index = warpseek.Index.build(["apple pie", "plum"])
        >>> round(index.explain("pie", "0")["terms"][0]["idf"], 3)
        0.693
        """
        given: dict[str, Any] = {**_QUERY_DEFAULTS, **options}
        _arguments.unknown(given, _QUERY_DEFAULTS)
        explanation = self._native.explain(query, _arguments.identifier("id", id), _asking(1, **given))
        if explanation is None:
            raise KeyError(id)
        return explanation

    def ngram_search(
        self,
        query: str,
        k: int = 10,
        *,
        misses: int | str | None = None,
        errors: int | None = None,
        verify: bool = False,
        candidates: int = 100,
        deadline: float | None = None,
        width: int | None = None,
    ) -> NgramHits:
        """Finds documents that have a phrase, misspelt or not. The index was built with ``ngrams``.

        :param misses: how many n-grams of the query a hit may lack, such as 6 or ``"25%"``; by default what ``errors`` allows, else what 5 errors
            can spoil or 25%, whichever is more, up to two thirds
        :param errors: how many characters may be wrong
        :param verify: whether the best candidates are compared character by character, and ranked by edit distance
        :param width: with so many characters of the text around the match

        >>> import warpseek
        >>> index = warpseek.Index.build(["Acetylsalicylic acid is a drug.", "Acetic acid is sour."], ngrams=3)
        >>> index.ngram_search("acetylsalicilic acid", verify=True)[0].distance
        1
        """
        return self.ngram_search_many(
            [_arguments.text("query", query)],
            k,
            misses=misses,
            errors=errors,
            verify=verify,
            candidates=candidates,
            deadline=deadline,
            width=width,
        )[0]

    def ngram_search_many(
        self,
        queries: Any,
        k: int = 10,
        *,
        misses: int | str | None = None,
        errors: int | None = None,
        verify: bool = False,
        candidates: int = 100,
        deadline: float | None = None,
        width: int | None = None,
    ) -> list[NgramHits]:
        """The same for many queries."""
        given = {
            "k": k,
            "misses": misses,
            "errors": errors,
            "verify": verify,
            "candidates": candidates,
            "deadline": deadline,
            "width": width,
        }
        asking = _arguments.checked(given, _arguments.GRAMS)
        answers = self._native.ngram_search(_arguments.strings("queries", queries), **asking)
        return [NgramHits(*answer) for answer in answers]

    # Changes

    def add(self, documents: Any, *, id_field: str | None = None, vectors: bool = False) -> int:
        """Collects documents for the next :meth:`commit`, and returns how many. One replaces the document with the same id.

        >>> import warpseek
        >>> index = warpseek.Index.build([{"id": "1", "text": "apple"}])
        >>> index.add([{"id": "2", "text": "apple pie"}])
        1
        >>> index.delete(["1"])
        1
        >>> index.commit()["generation"], index.search("apple").ids
        (2, ['2'])
        """
        vectors = _arguments.flag("vectors", vectors)
        if _sources.are_files(documents):
            raise OptionsError("documents are names of files; add_files reads files", "Argument")
        items, field = _documents("documents", _one_or_many(documents), id_field, vectors)
        return self._native.add(items, field, vectors)

    def delete(self, ids: str | Iterable[str]) -> int:
        """Collects deletions for the next :meth:`commit`, and returns how many."""
        return self._native.delete([ids] if isinstance(ids, str) else _arguments.ids("ids", ids))

    def commit(self, *, progress: bool = False) -> dict[str, Any]:
        """Writes all changes, or none if it fails; searches see them. Returns what was done."""
        with Bar(_arguments.flag("progress", progress)) as report:
            done = self._native.commit(report)
        self._native.refresh()
        return done

    def rollback(self) -> None:
        """Forgets all changes since the last commit."""
        self._native.rollback()

    @property
    def pending(self) -> tuple[int, int]:
        """How many documents and deletions wait for a commit."""
        return self._native.pending()

    def add_files(
        self,
        *paths: str | os.PathLike[str],
        id_field: str | None = None,
        title_field: str | None = None,
        text_fields: str | Sequence[str] = (),
        progress: bool = False,
    ) -> dict[str, Any]:
        """Adds the documents of files, in one commit. Fields are named as for :meth:`build`."""
        files = [_arguments.path("a path", path) for path in paths]
        given: dict[str, Any] = {"id_field": id_field, "title_field": title_field, "text_fields": text_fields}
        names = _arguments.checked(given, _arguments.FIELDS)
        fields = (names["id_field"], names["title_field"], names["text_fields"])
        with Bar(_arguments.flag("progress", progress)) as report:
            done = self._native.add_files(files, fields, report)
        self._native.refresh()
        for notice in done["notices"]:
            warnings.warn(notice, stacklevel=2)
        return done

    def refresh(self) -> bool:
        """Goes over to the newest commit, of this process or another; False if it has that already."""
        return self._native.refresh()

    def merge(self) -> None:
        """Makes one segment of all, without deleted documents. Results stay as they are."""
        self._native.merge()
        self._native.refresh()

    def verify(self) -> list[str]:
        """What is wrong with the files: an empty list if all is well."""
        return self._native.verify()

    # What it has

    def document(self, id: str) -> Any:
        """The stored document with an id; None if there is none, or if the index stores ids alone."""
        return self._native.document(_arguments.identifier("id", id))

    def __contains__(self, id: object) -> bool:
        return self._native.has(_arguments.identifier("id", id))

    def __len__(self) -> int:
        documents: int = self._native.facts()["documents"]
        return documents

    def __bool__(self) -> bool:
        return True

    @property
    def path(self) -> str:
        """Its directory."""
        return str(self._native.path())

    @property
    def facts(self) -> dict[str, Any]:
        """Numbers of documents, tokens and segments, the generation, content, analyzer, codec and schema."""
        return self._native.facts()

    @property
    def status(self) -> dict[str, Any]:
        """Which GPU answers, or why none does; the ranking, and what was noticed."""
        return self._native.status()

    def prepare(self) -> Index:
        """Does what the first query would have to wait for, such as copying the index to a GPU."""
        self._native.prepare()
        return self

    def __repr__(self) -> str:
        facts = self.facts
        return f"<Index of {facts['documents']:,} documents in {self.path!r} ({facts['content']}, generation {facts['generation']})>"

    # Its life

    def close(self) -> None:
        """Removes its temporary directory, if it has one. Other indexes need not be closed."""
        if self._owned is not None:
            self._owned.cleanup()
            self._owned = None

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[..., Index], tuple[str, dict[str, Any]]]:
        # Another process opens the same directory.
        return (_reopen, (self.path, self._options))


def _reopen(path: str, options: dict[str, Any]) -> Index:
    return Index.open(path, **options)


_SEARCHING: dict[str, Any] = {
    "device": "cpu",
    "gpus": None,
    "gpu_memory": None,
    "split": "documents",
    "algorithm": "auto",
    "ranking": None,
    "k1": None,
    "b": None,
    "static_weight": 0.0,
    "threads": None,
    "mmap": True,
}


def _searching(given: Mapping[str, Any]) -> dict[str, Any]:
    _arguments.unknown(given, _SEARCHING)
    return _arguments.checked({**_SEARCHING, **given}, _arguments.SEARCHING)


def asking(**options: Any) -> dict[str, Any]:
    """What is asked of the library beside the query, for modules that ask it themselves."""
    return _asking(**{"k": 0, **_QUERY_DEFAULTS, **options})


_QUERY_DEFAULTS: dict[str, Any] = {
    "mode": "or",
    "filter": None,
    "among": None,
    "count": False,
    "sort": None,
    "after": None,
    "facets": None,
    "syntax": None,
    "ranking": None,
    "k1": None,
    "b": None,
    "static_weight": None,
    "deadline": None,
}


def _asking(
    k: int,
    mode: str,
    filter: str | None,
    among: Iterable[str] | None,
    count: bool,
    sort: str | Sequence[str] | None,
    after: str | None,
    facets: _arguments.Facets | None,
    syntax: bool | None,
    ranking: str | None,
    k1: float | None,
    b: float | None,
    static_weight: float | None,
    deadline: float | None,
    threads: int | None = None,
) -> dict[str, Any]:
    given = {
        "k": k,
        "mode": mode,
        "filter": filter,
        "among": among,
        "count": count,
        "sort": sort,
        "after": after,
        "facets": facets,
        "syntax": syntax,
        "ranking": ranking,
        "k1": k1,
        "b": b,
        "static_weight": static_weight,
        "deadline": deadline,
        "threads": threads,
    }
    return _arguments.checked(given, _arguments.ASKING)


#: What a source of :meth:`Index.build` may be, in words.
_SOURCES = {
    "files": "files",
    "documents": "documents",
    "vectors": "dicts of tokens and weights (vectors=True)",
    "matrix": "a sparse matrix",
}

#: The sources that take an argument of :meth:`Index.build`; all take those that are not here.
_TAKEN_BY: dict[str, tuple[str, ...]] = {
    "id_field": ("files", "documents"),
    "title_field": ("files", "documents"),
    "text_fields": ("files", "documents"),
    "format": ("files",),
    "ids": ("matrix",),
    "vocabulary": ("matrix",),
    "vectors": ("vectors", "matrix"),
}


def _suited(source: str, **given: Any) -> None:
    """Raises an exception if an argument is given that such a source does not take."""
    for name, value in given.items():
        if value is not None and source not in _TAKEN_BY[name]:
            takers = " or ".join(_SOURCES[taker] for taker in _TAKEN_BY[name])
            problem = f"{name} is for {takers}, and the source is {_SOURCES[source]}"
            raise OptionsError(problem, "Argument")


def _one_or_many(documents: Any) -> Any:
    return [documents] if isinstance(documents, (dict, str)) else documents


def _documents(name: str, source: Any, id_field: str | None, vectors: bool) -> tuple[Iterator[Any], str]:
    field = None if id_field is None else _arguments.text("id_field", id_field)
    items = _sources.documents(source, name)
    return (iter(items), "id") if vectors else _sources.id_field(iter(items), field)
