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
    found = query.hybrid_candidates(fusion.depth)
    # Only small indexes have fewer candidates than that. Scaling by the whole question helps there
    # (MRR@10 +.013 among 10 documents), and costs quality for long questions in larger ones.
    full = query.full_word_figures() if len(found) < fusion.depth else (0.0, 0.0)
    if not fusion.smoothing.weight:
        return fuse(found, fusion, full)
    figures, passages = fused(found, fusion, full), found.passages
    documents, vectors = query.documents(passages), query.vectors(passages)
    return smooth(found, figures, documents, vectors, fusion.smoothing)
