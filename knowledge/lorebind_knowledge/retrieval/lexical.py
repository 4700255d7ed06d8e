"""`lexical`: the passages that match the words of the question best, by BM25."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.retrieval.base import with_figures

if TYPE_CHECKING:
    from lorebind_knowledge.retrieval.base import Ranking, Searching


async def lexical(search: Searching, limit: int) -> Ranking:
    """`score` is the share of the best passage's BM25; the cosine stands beside it."""
    found = await search.lexical(limit)
    if not found:
        return []
    nearness = await search.dense(len(found), [match.id for match in found])
    cosines = {match.id: match.scores["dense"] for match in nearness}
    return [with_figures(match, match.score, **_dense(cosines, match.id)) for match in found]


def _dense(cosines: dict[str, float], match_id: str) -> dict[str, float]:
    return {"dense": cosines[match_id]} if match_id in cosines else {}
