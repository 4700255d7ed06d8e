"""`weak_below`: the relevance of the best passage below which a match is weak."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeAlias

from pydantic import Field

if TYPE_CHECKING:
    from lorebind_config.declarations.retrieval import RetrievalDeclaration

Level: TypeAlias = Annotated[float | None, Field(ge=0, le=1)]
"""A relevance, or None: no match is weak."""


class WeakLevels(NamedTuple):
    """The levels of a knowledge base. Each score that can be the relevance has a scale of its own,
    so the level of an embedder is about cosines, and that of a reranker about its scores."""

    cosine: float | None = None
    """The level for cosines: that of the knowledge base, or else of its embedder."""
    other: float | None = None
    """The level for all other scores, set for the knowledge base."""

    def of(self, settings: RetrievalDeclaration) -> float | None:
        """Return the level for searches with these settings; None: no match is weak."""
        if settings.relevance_is == "dense":
            return self.cosine
        reranker = settings.rerank if settings.relevance_is == "rerank" else None
        if reranker is not None and (
            "weak_below" in reranker.model_fields_set or reranker.weak_below is not None
        ):
            return reranker.weak_below
        return self.other
