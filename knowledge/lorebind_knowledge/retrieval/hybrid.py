"""`hybrid`: what vectors find and what words find, brought together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.retrieval.fusion import fuse

if TYPE_CHECKING:
    from lorebind_knowledge.retrieval.query import Query, Ranking


def hybrid(query: Query, limit: int) -> Ranking:
    """The fused candidates, all of them: `limit` does not change which they are."""
    fusion = query.settings.fusion
    return fuse(query.both(fusion.depth), fusion)
