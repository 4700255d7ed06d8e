"""Any LangChain `Embeddings` as an embedder."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from lorebind_knowledge.bridge import call_client
from lorebind_knowledge.declarations.embedders import OPENAI_DIMENSIONS
from lorebind_knowledge.embedders.base import Embedder, Fingerprint, encodable
from lorebind_knowledge.embedders.failures import said_by_provider
from lorebind_knowledge.embedders.tokens import TokenCount, counted, estimated
from lorebind_knowledge.errors import EmbedderError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from langchain_core.embeddings import Embeddings

    from lorebind_knowledge.records import Matrix, Vector

T = TypeVar("T")


class LangChainEmbedder(Embedder):
    """Wraps a live `Embeddings`, whose methods of the caller's colour are called."""

    def __init__(
        self,
        embeddings: Embeddings,
        *,
        model: str = "",
        settings: Mapping[str, Any] | None = None,
        batch_size: int = 64,
        say: Callable[[Exception], str] | None = None,
    ) -> None:
        """
        Args:
            embeddings: the object to call.
            model: what it is called in messages and manifests; the class's name when empty.
            settings: what it was configured with, secrets left out: part of its identity, since
                LangChain objects carry none.
            batch_size: texts per call.
            say: an exception's words without secrets; None knows of those that the object holds.
        """
        self.batch_size = batch_size
        self._embeddings = embeddings
        self._say = say or partial(said_by_provider, holder=embeddings)
        self._model = model or type(embeddings).__name__
        self._is_openai = (model or str((settings or {}).get("model"))) in OPENAI_DIMENSIONS
        kind = f"{type(embeddings).__module__}.{type(embeddings).__qualname__}"
        self._revision = f"{kind} {json.dumps(dict(settings or {}), sort_keys=True, default=str)}"

    @property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint("langchain", self._model, self._revision)

    def count_tokens(self, texts: Sequence[str]) -> TokenCount:
        """Exact for OpenAI's models, by whichever class they are called."""
        return counted(map(encodable, texts)) if self._is_openai else estimated(texts)

    async def embed_documents(self, texts: Sequence[str]) -> Matrix:
        vectors: Any = await self._asked(
            self._embeddings.embed_documents, self._embeddings.aembed_documents, list(texts)
        )
        matrix: Matrix = vectors  # lists of floats: checked and made a matrix by every caller
        return matrix

    async def embed_query(self, text: str) -> Vector:
        numbers: Any = await self._asked(
            self._embeddings.embed_query, self._embeddings.aembed_query, text
        )
        vector: Vector = numbers  # as above
        return vector

    async def _asked(
        self, blocking: Callable[[T], Any], awaited: Callable[[T], Awaitable[Any]], given: T
    ) -> Any:
        try:
            return await call_client(blocking, awaited, given)
        except Exception as error:  # any provider's own exceptions, in words that hold no key
            said = self._say(error)
            raise EmbedderError(f"embedder {self.fingerprint} failed: {said}") from error
