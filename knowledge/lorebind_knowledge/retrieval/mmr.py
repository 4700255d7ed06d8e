"""The strategy `mmr`: chooses relevant passages that do not repeat each other.

Maximal marginal relevance of Carbonell and Goldstein (1998), over the candidates of `hybrid`: each
next passage has the largest `λ · relevance - (1 - λ) · likeness`. Relevance is the fused score
scaled to 0 to 1; likeness is the greatest cosine to a passage chosen before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lorebind_knowledge.cosines import dots
from lorebind_knowledge.retrieval.fusion import scaled

if TYPE_CHECKING:
    from lorebind_knowledge.retrieval.query import Candidate, Candidates, Query, Ranking


def mmr(query: Query, ranked: Candidates, limit: int) -> Ranking:
    """Return `limit` candidates of `hybrid` in the order of choice, by `scores["mmr"]`."""
    if not ranked:
        return []
    vectors = query.vectors(ranked.passages)
    relevance = scaled(ranked.raw_scores["fused"])
    weight = query.settings.mmr_lambda
    likeness = np.zeros(len(ranked))
    left = np.ones(len(ranked), np.bool_)
    chosen: list[Candidate] = []
    for _ in range(min(limit, len(ranked))):
        gain = np.where(left, weight * relevance - (1 - weight) * likeness, -np.inf)
        at = int(np.argmax(gain))  # the first of equals: candidates are sorted by relevance
        left[at] = False
        likeness = np.maximum(likeness, dots(vectors, vectors[at]))
        candidate = ranked[at]
        chosen.append(candidate.scored(candidate.score, mmr=float(gain[at])))
    return chosen
