"""Results of approximate searches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class NgramHit:
    """A document that has nearly all n-grams of the query close together."""

    #: Id of the document.
    id: str
    #: Number of n-grams of the query that the document has.
    score: int
    #: Edit distance of the match in characters, if it was verified.
    distance: int | None
    #: The part of the text that contains the match, if it was requested.
    snippet: str | None = None
    #: Positions of the match in the snippet.
    highlights: tuple[tuple[int, int], ...] = ()


class NgramHits(list[NgramHit]):
    """The hits of an approximate search, best first."""

    def __init__(self, hits: list[dict[str, Any]], ngrams: int, complete: bool):
        super().__init__(_hit(hit) for hit in hits)
        #: Number of different n-grams of the query, which is the highest possible score.
        self.ngrams = ngrams
        #: True if all documents were searched and all candidates were verified.
        self.complete = complete


def _hit(hit: dict[str, Any]) -> NgramHit:
    text, marks = hit.get("snippet") or (None, ())
    return NgramHit(hit["id"], hit["score"], hit["distance"], text, tuple(marks))
