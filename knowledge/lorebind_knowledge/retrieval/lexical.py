"""The strategy `lexical`: ranks passages by how well they match the question's words (BM25)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lorebind_knowledge.retrieval.query import Candidates, Query


def lexical(query: Query, limit: int) -> Candidates:
    """Rank by BM25. `score` is that of `Query.worded`; `scores` holds BM25 and the cosine."""
    return query.worded(limit)
