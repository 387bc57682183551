"""Runs, judgements and measures."""

from __future__ import annotations

import os
import warnings
from typing import Any, Iterable, Mapping

from warpseek import _arguments, _warpseek


class Evaluation(dict[str, float]):
    """Means of measures by name. :attr:`per_query` has the measures of each query."""

    #: Measures by the id of the query.
    per_query: dict[str, dict[str, float]]
    #: Number of queries in the means.
    queries: int
    #: Number of judged queries without hits in the run. They count only with ``complete=True``.
    missing: int
    #: Number of queries of the run without judgements. They never count.
    unjudged: int

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><td>{name}</td><td>{value:.4f}</td></tr>" for name, value in self.items())
        return f"<table><tr><th>measure</th><th>{self.queries} queries</th></tr>{rows}</table>"


def evaluate(
    run: Any,
    qrels: Any,
    measures: Iterable[str] = ("ndcg@10", "map", "recall@100"),
    *,
    complete: bool = False,
) -> Evaluation:
    """Computes the measures of a run, as trec_eval does.

    ``run`` is ``{query: {document: score}}``, a data frame, or the path of a TREC run. ``qrels`` is
    ``{query: {document: grade}}``, a data frame, an iterable of judgements of ir_datasets, or a
    path. Data frames have the columns of ir_measures (``query_id doc_id score`` or ``relevance``)
    or of PyTerrier (``qid docno score`` or ``label``).

    The measures are means over the queries that have both judgements and hits, as in trec_eval
    without ``-c``. If judged queries have no hits, a warning gives their number, which is also in
    ``missing`` of the result.

    :param run: The run.
    :param qrels: The judgements.
    :param measures: Measures, such as ``ndcg@10``; ``names("measure")`` lists them.
    :param complete: Whether judged queries without hits count as 0 (``trec_eval -c``). Only then
        can systems be compared fairly.

    >>> evaluate({"q": {"a": 2.0, "b": 1.0}}, {"q": {"b": 1}}, ["mrr", "p@1"])
    {'mrr': 0.5, 'p@1': 0.0}
    """
    names = _arguments.strings("measures", measures)
    means, per_query, queries, missing, unjudged = _warpseek.evaluate(
        as_qrels(qrels), as_run(run), names, complete
    )
    evaluation = Evaluation(zip(names, means))
    evaluation.per_query = {query: dict(zip(names, values)) for query, values in per_query.items()}
    evaluation.queries, evaluation.missing, evaluation.unjudged = queries, missing, unjudged
    if missing and not complete:
        told = f"{missing} of {missing + queries} judged queries have no hits in the run and do not count"
        warnings.warn(f"{told}; complete=True counts them as 0", stacklevel=2)
    return evaluation


def as_run(run: Any) -> Mapping[str, Mapping[str, float]]:
    """Converts a run to ``{query: {document: score}}``; see :func:`evaluate` for the sources."""
    if isinstance(run, (str, os.PathLike)):
        return _warpseek.read_run(os.fspath(run))
    if isinstance(run, Mapping):
        return run
    if hasattr(run, "run") and not hasattr(run, "columns"):
        inner: Any = run.run
        # The results of search_many, or a Run of ranx.
        return as_run(inner() if callable(inner) else {str(q): dict(inner[q]) for q in inner})
    return _nested(run, ("score",))


def as_qrels(qrels: Any) -> Mapping[str, Mapping[str, int]]:
    """Converts judgements to ``{query: {document: grade}}``; see :func:`evaluate`."""
    if isinstance(qrels, (str, os.PathLike)):
        return _warpseek.read_qrels(os.fspath(qrels))
    if isinstance(qrels, Mapping):
        return qrels
    if hasattr(qrels, "qrels_iter"):
        qrels = qrels.qrels_iter()
    elif hasattr(qrels, "qrels"):  # ranx
        return {str(q): {d: int(g) for d, g in qrels.qrels[q].items()} for q in qrels.qrels}
    nested = _nested(qrels, ("relevance", "label"))
    return {query: {doc: int(grade) for doc, grade in grades.items()} for query, grades in nested.items()}


def _nested(rows: Any, values: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Groups rows by query and document. The columns have the names of either convention."""
    nested: dict[str, dict[str, Any]] = {}
    if hasattr(rows, "columns"):
        names = list(rows.columns)
        query, doc = ("qid", "docno") if "qid" in names else ("query_id", "doc_id")
        value = next(name for name in values if name in names)
        columns = (list(rows[query]), list(rows[doc]), list(rows[value]))
        triples: Iterable[tuple[Any, Any, Any]] = zip(*columns)
    else:
        field = values[0]
        triples = ((row.query_id, row.doc_id, getattr(row, field)) for row in rows)
    for query, doc, found in triples:
        nested.setdefault(str(query), {})[str(doc)] = found
    return nested
