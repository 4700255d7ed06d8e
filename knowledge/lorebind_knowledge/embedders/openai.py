"""OpenAI's embedding models, and servers with the same protocol, through langchain-openai."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from lorebind_config.declarations.base import Fault, RefusedError, Settings
from lorebind_config.declarations.embedders import EmbedderBase, RetryConfig
from lorebind_config.declarations.values import Secret, WebAddress
from lorebind_config.errors import EmbedderError
from lorebind_config.plugins import import_extra
from lorebind_config.redaction import without
from lorebind_knowledge.embedders.base import (
    OPENAI_ENCODING,
    Embedder,
    Fingerprint,
    TokenCount,
    address_digest,
    counted,
    embed_documents,
    estimated,
)
from lorebind_knowledge.embedders.retrying import RetryingEmbedder
from lorebind_knowledge.plumbing.tokenizing import encodable, encode, token_bytes
from lorebind_knowledge.resilience.failures import UnreadableAnswerError, provider_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from langchain_openai import OpenAIEmbeddings

    from lorebind_config.declarations.base import Wants
    from lorebind_config.reading.make_part import PartEnvironment
    from lorebind_knowledge.records import Matrix, Vector

ADDRESS = "https://api.openai.com/v1"
MAX_TOKENS = 8191
"""Maximum number of tokens sent per text; the API refuses texts of more than 8192."""


OPENAI_DIMENSIONS = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}
"""Length of the vectors of OpenAI's models (https://platform.openai.com/docs/guides/embeddings)."""
_FIXED = ("text-embedding-ada-002",)

OPENAI_KEY = "OPENAI_API_KEY"
"""The variable that holds OpenAI's key unless a declaration names another one."""


class OpenAIEmbedderConfig(Settings):
    """Settings of OpenAI's embedders, and of servers with the same protocol."""

    templated: ClassVar[tuple[str, ...]] = ("base_url",)

    batch_size: int = Field(96, ge=1, le=2048, description="Texts per call.")
    dimension: int | None = Field(
        None, ge=1, le=8192, description="Length of the vectors. By default the model's own."
    )
    strip_newlines: bool = Field(False, description="Replace line breaks with spaces.")
    base_url: WebAddress | None = Field(None, description="Another server with the same protocol.")
    timeout_seconds: float = Field(60, gt=0, le=3600, description="Timeout of a call in seconds.")
    retry: RetryConfig = Field(
        default_factory=RetryConfig, description="How to retry transient failures."
    )
    max_concurrent: int = Field(
        4,
        ge=1,
        le=64,
        description="Maximum number of concurrent calls; questions have as many of their own.",
    )
    requests_per_minute: int | None = Field(
        None,
        ge=1,
        description="Maximum number of calls per minute, of all processes together if the catalog "
        "is in PostgreSQL. By default unlimited.",
    )


class OpenAIEmbedderDeclaration(EmbedderBase):
    """OpenAI's embedding models, through langchain-openai."""

    templated: ClassVar[tuple[str, ...]] = ("api_key",)

    provider: Literal["openai"] = Field(description="Calls OpenAI or a compatible server.")
    model: str = Field("text-embedding-3-small", min_length=1, description="The name of the model.")
    api_key: Secret | None = Field(
        None, description="Only a template is accepted. By default `{{ .env.OPENAI_API_KEY }}`."
    )
    price_per_million_tokens: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="The provider's price, in any currency; `plan` uses it to estimate the cost.",
    )
    config: OpenAIEmbedderConfig = Field(
        default_factory=OpenAIEmbedderConfig, description="How the model is called."
    )

    def needs_trust(self) -> Iterator[tuple[str, Wants, str]]:
        yield "provider", "send", urlsplit(ADDRESS).netloc
        if self.api_key is None:
            yield "provider", "read", f"{{{{ .env.{OPENAI_KEY} }}}}"

    @property
    def known_dimension(self) -> int | None:
        return self.config.dimension or OPENAI_DIMENSIONS.get(self.model)

    @model_validator(mode="after")
    def _model_has_dimension(self) -> OpenAIEmbedderDeclaration:
        dimension, natural = self.config.dimension, OPENAI_DIMENSIONS.get(self.model)
        if dimension is None or natural is None or dimension == natural:
            return self
        if self.model in _FIXED or dimension > natural:
            hint = f"expected {'' if self.model in _FIXED else 'at most '}{natural}"
            message = f"{self.model} has no vectors of dimension {dimension}"
            raise RefusedError([Fault(message, hint, ("config", "dimension"))])
        return self


