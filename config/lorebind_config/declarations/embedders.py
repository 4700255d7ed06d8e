"""`embedders:` the models that turn texts into vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple, TypeAlias

from pydantic import Field, model_validator

from lorebind_config.declarations.base import Declaration, Fault, Id, RefusedError
from lorebind_config.declarations.places import Place

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


WeakBelow: TypeAlias = Annotated[
    Level,
    Field(
        description="The cosine that the best passage usually reaches if it answers the question. "
        "Below it, a match is weak. null: no match is weak.",
    ),
]


class EmbedderBase(Declaration):
    """The base of all embedder declarations, including those of plugins."""

    label: ClassVar[str] = "embedder"
    kind_key: ClassVar[str] = "provider"

    id: Id = Field(description="The id by which knowledge bases refer to the embedder.")
    weak_below: WeakBelow = None

    @property
    def known_dimension(self) -> int | None:
        """The length of the vectors; None if only a call of the embedder can tell."""
        return None

    languages: ClassVar[str] = ""
    """The note that `doctor` adds for an embedder that knows English only; empty for others."""

    @property
    def token_price(self) -> float | None:
        """The price of a million tokens; None if it is not declared or the embedder is free."""
        price: float | None = getattr(self, "price_per_million_tokens", None)
        return price


class RetryConfig(Declaration):
    """When to retry transient failures, such as a rate limit, an overload or a lost connection."""

    attempts: int = Field(
        3, ge=1, le=20, description="Maximum number of attempts, including the first. 1: no retry."
    )
    backoff_ms: int = Field(
        200,
        ge=0,
        le=600_000,
        description="Longest wait before the second attempt, in milliseconds. It doubles with each "
        "further attempt; the actual wait is a random part of it.",
    )
    max_backoff_ms: int = Field(
        20_000,
        ge=0,
        le=600_000,
        description="Longest wait between attempts in milliseconds, even if the provider's "
        "Retry-After header asks for more.",
    )

    @model_validator(mode="after")
    def _backoff_fits(self) -> RetryConfig:
        if self.backoff_ms > self.max_backoff_ms:
            hint = f"expected at most max_backoff_ms, {self.max_backoff_ms}"
            raise RefusedError([Fault(f"backoff_ms is {self.backoff_ms}", hint, ("backoff_ms",))])
        return self


EmbedderDeclaration: TypeAlias = Annotated[
    EmbedderBase,
    Place("embedders", EmbedderBase),
]
"""An embedder, selected by `provider`: built in or from a plugin."""
