"""`lexical`: the passages that match the words of the question best, by BM25."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lorebind_knowledge.retrieval.query import Query, Ranking


def lexical(query: Query, limit: int) -> Ranking:
    """`score` is the share of the best passage's BM25; the cosine stands beside it."""
    return query.worded(limit)
