"""`embedders:` and `sparse_embedders:` the models that turn texts into vectors and into terms."""

from typing import Annotated, ClassVar, Self, TypeAlias

from pydantic import Field, field_validator, model_validator

from lorebind_config.declarations.base import Declaration, Id, refused
from lorebind_config.declarations.kinds import KindRegistry
from lorebind_config.declarations.retrieval import Level

NONE = "none"
"""The id and the provider of the embedder of knowledge bases without vectors."""

OFF = "off"
"""The value of `sparse` for a knowledge base without a sparse embedder."""

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

    makes_vectors: ClassVar[bool] = True
    """Whether searches can compare its vectors; only the built-in `none` makes none."""

    @field_validator("id")
    @classmethod
    def _id_is_not_none(cls, value: str) -> str:
        if value == NONE and cls.makes_vectors:
            hint = "choose another id; a knowledge base with embedder: none has no vectors"
            raise refused(f"{value!r} cannot be the id of an embedder", hint)
        return value

    @property
    def known_dimension(self) -> int | None:
        """The length of the vectors; None if only a call of the embedder can tell."""
        return None

    languages: ClassVar[str] = ""
    """The note that `doctor` adds for an embedder that knows English only; empty for others."""

    sparse_default: ClassVar[str] = OFF
    """The value of `sparse` for knowledge bases with this embedder that do not set it: `local` only
    where searches were measured to find more with the built-in sparse embedder."""

    @property
    def token_price(self) -> float | None:
        """The price of a million tokens; None if it is not declared or the embedder is free."""
        price: float | None = getattr(self, "price_per_million_tokens", None)
        return price


class SparseEmbedderBase(Declaration):
    """The base of all declarations of sparse embedders, including those of plugins."""

    label: ClassVar[str] = "sparse embedder"
    kind_key: ClassVar[str] = "provider"

    id: Id = Field(description="The id by which knowledge bases refer to the sparse embedder.")

    @field_validator("id")
    @classmethod
    def _id_is_not_off(cls, value: str) -> str:
        if value == OFF:
            hint = "choose another id; a knowledge base with sparse: off has no sparse embedder"
            raise refused(f"{value!r} cannot be the id of a sparse embedder", hint)
        return value


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
    def _backoff_fits(self) -> Self:
        if self.backoff_ms > self.max_backoff_ms:
            hint = f"expected at most max_backoff_ms, {self.max_backoff_ms}"
            raise refused(f"backoff_ms is {self.backoff_ms}", hint, "backoff_ms")
        return self


EmbedderDeclaration: TypeAlias = Annotated[
    EmbedderBase,
    KindRegistry("embedders", EmbedderBase),
]
"""An embedder, selected by `provider`: built in or from a plugin."""


SparseEmbedderDeclaration: TypeAlias = Annotated[
    SparseEmbedderBase,
    KindRegistry("sparse_embedders", SparseEmbedderBase),
]
"""A sparse embedder, selected by `provider`: built in or from a plugin."""
