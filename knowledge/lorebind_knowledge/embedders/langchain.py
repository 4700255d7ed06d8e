"""An adapter that makes an embedder from any LangChain `Embeddings`."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from lorebind_config.checks.named_code import named_class
from lorebind_config.declarations.base import Declaration as DeclarationBase
from lorebind_config.declarations.embedders import EmbedderBase, RetryConfig
from lorebind_config.declarations.objects import ClassOrObject, LiveObject
from lorebind_config.declarations.values import ConfigMap, Secret
from lorebind_config.errors import EmbedderError
from lorebind_config.project_code import module_of
from lorebind_knowledge.embedders.base import (
    Embedder,
    Fingerprint,
    TokenCount,
    address_digest,
    counted,
    estimated,
)
from lorebind_knowledge.embedders.openai import OPENAI_DIMENSIONS
from lorebind_knowledge.embedders.retrying import RetryingEmbedder
from lorebind_knowledge.plumbing.bridge import call_client, call_daemon
from lorebind_knowledge.plumbing.tokenizing import encodable
from lorebind_knowledge.resilience.failures import provider_message

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lorebind_config.reading.make_part import PartEnvironment
    from lorebind_knowledge.records import Matrix, Vector

_ADDRESSES = ("base_url", "openai_api_base")
"""Settings that name a service's address and do not affect its vectors."""
_TELLING = ("model", "model_name", "model_id", "deployment", "dimensions", "size")


class LangChainSettings(DeclarationBase):
    """The class, its arguments, and how it is called."""

    templated: ClassVar[tuple[str, ...]] = ("api_key", "config")

    class_path: ClassOrObject = Field(
        alias="class",
        description="The class, as 'package.module:Class', in the project folder or installed.",
    )
    model: str | None = Field(None, description="Passed to the class as `model`.")
    api_key: Secret | None = Field(
        None, description="Passed to the class as `api_key`; only a template is accepted."
    )
    config: ConfigMap = Field(
        default_factory=dict, description="Further arguments of the class, by name."
    )
    batch_size: int = Field(64, ge=1, le=8192, description="Texts per call.")
    retry: RetryConfig = Field(
        default_factory=RetryConfig,
        description="How to retry transient failures, in addition to the class's own retries.",
    )
    max_concurrent: int = Field(
        4,
        ge=1,
        le=64,
        description="Maximum number of concurrent calls; questions have as many of their own.",
    )
    requests_per_minute: int | None = Field(
        None, ge=1, description="Maximum number of calls per minute. By default unlimited."
    )


class LangChainEmbedderDeclaration(EmbedderBase, LangChainSettings):
    """Any `Embeddings` class of LangChain."""

    provider: Literal["langchain"] = Field(description="An Embeddings class of LangChain.")
    price_per_million_tokens: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="The provider's price, in any currency; `plan` uses it to estimate the cost.",
    )


Declaration = LangChainEmbedderDeclaration


def make(declaration: LangChainEmbedderDeclaration, environment: PartEnvironment) -> Embedder:
    """Make the embedder, with retries and limits.

    Raises:
        EmbedderError: the class is not a LangChain `Embeddings`.
    """
    from langchain_core.embeddings import Embeddings

    expected = "a class derived from LangChain's Embeddings"
    embedder: Embedder = make_client(
        declaration, environment, LangChainEmbedder, expected, Embeddings
    )
    return embedder


def make_client(
    declaration: Any,
    environment: PartEnvironment,
    adapter: Callable[..., LangChainClient],
    expected: str,
    *kinds: type,
    methods: Sequence[str] = (),
) -> Any:
    """Make the declared object, and wrap it in the adapter, with retries and limits.

    Args:
        declaration: has the fields of `LangChainSettings`, and an id.
        environment: fills the templates of the arguments.
        adapter: makes the embedder from the object, with the arguments of `LangChainClient`.
        expected, kinds, methods: see `named_class`.

    Raises:
        EmbedderError: the class or the object is not as expected.
    """
    written: dict[str, Any] = dict(declaration.config)
    if declaration.model is not None:
        written["model"] = declaration.model
    secret = {} if declaration.api_key is None else {"api_key": declaration.api_key}
    kind = named_class(
        declaration, environment, expected, *kinds, methods=methods, failure=EmbedderError
    )
    filled = environment.fill(written | secret)
    embeddings = kind(**filled)
    if kinds and not isinstance(embeddings, kinds):
        name = " or ".join(kind.__name__ for kind in kinds)
        raise EmbedderError(
            f"{declaration.title}: {declaration.class_path} is not a LangChain {name}"
        )
    # The settings as written, with their templates: they identify the embedder without secrets.
    is_live = isinstance(declaration.class_path, LiveObject)
    settings = _settings_of(embeddings) if is_live else written
    inner: Any = adapter(
        embeddings,
        model=declaration.model or str(settings.get("model", "")),
        settings=settings,
        address=_address(embeddings, filled),
        batch_size=declaration.batch_size,
        say=partial(provider_message, holder=embeddings, values=environment.secrets),
    )
    return RetryingEmbedder(
        inner,
        retry=declaration.retry,
        max_concurrent=declaration.max_concurrent,
        requests_per_minute=declaration.requests_per_minute,
    )


