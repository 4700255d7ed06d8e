"""`lexical`: the passages that match the words of the question best, by BM25."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.retrieval.base import with_figures

if TYPE_CHECKING:
    from lorebind_knowledge.retrieval.base import Ranking, Searching


_ROUNDS = 3
"""Searches, until none of what was found has been superseded before its cosine was asked for."""


async def lexical(search: Searching, limit: int) -> Ranking:
    """`score` is the share of the best passage's BM25; the cosine stands beside it."""
    ranked: Ranking = []
    for _ in range(_ROUNDS):
        found = await search.lexical(limit)
        if not found:
            return []
        nearest = await search.dense(len(found), [match.id for match in found])
        cosines = {match.id: match.scores["dense"] for match in nearest}
        ranked = [
            with_figures(match, match.score, dense=cosines[match.id])
            for match in found
            if match.id in cosines
        ]
        if len(ranked) == len(found):
            break
    return ranked
