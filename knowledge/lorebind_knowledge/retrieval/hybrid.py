"""The strategy `hybrid`: fuses the results of the vector search and the word search."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.retrieval.fusion import fuse, fused
from lorebind_knowledge.retrieval.smoothing import smooth

if TYPE_CHECKING:
    from lorebind_knowledge.retrieval.query import Candidates, Query


def hybrid(query: Query, limit: int) -> Candidates:
    """Return all fused candidates; `limit` does not change them."""
    fusion = query.settings.fusion
    candidates = query.hybrid_candidates(fusion.depth)
    # Only small indexes have fewer candidates than that. Scaling by the whole question helps there
    # (MRR@10 +.013 among 10 documents), and costs quality for long questions in larger ones.
    full = query.full_scores() if len(candidates) < fusion.depth else (0.0, 0.0)
    if not fusion.smoothing.weight:
        return fuse(candidates, fusion, full)
    figures, passages = fused(candidates, fusion, full), candidates.passages
    documents, vectors = query.documents(passages), query.vectors(passages)
    return smooth(candidates, figures, documents, vectors, fusion.smoothing)