Declaration = OpenAIEmbedderDeclaration


def make(declaration: OpenAIEmbedderDeclaration, environment: PartEnvironment) -> Embedder:
    config = declaration.config

    def api_key() -> str:
        if declaration.api_key is not None:
            return str(environment.fill(declaration.api_key))
        if key := environment.lookup(OPENAI_KEY):
            return key
        if config.base_url is not None:
            return "none"  # the client requires a key; self-hosted servers rarely do
        raise EmbedderError(
            f"embedder {declaration.id!r}: variable {OPENAI_KEY} is not set; put the key into the "
            "environment or into .env, or name another variable with api_key"
        )

    inner = OpenAIEmbedder(
        model=declaration.model,
        api_key=api_key,
        dimension=config.dimension,
        base_url=environment.fill(config.base_url),
        address_as_written=config.base_url,
        timeout=config.timeout_seconds,
        batch_size=config.batch_size,
        strip_newlines=config.strip_newlines,
    )
    return RetryingEmbedder(
        inner,
        retry=config.retry,
        max_concurrent=config.max_concurrent,
        requests_per_minute=config.requests_per_minute,
    )


class OpenAIEmbedder(Embedder):
    """Sends one request per call; wrap it in a `RetryingEmbedder` for retries and limits.

    Texts longer than `MAX_TOKENS` are truncated for the models that OpenAI documents. The limits
    of other models are unknown here, and their server's refusal is passed on. The libraries are
    loaded and the key is looked up at the first call. Safe to share among threads and event loops.
    """

    def __init__(
        self,
        *,
        model: str,
        api_key: Callable[[], str],
        dimension: int | None = None,
        base_url: str | None = None,
        address_as_written: str | None = None,
        timeout: float = 60,
        batch_size: int = 96,
        strip_newlines: bool = False,
    ) -> None:
        """
        Args:
            model: the provider's name of the model.
            api_key: returns the key when it is needed.
            dimension: the length of the vectors to request; None uses the model's own.
            base_url: the address of another server than OpenAI's.
            address_as_written: how messages name that server; `base_url` when omitted.
            timeout: seconds for one call, from connecting to the last byte.
            batch_size: texts per call.
            strip_newlines: replace line breaks with spaces.
        """
        self.batch_size = batch_size
        self._model = model
        self._api_key = api_key
        self._own_dimension = OPENAI_DIMENSIONS.get(model)
        self._dimension = dimension or self._own_dimension
        self._base_url = base_url
        self._address = address_as_written or base_url or ""
        self._hidden = {base_url: self._address} if base_url not in (None, self._address) else {}
        self._timeout = timeout
        self._strip_newlines = strip_newlines
        self._clients: dict[asyncio.AbstractEventLoop, OpenAIEmbeddings] = {}

    @property
    def fingerprint(self) -> Fingerprint:
        stripped = "newlines stripped" if self._strip_newlines else ""
        address = address_digest(self._base_url) if self._base_url else ""
        return Fingerprint("openai", self._model, stripped, self._dimension, address=address)

    def count_truncated(self, texts: Sequence[str]) -> int:
        if self._own_dimension is None:
            return 0
        return sum(cut_to_limit(text) != text for text in self._stripped(texts))

    def count_tokens(self, texts: Sequence[str]) -> TokenCount:
        """Return the tokens that OpenAI charges for; an estimate for models of other providers."""
        inputs = self._inputs(list(map(encodable, texts)))
        return estimated(inputs) if self._own_dimension is None else counted(inputs)

    async def embed_documents(self, texts: Sequence[str]) -> Matrix:
        matrix: Matrix = await self._request(texts)  # lists of floats: every caller converts them
        return matrix

    async def embed_query(self, text: str) -> Vector:
        vector: Vector = (await embed_documents(self, [text]))[0]
        return vector

    async def _request(self, texts: Sequence[str]) -> Any:
        inputs = await asyncio.to_thread(self._inputs, texts)
        embeddings = await self._client()
        try:
            async with asyncio.timeout(self._timeout):
                return await embeddings.aembed_documents(inputs)
        except Exception as error:  # any of the client's own exceptions, without the key
            message = provider_message(error, embeddings, values=self._hidden)
            kind = EmbedderError
            if isinstance(error, TimeoutError):
                message = f"no answer within {self._timeout:g} s"
            elif isinstance(error, AttributeError | TypeError | ValueError):
                message = f"the answer contains no embeddings ({message})"
                kind = UnreadableAnswerError
            elif isinstance(root := _root(error), OSError):
                message += f" ({without(str(root), self._hidden)})"
            raise kind(f"embedder {self.fingerprint} failed: {message}") from error

    def _inputs(self, texts: Sequence[str]) -> list[str]:
        """Return the texts as they are sent."""
        inputs = self._stripped(texts)
        if self._own_dimension is not None:
            inputs = [cut_to_limit(text) for text in inputs]
        return [text or " " for text in inputs]  # OpenAI refuses a batch with an empty text

    def _stripped(self, texts: Sequence[str]) -> list[str]:
        if not self._strip_newlines:
            return list(texts)
        return [re.sub(r"\r\n|\r|\n", " ", text) for text in texts]

    async def _client(self) -> OpenAIEmbeddings:
        """Return the running loop's client: loops that run in threads cannot share one."""
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            load = partial(import_extra, extra="openai", purpose=f"embedder {self.fingerprint}")
            # In a thread, because the imports take seconds.
            openai = await asyncio.to_thread(load, "openai")
            client = self._new_client(openai, await asyncio.to_thread(load, "langchain_openai"))
            for closed in [client for client in self._clients if client.is_closed()]:
                self._clients.pop(closed, None)
            self._clients[loop] = client
        return self._clients[loop]

    def _checked_key(self) -> str:
        key = self._api_key()
        if not key or not key.isascii() or not key.isprintable() or " " in key:
            # The client would refuse it as part of a header, with a message that quotes it.
            raise EmbedderError(
                f"embedder {self.fingerprint}: the API key is empty or contains a space, a line "
                "break or a character that is not ASCII; check the variable that api_key names"
            )
        return key

    def _new_client(self, openai: Any, langchain_openai: Any) -> OpenAIEmbeddings:
        address = self._base_url or ADDRESS
        client = openai.AsyncOpenAI(
            api_key=self._checked_key(),
            base_url=address,
            timeout=self._timeout,
            # `RetryingEmbedder` retries, so that each call counts for the limits that callers
            # share.
            max_retries=0,
            # No signal tells when a loop ends: an open connection would outlive it.
            default_headers={"Connection": "close"},
            # The client's own default closes itself on whichever loop garbage-collects it.
            http_client=openai.DefaultAsyncHttpxClient(),
        )
        is_natural = self._dimension == self._own_dimension
        embeddings: OpenAIEmbeddings = langchain_openai.OpenAIEmbeddings(
            model=self._model,
            api_key=client.api_key,
            base_url=address,
            # Older models refuse the parameter, even with the right number.
            dimensions=None if is_natural else self._dimension,
            chunk_size=2048,  # keeps one request per call
            max_retries=0,
            # This check downloads a tokenizer, sends tokens (which other servers do not know), and
            # averages the parts of long texts; `cut_to_limit` truncates them first, offline.
            check_embedding_ctx_length=False,
            openai_api_type=None,
            async_client=client.embeddings,
        )
        return embeddings


def cut_to_limit(text: str) -> str:
    """Return the start of a text that OpenAI's embedding models read, in whole characters."""
    if len(text.encode("utf-8", "surrogatepass")) <= MAX_TOKENS:  # a token is at least one byte
        return text
    tokens = encode(OPENAI_ENCODING, text)
    if len(tokens) <= MAX_TOKENS:
        return text
    parts = token_bytes(OPENAI_ENCODING, tokens[:MAX_TOKENS])
    return b"".join(parts).decode("utf-8", "ignore")


def _root(error: BaseException) -> BaseException:
    """Return the first exception in the chain that led to this one."""
    for _ in range(10):
        behind = error.__cause__ or error.__context__
        if behind is None:
            return error
        error = behind
    return error
