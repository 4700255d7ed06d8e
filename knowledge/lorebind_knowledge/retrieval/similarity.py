"""`similarity`: the passages whose vectors are nearest to the question's, by cosine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lorebind_knowledge.retrieval.query import Query, Ranking


def similarity(query: Query, limit: int) -> Ranking:
    """`score` is the cosine, clipped to 0 to 1."""
    return query.nearest(limit)
