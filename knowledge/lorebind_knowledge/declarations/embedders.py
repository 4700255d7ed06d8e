"""`embedders:` what turns texts into vectors."""

from __future__ import annotations

from typing import Annotated, ClassVar, TypeAlias

from pydantic import Field, model_validator

from lorebind_knowledge.declarations.base import Declaration, Fault, Id, RefusedError
from lorebind_knowledge.declarations.places import Place


class EmbedderBase(Declaration):
    """What all embedders declare, those of plugins too."""

    label: ClassVar[str] = "embedder"
    kind_key: ClassVar[str] = "provider"

    id: Id = Field(description="The name by which knowledge bases refer to the embedder.")

    @property
    def known_dimension(self) -> int | None:
        """Length of the vectors as far as the declaration tells; None where only a call can."""
        return None

    @property
    def known_hit_score(self) -> float | None:
        """The embedder's `hit_score`; None where only the embedder itself can tell it."""
        return None

    languages: ClassVar[str] = ""
    """What `doctor` says of an embedder that knows English only; empty for all others."""

    @property
    def token_price(self) -> float | None:
        """What a million tokens cost; None where that is not declared, or nobody charges."""
        price: float | None = getattr(self, "price_per_million_tokens", None)
        return price


class RetryConfig(Declaration):
    """How to try again after a failure that may pass: a limit, an overload, a lost connection."""

    attempts: int = Field(3, ge=1, le=20, description="Tries in all.")
    backoff_ms: int = Field(
        200, ge=0, le=600_000, description="The wait before the second try; it doubles each time."
    )
    max_backoff_ms: int = Field(
        20_000, ge=0, le=600_000, description="The longest wait, a provider's Retry-After included."
    )

    @model_validator(mode="after")
    def _backoff_fits(self) -> RetryConfig:
        if self.backoff_ms > self.max_backoff_ms:
            hint = f"expected at most max_backoff_ms, {self.max_backoff_ms}"
            raise RefusedError([Fault(f"backoff_ms is {self.backoff_ms}", hint, ("backoff_ms",))])
        return self


EmbedderDeclaration: TypeAlias = Annotated[
    EmbedderBase,
    Place(
        "embedders",
        EmbedderBase,
        {
            "local": "lorebind_knowledge.embedders.local",
            "openai": "lorebind_knowledge.embedders.openai",
            "hashing": "lorebind_knowledge.embedders.hashing",
            "langchain": "lorebind_knowledge.embedders.langchain",
            "fastembed": "lorebind_knowledge.embedders.fastembed",
        },
    ),
]
"""One of the embedders, chosen by `provider`: one of these or a plugin's."""
