"""The strategy `similarity`: ranks passages by the cosine to the question's vector."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lorebind_knowledge.retrieval.query import Candidates, Query


def similarity(query: Query, limit: int) -> Candidates:
    """Rank by cosine; `score` is the cosine, clipped to 0 to 1."""
    return query.nearest(limit)
