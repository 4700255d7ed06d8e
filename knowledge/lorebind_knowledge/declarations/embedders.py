"""`embedders:` what turns texts into vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field, model_validator

from lorebind_knowledge.declarations.base import Declaration, Fault, Id, RefusedError
from lorebind_knowledge.declarations.plugging import Open
from lorebind_knowledge.declarations.secrets import Secret
from lorebind_knowledge.declarations.values import ClassPath, ConfigMap, WebAddress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lorebind_knowledge.declarations.base import Wants

LOCAL_DIMENSION = 384
"""Length of the vectors of all-MiniLM-L6-v2."""

OPENAI_DIMENSIONS = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}
"""Length of the vectors of OpenAI's models (https://platform.openai.com/docs/guides/embeddings)."""
_FIXED = ("text-embedding-ada-002",)

OPENAI_KEY = "OPENAI_API_KEY"
"""Where OpenAI's key is looked for when a declaration names no other place."""


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
    def token_price(self) -> float | None:
        """What a million tokens cost; None where that is not declared, or nobody charges."""
        return None


class LocalEmbedderConfig(Declaration):
    """Settings of the embedder that runs on this machine."""

    templated: ClassVar[tuple[str, ...]] = ("model_path",)

    batch_size: int = Field(64, ge=1, le=1024, description="Texts per call.")
    threads: int | None = Field(
        None, ge=1, description="Threads of the model. By default as many as fit the machine."
    )
    model_path: str | None = Field(
        None, description="Path of another model.onnx of the same architecture."
    )


class LocalEmbedderDeclaration(EmbedderBase):
    """all-MiniLM-L6-v2 on this machine: no key, no network."""

    provider: Literal["local"] = Field(description="Runs on this machine.")
    model: Literal["all-MiniLM-L6-v2"] = Field(
        "all-MiniLM-L6-v2", description="The sentence embedding model."
    )
    config: LocalEmbedderConfig = Field(
        default_factory=LocalEmbedderConfig, description="How the model is run."
    )

    @property
    def known_dimension(self) -> int:
        return LOCAL_DIMENSION


class HashingEmbedderConfig(Declaration):
    """Settings of the hashing embedder."""

    dimension: int = Field(256, ge=8, le=8192, description="Length of the vectors.")
    batch_size: int = Field(1024, ge=1, le=8192, description="Texts per call.")


class HashingEmbedderDeclaration(EmbedderBase):
    """A deterministic bag of words, for tests: lexical, not semantic."""

    provider: Literal["hashing"] = Field(description="Counts words; needs no model.")
    config: HashingEmbedderConfig = Field(
        default_factory=HashingEmbedderConfig, description="The shape of the vectors."
    )

    @property
    def known_dimension(self) -> int:
        return self.config.dimension


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


class OpenAIEmbedderConfig(Declaration):
    """Settings of OpenAI's embedders, and of servers with the same protocol."""

    templated: ClassVar[tuple[str, ...]] = ("base_url",)

    batch_size: int = Field(96, ge=1, le=2048, description="Texts per call.")
    dimension: int | None = Field(
        None, ge=1, le=8192, description="Length of the vectors. By default the model's own."
    )
    strip_newlines: bool = Field(False, description="Give the model spaces for line breaks.")
    base_url: WebAddress | None = Field(None, description="Another server with the same protocol.")
    timeout_seconds: float = Field(60, gt=0, le=3600, description="How long a call may take.")
    retry: RetryConfig = Field(
        default_factory=RetryConfig, description="How to try again after a failure."
    )
    max_concurrent: int = Field(4, ge=1, le=64, description="The most calls at a time.")
    requests_per_minute: int | None = Field(
        None, ge=1, description="The most calls in a minute. By default there is no limit."
    )


class OpenAIEmbedderDeclaration(EmbedderBase):
    """OpenAI's embedding models, through langchain-openai."""

    templated: ClassVar[tuple[str, ...]] = ("api_key",)

    provider: Literal["openai"] = Field(description="Calls OpenAI, or what speaks its protocol.")
    model: str = Field("text-embedding-3-small", min_length=1, description="The name of the model.")
    api_key: Secret | None = Field(
        None, description="Only a template is accepted. By default `{{ .env.OPENAI_API_KEY }}`."
    )
    price_per_million_tokens: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="What the provider charges, in any currency, for `plan` to tell the cost.",
    )
    config: OpenAIEmbedderConfig = Field(
        default_factory=OpenAIEmbedderConfig, description="How the model is called."
    )

    def needs_trust(self) -> Iterator[tuple[str, Wants, str]]:
        if self.api_key is None:
            yield "provider", "read", f"the variable {OPENAI_KEY}"

    @property
    def known_dimension(self) -> int | None:
        return self.config.dimension or OPENAI_DIMENSIONS.get(self.model)

    @property
    def token_price(self) -> float | None:
        return self.price_per_million_tokens

    @model_validator(mode="after")
    def _model_has_dimension(self) -> OpenAIEmbedderDeclaration:
        wanted, natural = self.config.dimension, OPENAI_DIMENSIONS.get(self.model)
        if wanted is None or natural is None or wanted == natural:
            return self
        if self.model in _FIXED or wanted > natural:
            hint = f"expected {'' if self.model in _FIXED else 'at most '}{natural}"
            message = f"{self.model} has no vectors of dimension {wanted}"
            raise RefusedError([Fault(message, hint, ("config", "dimension"))])
        return self


class LangChainEmbedderDeclaration(EmbedderBase):
    """Any `Embeddings` class of LangChain."""

    templated: ClassVar[tuple[str, ...]] = ("api_key", "config")

    provider: Literal["langchain"] = Field(description="An Embeddings class of LangChain.")
    class_path: ClassPath = Field(
        alias="class",
        description="The class, as 'package.module:Class', in the project folder or installed.",
    )
    model: str | None = Field(None, description="Handed to the class as `model`.")
    api_key: Secret | None = Field(
        None, description="Handed to the class as `api_key`; only a template is accepted."
    )
    price_per_million_tokens: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="What the provider charges, in any currency, for `plan` to tell the cost.",
    )
    config: ConfigMap = Field(
        default_factory=dict, description="Further arguments of the class, by name."
    )
    batch_size: int = Field(64, ge=1, le=8192, description="Texts per call.")
    retry: RetryConfig = Field(
        default_factory=RetryConfig,
        description="What failures are worth, beside what the class does itself.",
    )
    max_concurrent: int = Field(4, ge=1, le=64, description="The most calls at a time.")
    requests_per_minute: int | None = Field(
        None, ge=1, description="The most calls in a minute. By default there is no limit."
    )

    @property
    def token_price(self) -> float | None:
        return self.price_per_million_tokens


_BuiltIn: TypeAlias = (
    LocalEmbedderDeclaration
    | OpenAIEmbedderDeclaration
    | HashingEmbedderDeclaration
    | LangChainEmbedderDeclaration
)
EmbedderDeclaration: TypeAlias = Annotated[
    _BuiltIn, Field(discriminator="provider"), Open("embedders", EmbedderBase, _BuiltIn)
]
"""One of the embedders, chosen by `provider`: one of these or a plugin's."""
