"""The strategies that combine the vector search and the word search."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lorebind_knowledge.cosines import dots
from lorebind_knowledge.retrieval.fusion import fused, scaled
from lorebind_knowledge.retrieval.query import weighed
from lorebind_knowledge.retrieval.smoothing import smooth

if TYPE_CHECKING:
    from lorebind_knowledge.retrieval.query import Candidate, Candidates, Query, Ranking


def hybrid(query: Query, limit: int) -> Candidates:
    """Return all fused candidates; `limit` does not change them."""
    fusion = query.settings.fusion
    candidates = query.hybrid_candidates(fusion.depth)
    # Only small indexes have fewer candidates than that. Scaling by the whole question helps there
    # (MRR@10 +.013 among 10 documents), and costs quality for long questions in larger ones.
    full = query.full_scores() if len(candidates) < fusion.depth else (0.0, 0.0)
    scores = fused(candidates, fusion, full)
    if not fusion.smoothing.weight:
        return weighed(candidates, scores, name="fused")
    documents = query.documents(candidates.passages)
    vectors = query.vectors(candidates.passages)
    return smooth(candidates, scores, documents, vectors, fusion.smoothing)


def mmr(query: Query, ranked: Candidates, limit: int) -> Ranking:
    """Return `limit` candidates of `hybrid` in the order of choice, by `scores["mmr"]`.

    Maximal marginal relevance of Carbonell and Goldstein (1998): each next passage has the largest
    `λ · relevance - (1 - λ) · likeness`. Relevance is the fused score scaled to 0 to 1; likeness is
    the greatest cosine to a passage chosen before.
    """
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
