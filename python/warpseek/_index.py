"""The index: building, opening, searching and changing it."""

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

#: A query: text, or a dict of terms and weights, which are not analysed.
Query = Union[str, Mapping[str, float]]


class Index:
    """An index of documents in a directory. :meth:`build` and :meth:`open` create instances.

    >>> import warpseek
    >>> index = warpseek.Index.build([
    ...     {"id": "emma", "title": "Emma", "text": "Emma Woodhouse, handsome, clever, and rich"},
    ...     {"id": "moby", "title": "Moby-Dick", "text": "Call me Ishmael."},
    ... ])
    >>> index.search("clever emma").ids
    ['emma']

    All methods can be called from several threads at once. Searches do not hold the interpreter's
    lock.
    """

    def __init__(self, native: _warpseek.NativeIndex, options: dict[str, Any], owned: Any = None):
        self._native = native
        self._options = options
        #: The temporary directory of the index, if it has one. It is removed with the index.
        self._owned = owned
        #: Report of the build, if this object built the index.
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
        """Builds an index of documents and opens it.

        ``source`` is one of these:

        - a path of a JSONL, CSV, TSV, Parquet or TREC file, or of a directory of such files,
        - a list of paths; a list of strings counts as one if every string looks like the name of
          such a file,
        - an iterable of dicts with ``id`` and ``text``, of strings, or of pairs of id and text,
        - a data frame of pandas or polars, or an Arrow table,
        - a dataset of ir_datasets,
        - a sparse matrix of SciPy, with a document in each row,
        - with ``vectors=True``, an iterable of dicts of tokens and weights.

        An argument that does not apply to the source, such as ``format`` for dicts, raises
        :class:`OptionsError`. If the build fails, nothing is written.

        :param source: The documents.
        :param path: Directory of the index. Default: a temporary directory, which is removed when
            the index is closed.
        :param id_field: Field with the id. Default: ``id``, ``docno``, ``doc_id``, ``docid`` or
            ``_id``; in files, ``id`` or ``_id``.
        :param title_field: Field with the title. A dot separates the names of nested fields.
            Default: ``title``.
        :param text_fields: Fields that together are the text. Default: ``text``, or ``contents``
            if there is no ``text``.
        :param analyzer: How text is divided into terms: one of ``names("analyzer")``.
        :param codec: Codec of postings, one of ``names("codec")``. Default: bit packing, or
            Rice codes for n-grams.
        :param store: What is stored of each document: ``"all"``, or ``"ids"`` for a smaller index
            that cannot show text.
        :param schema: Text fields with separate statistics, and attributes to filter, sort and
            count by: a dict, a JSON string, or the ``pathlib.Path`` of a JSON file.
        :param positions: Whether to store positions, so that queries can contain phrases.
        :param norms: Whether to store the norms of documents. Ranking by ``"cosine"`` is faster
            then, and the index larger.
        :param quantize: A pair of k1 and b. The index then stores approximate BM25 scores of 8 bits
            instead of frequencies.
        :param ngrams: Length of n-grams, for :meth:`ngram_search`. Such an index has no words.
        :param ngram_unit: Unit of n-grams: ``"char"`` or ``"word"``.
        :param segment_words: Minimum number of words of the segments into which an index of n-grams
            divides documents.
        :param reorder: Whether to place documents with common words side by side. The index is
            smaller and faster then, and the build takes longer.
        :param order_by: Field by which documents are sorted. Default: the order of the source.
        :param static_field: Field with a static score, a number of at least 0, which
            ``static_weight`` adds to scores. :meth:`add` and :meth:`add_files` use the same field.
        :param vectors: Whether the dicts are tokens with weights. They have no fields, and their
            ids are their numbers.
        :param vector_scale: Integer that represents a weight of 1.0. Weights are stored as integers
            in this unit.
        :param ids: Ids of the rows of a matrix. Default: their numbers.
        :param vocabulary: Tokens of the columns of a matrix. Default: their numbers.
        :param format: Format of all files, one of ``names("format")``. Default: recognised by the
            name of each file.
        :param on_error: What to do with malformed documents: ``"stop"`` raises an exception,
            ``"skip"`` skips them with a warning.
        :param overwrite: Whether to replace an index that exists at ``path``.
        :param memory: Memory for postings under construction, in bytes. Default: a quarter of the
            memory of the machine.
        :param build_device: Device that builds the index: ``"cpu"``, ``"cuda"`` or ``"auto"``.
        :param progress: Whether to show a progress bar, if tqdm is installed.
        :param searching: Options of :meth:`open`.

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
        calibration: str | os.PathLike[str] | None = None,
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

        :param path: Directory of the index.
        :param device: Device that answers queries: ``"cpu"``, ``"cuda"`` (an error without a usable
            GPU), ``"auto"`` (the faster one for each batch), or ``"both"``.
        :param gpus: Numbers of the GPUs to use.
        :param gpu_memory: Maximum memory to use on a GPU, in bytes.
        :param calibration: File with the times of queries on this machine, which
            ``warpseek calibrate --output`` writes, for ``"auto"`` and ``"both"``. Default: the
            calibration in the user's cache; without one, a few queries are timed.
        :param split: How several devices divide the work: by ``"documents"`` or by ``"queries"``.
        :param algorithm: Algorithm that answers queries, one of ``names("algorithm")``.
        :param ranking: Ranking function, one of ``names("ranking")``. Default: the one that suits
            the index.
        :param k1: Parameter of BM25. Default: 0.9.
        :param b: Parameter of BM25. Default: 0.4.
        :param static_weight: Weight of static scores in the scores of hits. Default: 0, which
            ignores static scores.
        :param threads: Number of CPU threads. Default: one per core.
        :param mmap: Whether to map files into memory instead of reading them.
        """
        options = _searching(
            {
                "device": device,
                "gpus": gpus,
                "gpu_memory": gpu_memory,
                "calibration": calibration,
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
        """Returns the best ``k`` documents for a query.

        :param query: Text, or a dict of terms and weights. If the index has a schema or positions,
            text is read in the syntax of docs/reference/query-syntax.md.
        :param k: Maximum number of hits.
        :param mode: Which documents match: those with any of the words (``"or"``), with all
            (``"and"``), or with all if there are ``k`` of them and otherwise with any
            (``"and-or"``).
        :param filter: A query that hits must match. It does not affect scores.
        :param among: Ids that hits must have.
        :param count: Whether to count all matches; see :attr:`Hits.matches`.
        :param sort: Sort keys: attributes, ``_score`` or ``_doc``. A ``-`` before a name sorts in
            descending order.
        :param after: :attr:`Hits.after` of the previous page.
        :param facets: Counts of matches by attribute: ``{"tag": 10}`` for its ten most frequent
            values, ``{"year": [(2000, 2010), (2010, None)]}`` for ranges.
        :param syntax: Whether text is read in the query syntax. Default: True if the index has a
            schema or positions.
        :param ranking: Ranking function. Default: that of the opened index.
        :param k1: Parameter of BM25. Default: that of the opened index.
        :param b: Parameter of BM25. Default: that of the opened index.
        :param static_weight: Weight of static scores. Default: that of the opened index.
        :param deadline: Time limit in seconds. A search that reaches it returns what it has found
            so far, and :attr:`Hits.complete` is False.

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
        """Answers many queries at once, over one snapshot of the index.

        The work is divided among all threads, or done on a GPU. ``queries`` is one of these:

        - a list, an iterator or a NumPy array of queries,
        - a column of pandas, polars or Arrow; Arrow strings are read in place,
        - a table with a column ``query``, and optionally ids in ``qid`` or ``query_id``,
        - a dataset of ir_datasets,
        - a sparse matrix of SciPy, with a query in each row.

        The other options are those of :meth:`search`.

        :param queries: The queries.
        :param k: Maximum number of hits for each query.
        :param threads: Number of CPU threads for this batch. Default: that of the opened index.
        :param vocabulary: Tokens of the columns of a matrix. Default: their numbers.
        :param on_error: What to do with queries that fail: ``"raise"`` raises the first exception,
            ``"skip"`` leaves them without hits and reports them in :attr:`Results.errors`.
        :param progress: Whether to show a progress bar, if tqdm is installed.

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
        """Explains the score of a document for a query, whether it is a hit or not.

        Raises KeyError if the document does not exist. ``options`` are those of :meth:`search`.

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
        """Finds documents that contain a phrase, even if it is misspelt.

        The index must have been built with ``ngrams``.

        :param query: The phrase.
        :param k: Maximum number of hits.
        :param misses: Number of n-grams of the query that a hit may lack, such as 6 or ``"25%"``.
            Default: as many as ``errors`` can affect. Without ``errors``: as many as five errors
            can affect or 25%, whichever is more, but at most two thirds.
        :param errors: Number of characters that may be wrong. Default: no limit.
        :param verify: Whether to compare the best candidates with the query character by character,
            and to rank them by edit distance.
        :param candidates: Number of candidates to verify.
        :param deadline: Time limit in seconds.
        :param width: Number of characters of text to return around each match. Default: none.

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
        """Answers several queries as :meth:`ngram_search` does, with the same options."""
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
        """Queues documents to be added by the next :meth:`commit`, and returns their number.

        A document replaces the one with the same id. ``documents`` is what :meth:`build` accepts,
        except files and matrices, or a single dict or string.

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
        """Queues deletions for the next :meth:`commit`, and returns their number."""
        return self._native.delete([ids] if isinstance(ids, str) else _arguments.ids("ids", ids))

    def commit(self, *, progress: bool = False) -> dict[str, Any]:
        """Writes all queued changes, or none if it fails, and makes them visible to searches.

        Returns a dict that reports what was added and deleted, and the new generation.
        """
        with Bar(_arguments.flag("progress", progress)) as report:
            done = self._native.commit(report)
        self._native.refresh()
        return done

    def rollback(self) -> None:
        """Discards all changes queued since the last commit."""
        self._native.rollback()

    @property
    def pending(self) -> tuple[int, int]:
        """The numbers of documents and of deletions that wait for a commit."""
        return self._native.pending()

    def add_files(
        self,
        *paths: str | os.PathLike[str],
        id_field: str | None = None,
        title_field: str | None = None,
        text_fields: str | Sequence[str] = (),
        progress: bool = False,
    ) -> dict[str, Any]:
        """Adds the documents of files in one commit, and returns a report.

        The arguments are those of :meth:`build`.
        """
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
        """Switches to the newest commit, of this process or another.

        Returns False if the index is up to date already.
        """
        return self._native.refresh()

    def merge(self) -> None:
        """Merges all segments into one and removes deleted documents. Results do not change."""
        self._native.merge()
        self._native.refresh()

    def verify(self) -> list[str]:
        """Verifies all files, and returns a list of problems, which is empty if there are none."""
        return self._native.verify()

    # Properties and documents

    def document(self, id: str) -> Any:
        """Returns the stored document with an id.

        Returns None if it does not exist, or if the index stores only ids.
        """
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
        """The directory of the index."""
        return str(self._native.path())

    @property
    def facts(self) -> dict[str, Any]:
        """Facts about the index, as a dict.

        They include the numbers of documents, tokens and segments, the generation, the content,
        the analyzer, the codec and the schema.
        """
        return self._native.facts()

    @property
    def status(self) -> dict[str, Any]:
        """The GPU that answers or the reason why none does, the ranking, and notices, as a dict."""
        return self._native.status()

    def prepare(self) -> Index:
        """Does the work that the first query would have to wait for, and returns the index.

        This includes copying the index to a GPU.
        """
        self._native.prepare()
        return self

    def __repr__(self) -> str:
        facts = self.facts
        return f"<Index of {facts['documents']:,} documents in {self.path!r} ({facts['content']}, generation {facts['generation']})>"

    # Closing and pickling

    def close(self) -> None:
        """Removes the temporary directory of the index, if it has one.

        Other indexes need not be closed.
        """
        if self._owned is not None:
            self._owned.cleanup()
            self._owned = None

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[..., Index], tuple[str, dict[str, Any]]]:
        # The other process opens the same directory.
        return (_reopen, (self.path, self._options))


def _reopen(path: str, options: dict[str, Any]) -> Index:
    return Index.open(path, **options)


_SEARCHING: dict[str, Any] = {
    "device": "cpu",
    "gpus": None,
    "gpu_memory": None,
    "calibration": None,
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
    """Returns the native options of a search, for modules that call the native index directly."""
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


#: Descriptions of the kinds of sources of :meth:`Index.build`.
_SOURCES = {
    "files": "files",
    "documents": "documents",
    "vectors": "dicts of tokens and weights (vectors=True)",
    "matrix": "a sparse matrix",
}

#: The kinds of sources that accept an argument of :meth:`Index.build`. All accept the others.
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
    """Raises OptionsError if an argument is given that this kind of source does not accept."""
    for name, value in given.items():
        if value is not None and source not in _TAKEN_BY[name]:
            takers = " or ".join(_SOURCES[taker] for taker in _TAKEN_BY[name])
            problem = f"{name} is for {takers}, but the source is {_SOURCES[source]}"
            raise OptionsError(problem, "Argument")


def _one_or_many(documents: Any) -> Any:
    return [documents] if isinstance(documents, (dict, str)) else documents


def _documents(name: str, source: Any, id_field: str | None, vectors: bool) -> tuple[Iterator[Any], str]:
    field = None if id_field is None else _arguments.text("id_field", id_field)
    items = _sources.documents(source, name)
    return (iter(items), "id") if vectors else _sources.id_field(iter(items), field)
