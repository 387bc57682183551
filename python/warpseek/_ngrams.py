"""What an approximate search finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class NgramHit:
    """A document that has nearly all n-grams of the query close together."""

    #: Its id.
    id: str
    #: How many n-grams of the query it has.
    score: int
    #: How many characters differ, if that was verified.
    distance: int | None
    #: The part of the text that matches, if that was asked for.
    snippet: str | None = None
    #: Where in it the match is.
    highlights: tuple[tuple[int, int], ...] = ()


class NgramHits(list[NgramHit]):
    """The hits of an approximate search, best first."""

    def __init__(self, hits: list[dict[str, Any]], ngrams: int, complete: bool):
        super().__init__(_hit(hit) for hit in hits)
        #: The number of different n-grams of the query, which is the highest score.
        self.ngrams = ngrams
        #: Whether all documents were searched and all candidates verified.
        self.complete = complete


def _hit(hit: dict[str, Any]) -> NgramHit:
    text, marks = hit.get("snippet") or (None, ())
    return NgramHit(hit["id"], hit["score"], hit["distance"], text, tuple(marks))
