"""`lexical`: the passages that match the words of the question best, by BM25."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lorebind_knowledge.retrieval.query import Query, Ranking


def lexical(query: Query, limit: int) -> Ranking:
    """`score` is that of `Query.worded`; BM25 and the cosine stand beside it."""
    return query.worded(limit)