def _settings_of(embeddings: Any) -> dict[str, Any]:
    """Return the object's attributes that determine its vectors; equal ones mean equal vectors."""
    attributes = {name: getattr(embeddings, name, None) for name in _TELLING}
    return {name: value for name, value in attributes.items() if isinstance(value, str | int)}


def _address(embeddings: Any, arguments: Mapping[str, Any]) -> str:
    """Return a digest of the service's address, if the object or its arguments name it."""
    values = [arguments.get(name) or getattr(embeddings, name, None) for name in _ADDRESSES]
    return address_digest(*(value for value in values if isinstance(value, str) and value))


def _only_blocks(awaited: Any) -> bool:
    """Return whether an async method is LangChain's default, which calls the sync one.

    It does so in the few threads of the event loop's executor. Batches of an ingest could occupy
    all of them, so that questions and everything else in there would wait.
    """
    return getattr(awaited, "__module__", None) == "langchain_core.embeddings.embeddings"


def _revision(embeddings: Any, settings: Mapping[str, Any]) -> str:
    kind = f"{module_of(type(embeddings))}.{type(embeddings).__qualname__}"
    return f"{kind} {json.dumps(settings, sort_keys=True, default=str)}"


class LangChainClient:
    """Calls a live object of LangChain, by its sync or async methods as the caller needs."""

    def __init__(
        self,
        embeddings: Any,
        *,
        model: str = "",
        settings: Mapping[str, Any] | None = None,
        address: str | None = None,
        batch_size: int = 64,
        say: Callable[[Exception], str] | None = None,
    ) -> None:
        """
        Args:
            embeddings: the object to call.
            model: its name in messages and manifests; the class's name when empty.
            settings: its configuration without secrets. All settings except addresses are part of
                the fingerprint, since LangChain objects have no identity of their own.
            address: a digest of the service's address; None derives it from the object.
            batch_size: texts per call.
            say: returns an exception's message without secrets; None removes those that the object
                holds.
        """
        self.batch_size = batch_size
        self._embeddings = embeddings
        self._say = say or partial(provider_message, holder=embeddings)
        self._model = model or type(embeddings).__name__
        self._is_openai = (model or str((settings or {}).get("model"))) in OPENAI_DIMENSIONS
        telling = {
            name: value for name, value in (settings or {}).items() if name not in _ADDRESSES
        }
        if address is None:
            address = _address(embeddings, {})
        revision = _revision(embeddings, telling)
        self._fingerprint = Fingerprint("langchain", self._model, revision, address=address)

    @property
    def fingerprint(self) -> Fingerprint:
        return self._fingerprint

    async def _call(self, method: str, argument: Any) -> Any:
        blocking = getattr(self._embeddings, method)
        awaited = getattr(self._embeddings, f"a{method}", None)
        try:
            if awaited is None or _only_blocks(awaited):
                return await call_daemon(blocking, argument)
            return await call_client(blocking, awaited, argument)
        except Exception as error:  # any of the provider's own exceptions, without keys
            message = self._say(error)
            raise EmbedderError(f"embedder {self.fingerprint} failed: {message}") from error


class LangChainEmbedder(LangChainClient, Embedder):
    """Wraps a live `Embeddings`, and calls its sync or async methods as the caller needs."""

    def count_tokens(self, texts: Sequence[str]) -> TokenCount:
        """Return the token count, which is exact for OpenAI's models with any class."""
        return counted(map(encodable, texts)) if self._is_openai else estimated(texts)

    async def embed_documents(self, texts: Sequence[str]) -> Matrix:
        # Lists of floats: every caller checks and converts them.
        matrix: Matrix = await self._call("embed_documents", list(texts))
        return matrix

    async def embed_query(self, text: str) -> Vector:
        vector: Vector = await self._call("embed_query", text)  # as above
        return vector
