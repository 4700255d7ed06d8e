"""The strategy `hybrid`: fuses the results of the vector search and the word search."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.retrieval.fusion import fuse
from lorebind_knowledge.retrieval.smoothing import smooth

if TYPE_CHECKING:
    from lorebind_knowledge.retrieval.query import Candidates, Query


def hybrid(query: Query, limit: int) -> Candidates:
    """Return all fused candidates; `limit` does not change them."""
    fusion = query.settings.fusion
    ranked = fuse(query.both(fusion.depth), fusion)
    if not fusion.smoothing.weight:
        return ranked
    documents, vectors = query.documents(ranked.passages), query.vectors(ranked.passages)
    return smooth(ranked, documents, vectors, fusion.smoothing)
